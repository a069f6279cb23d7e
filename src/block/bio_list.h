// SPDX-License-Identifier: Apache-2.0
//
// Lists that cost no memory. BioList: first in, first out, through Bio::progress.next. Ring: objects that take turns,
// through a RingLink they derive from; an object is in a ring once or not at all.
#pragma once

#include <mqblk/bio.h>

#include <cassert>

namespace mqblk::block {

class BioList {
  public:
    [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
    [[nodiscard]] unsigned size() const noexcept { return size_; }
    [[nodiscard]] Bio* front() const noexcept { return head_; }

    void push_back(Bio& bio) noexcept {
        bio.progress.next = nullptr;
        if (head_ == nullptr) {
            head_ = &bio;
        } else {
            tail_->progress.next = &bio;
        }
        tail_ = &bio;
        ++size_;
    }

    /// The first one; the list is not empty.
    Bio& pop_front() noexcept {
        assert(head_ != nullptr);
        Bio& bio = *head_;
        head_ = bio.progress.next;
        --size_;
        return bio;
    }

  private:
    Bio* head_ = nullptr;
    Bio* tail_ = nullptr;
    unsigned size_ = 0;
};

/// Base of an object that can be in a ring; `Tag` tells the rings apart.
template <class Tag>
struct RingLink {
    RingLink* previous = nullptr;
    RingLink* next = nullptr;  ///< null: in no ring
    [[nodiscard]] bool linked() const noexcept { return next != nullptr; }
};

template <class Tag>
class Ring {
  public:
    using Link = RingLink<Tag>;
    [[nodiscard]] bool empty() const noexcept { return front_ == nullptr; }
    [[nodiscard]] unsigned size() const noexcept { return size_; }
    /// The one whose turn it is, or null.
    template <class T>
    [[nodiscard]] T* front() const noexcept {
        return static_cast<T*>(front_);
    }

    /// Behind all others; no effect if it is in the ring.
    void add(Link& link) noexcept {
        if (link.linked()) return;
        ++size_;
        if (front_ == nullptr) {
            link.previous = link.next = front_ = &link;
            return;
        }
        link.previous = front_->previous;
        link.next = front_;
        front_->previous->next = &link;
        front_->previous = &link;
    }

    /// No effect if it is in no ring.
    void remove(Link& link) noexcept {
        if (!link.linked()) return;
        --size_;
        if (link.next == &link) {
            front_ = nullptr;
        } else {
            link.previous->next = link.next;
            link.next->previous = link.previous;
            if (front_ == &link) front_ = link.next;
        }
        link.previous = link.next = nullptr;
    }

    /// The next one's turn.
    void rotate() noexcept {
        if (front_ != nullptr) front_ = front_->next;
    }

  private:
    Link* front_ = nullptr;
    unsigned size_ = 0;
};

}  // namespace mqblk::block
