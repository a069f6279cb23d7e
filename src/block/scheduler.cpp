// SPDX-License-Identifier: Apache-2.0
#include "block/scheduler.h"

#include "block/split.h"

namespace mqblk::block {

namespace {

bool can_grow(const Bio& bio) noexcept {
    return carries_data(bio.op) && (bio.flags & (bio_fua | bio_preflush | bio_nomerge)) == 0 &&
           bio.progress.issued == 0 && bio.progress.stage == 0;
}

/// Counts a group's pieces when they are first needed. False: it has to be cut, and a cut bio is not merged.
bool counted(Bio& first, const QueueLimits& limits) noexcept {
    if (first.progress.segments != 0) return true;
    const Cut cut = next_cut(limits, first);
    if (cut.sectors != first.sectors) return false;
    first.progress.segments = cut.segments;
    return true;
}

/// One request has one priority, and ends on one channel.
bool alike(const Bio& first, const Bio& bio) noexcept {
    return first.priority == bio.priority && first.progress.channel == bio.progress.channel;
}

Extent extent_of(const Bio& first) noexcept {
    return {first.op, first.flags, first.sector, group_sectors(first), first.progress.segments, first.progress.last,
            &first};
}

}  // namespace

std::uint64_t group_end(const Bio& first) noexcept {
    return first.progress.last->sector + first.progress.last->sectors;
}

std::uint64_t group_sectors(const Bio& first) noexcept {
    return group_end(first) - first.sector;
}

bool grow_back(Bio& first, Bio& bio, const QueueLimits& limits) noexcept {
    if (bio.progress.last != &bio || group_end(first) != bio.sector) return false;
    std::uint32_t segments = 0;
    if (!alike(first, bio) || !can_grow(first) || !can_grow(bio) || !counted(first, limits) || !counted(bio, limits) ||
        !may_merge_back(limits, extent_of(first), bio, segments)) {
        return false;
    }
    bio.progress.next = first.progress.last->progress.next;
    first.progress.last->progress.next = &bio;
    first.progress.last = &bio;
    first.progress.segments = segments;
    return true;
}

Bio* grow_front(Bio& first, Bio& bio, const QueueLimits& limits) noexcept {
    if (bio.progress.last != &bio || bio.sector + bio.sectors != first.sector) return nullptr;
    std::uint32_t segments = 0;
    if (!alike(first, bio) || !can_grow(first) || !can_grow(bio) || !counted(first, limits) || !counted(bio, limits) ||
        !may_merge_front(limits, extent_of(first), bio, segments)) {
        return nullptr;
    }
    bio.progress.next = &first;
    bio.progress.last = first.progress.last;
    bio.progress.segments = segments;
    return &bio;
}

bool Fifo::insert(Bio& first, const QueueLimits& limits, Merges merges) noexcept {
    if (head_ == nullptr) {
        head_ = last_group_ = &first;
        return false;
    }
    if (merges != Merges::none && grow_back(*last_group_, first, limits)) return true;
    last_group_->progress.last->progress.next = &first;
    last_group_ = &first;
    return false;
}

void Fifo::put_back(Bio& first) noexcept {
    if (head_ == nullptr) last_group_ = &first;
    first.progress.last->progress.next = head_;
    head_ = &first;
}

/// The group behind that of `previous`, or the first of all.
Bio* Fifo::take_behind(Bio* previous) noexcept {
    Bio*& link = previous == nullptr ? head_ : previous->progress.last->progress.next;
    Bio* const first = link;
    if (first == nullptr) return nullptr;
    if (first == last_group_) last_group_ = previous;
    Bio& last = *first->progress.last;
    link = last.progress.next;
    last.progress.next = nullptr;
    return first;
}

Bio* Fifo::take() noexcept {
    return take_behind(nullptr);
}

Bio* Fifo::take_of(const ChannelCore& channel) noexcept {
    Bio* previous = nullptr;
    for (Bio* group = head_; group != nullptr; group = group->progress.last->progress.next) {
        if (group->progress.channel == &channel) return take_behind(previous);
        previous = group;
    }
    return nullptr;
}

}  // namespace mqblk::block
