// SPDX-License-Identifier: Apache-2.0
#include "block/scheduler.h"

#include "block/deadline.h"
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
    if (!can_grow(first) || !can_grow(bio) || !counted(first, limits) || !counted(bio, limits) ||
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
    if (!can_grow(first) || !can_grow(bio) || !counted(first, limits) || !counted(bio, limits) ||
        !may_merge_front(limits, extent_of(first), bio, segments)) {
        return nullptr;
    }
    bio.progress.next = &first;
    bio.progress.last = first.progress.last;
    bio.progress.segments = segments;
    return &bio;
}

bool FifoScheduler::insert(Bio& first, const QueueLimits& limits, Merges merges, std::int64_t) noexcept {
    if (head_ == nullptr) {
        head_ = last_group_ = &first;
        return false;
    }
    if (merges != Merges::none && grow_back(*last_group_, first, limits)) return true;
    last_group_->progress.last->progress.next = &first;
    last_group_ = &first;
    return false;
}

Bio* FifoScheduler::take(std::int64_t) noexcept {
    Bio* const first = head_;
    if (first == nullptr) return nullptr;
    head_ = first->progress.last->progress.next;
    first->progress.last->progress.next = nullptr;
    return first;
}

std::string_view to_string(SchedulerKind kind) noexcept {
    return kind == SchedulerKind::none ? "none" : "mq-deadline";
}

std::unique_ptr<Scheduler> make_scheduler(SchedulerKind kind) {
    if (kind == SchedulerKind::mq_deadline) return std::make_unique<DeadlineScheduler>();
    return std::make_unique<FifoScheduler>();
}

}  // namespace mqblk::block
