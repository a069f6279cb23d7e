// SPDX-License-Identifier: Apache-2.0
//
// Watched descriptors as poll requests in a ring. A slot belongs to a watch from arm() until its request has ended or
// disarm() gave it up; its generation changes with each owner, so a completion that comes late names nobody.
#include "reactor/uring_watches.h"

#include <poll.h>

#include <cerrno>

namespace mqblk {

io_uring_sqe* next_sqe(io_uring& ring) noexcept {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    if (sqe == nullptr && io_uring_submit(&ring) > 0) sqe = io_uring_get_sqe(&ring);
    return sqe;
}

UringWatches::~UringWatches() {
    for (Slot& slot : slots_) {
        if (slot.state != State::free) slot.watch->slots_[slot.for_write ? 1 : 0] = no_slot;
    }
}

std::uint32_t UringWatches::arm(UringWatch& watch, int fd, bool for_write) {
    if (free_.empty()) {
        free_.reserve(slots_.size() + 1);  // release() must not allocate
        free_.push_back(static_cast<std::uint32_t>(slots_.size()));
        slots_.emplace_back();
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.watch = &watch;
    slot.fd = fd;
    slot.for_write = for_write;
    slot.state = State::wanted;
    changes_.push_back({name(index), true});
    return index;
}

void UringWatches::disarm(std::uint32_t index) noexcept {
    if (slots_[index].state == State::armed) changes_.push_back({name(index), false});
    release(index);
}

void UringWatches::release(std::uint32_t index) noexcept {
    Slot& slot = slots_[index];
    slot.watch->slots_[slot.for_write ? 1 : 0] = no_slot;
    slot.state = State::free;
    ++slot.generation;
    free_.push_back(index);
}

UringWatches::Slot* UringWatches::find(std::uint64_t user_data) noexcept {
    const auto index = static_cast<std::uint32_t>(user_data);
    if (index >= slots_.size() || name(index) != user_data || slots_[index].state == State::free) return nullptr;
    return &slots_[index];
}

void UringWatches::flush(io_uring& ring) noexcept {
    std::size_t handled = 0;
    for (; handled < changes_.size(); ++handled) {
        const Change& change = changes_[handled];
        Slot* const slot = change.add ? find(change.user_data) : nullptr;
        if (change.add && (slot == nullptr || slot->state != State::wanted)) continue;  // given up before it was sent
        io_uring_sqe* const sqe = next_sqe(ring);
        if (sqe == nullptr) break;
        if (change.add) {
            io_uring_prep_poll_add(sqe, slot->fd, slot->for_write ? POLLOUT : POLLIN);
            io_uring_sqe_set_data64(sqe, change.user_data);
            slot->state = State::armed;
        } else {
            io_uring_prep_poll_remove(sqe, change.user_data);
            io_uring_sqe_set_data64(sqe, no_one);
        }
    }
    changes_.erase(changes_.begin(), changes_.begin() + static_cast<std::ptrdiff_t>(handled));
}

void UringWatches::complete(std::uint64_t user_data, int result) {
    Slot* const slot = find(user_data);
    if (slot == nullptr) return;
    if (result == -ECANCELED) {  // not by us: the thread that submitted it is gone. Others still wait for it.
        slot->state = State::wanted;
        changes_.push_back({user_data, true});
        return;
    }
    UringWatch& watch = *slot->watch;
    release(static_cast<std::uint32_t>(user_data));
    const auto ready = watch.ready_;  // a copy: the callback may destroy the watch
    ready();
}

void UringWatch::arm(bool for_write) {
    std::uint32_t& slot = slots_[for_write ? 1 : 0];
    if (slot != UringWatches::no_slot) return;
    slot = watches_->arm(*this, fd_, for_write);
    if (changed_) changed_();
}

void UringWatch::disarm() noexcept {
    for (const std::uint32_t slot : slots_) {
        if (slot == UringWatches::no_slot) continue;
        watches_->disarm(slot);
        if (changed_) changed_();
    }
}

}  // namespace mqblk
