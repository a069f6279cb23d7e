// SPDX-License-Identifier: Apache-2.0
#include "block/deadline_level.h"

#include <algorithm>
#include <cassert>

namespace mqblk::block {

namespace {
unsigned direction_of(const Bio& bio) noexcept {
    return bio.op == Op::read ? 0 : 1;
}
}  // namespace

DeadlineLevel::DeadlineLevel(const DeadlineTunables& tunables) : tunables_(tunables), nodes_(window) {
    for (Slot i = 0; i < window; ++i) nodes_[i].younger = static_cast<Slot>(i + 1);
}

unsigned DeadlineLevel::lower_bound(const Direction& direction, std::uint64_t sector) const noexcept {
    const auto begin = direction.sorted.begin();
    const auto at = std::lower_bound(begin, begin + direction.count, sector, [this](Slot slot, std::uint64_t wanted) {
        return nodes_[slot].first->sector < wanted;
    });
    return static_cast<unsigned>(at - begin);
}

unsigned DeadlineLevel::position_of(const Direction& direction, Slot slot) const noexcept {
    unsigned position = lower_bound(direction, nodes_[slot].first->sector);
    while (direction.sorted[position] != slot) ++position;
    return position;
}

bool DeadlineLevel::merge(Direction& direction, Bio& bio, const QueueLimits& limits, Merges merges) noexcept {
    if (merges == Merges::none || direction.count == 0) return false;
    if (merges == Merges::last_only) return grow_back(*nodes_[direction.youngest].first, bio, limits);
    const unsigned position = lower_bound(direction, bio.sector);
    if (position > 0 && grow_back(*nodes_[direction.sorted[position - 1]].first, bio, limits)) return true;
    if (position == direction.count || !tunables_.front_merges) return false;
    // The neighbour behind keeps its place in both orders: nothing lies between the two.
    Node& behind = nodes_[direction.sorted[position]];
    Bio* const first = grow_front(*behind.first, bio, limits);
    if (first == nullptr) return false;
    behind.first = first;
    return true;
}

bool DeadlineLevel::insert(Bio& first, const QueueLimits& limits, Merges merges, std::int64_t now_ns) noexcept {
    if (merge(directions_[direction_of(first)], first, limits, merges)) return true;
    if (free_ == no_slot || !overflow_.empty()) return overflow_.insert(first, limits, merges);
    admit(first, now_ns);
    return false;
}

void DeadlineLevel::admit(Bio& first, std::int64_t now_ns) noexcept {
    const unsigned which = direction_of(first);
    Direction& direction = directions_[which];
    const Slot slot = free_;
    Node& node = nodes_[slot];
    free_ = node.younger;
    node = {&first, now_ns, direction.youngest, no_slot};
    (direction.youngest == no_slot ? direction.oldest : nodes_[direction.youngest].younger) = slot;
    direction.youngest = slot;

    const unsigned position = lower_bound(direction, first.sector + 1);  // behind those at the same sector
    const auto at = direction.sorted.begin() + position;
    std::move_backward(at, direction.sorted.begin() + direction.count, direction.sorted.begin() + direction.count + 1);
    *at = slot;
    ++direction.count;
}

Bio* DeadlineLevel::remove(unsigned which, unsigned position) noexcept {
    Direction& direction = directions_[which];
    const Slot slot = direction.sorted[position];
    const auto at = direction.sorted.begin() + position;
    std::move(at + 1, direction.sorted.begin() + direction.count, at);
    --direction.count;
    Node& node = nodes_[slot];
    (node.older == no_slot ? direction.oldest : nodes_[node.older].younger) = node.younger;
    (node.younger == no_slot ? direction.youngest : nodes_[node.younger].older) = node.older;
    Bio* const first = node.first;
    node.younger = free_;
    free_ = slot;
    return first;
}

/// Where in direction `which` a new batch begins: the oldest if it has expired or nothing lies ahead, else what comes
/// next by sector.
unsigned DeadlineLevel::choose(unsigned which, std::int64_t now_ns) noexcept {
    const Direction& direction = directions_[which];
    const std::int64_t expire_ns = which == 0 ? tunables_.read_expire_ns : tunables_.write_expire_ns;
    if (now_ns - nodes_[direction.oldest].queued_ns < expire_ns && which == direction_) {
        const unsigned next = lower_bound(direction, latest_);
        if (next < direction.count) return next;
    }
    return position_of(direction, direction.oldest);
}

void DeadlineLevel::admit_waiting(std::int64_t now_ns) noexcept {
    while (free_ != no_slot) {
        Bio* const waiting = overflow_.take();
        if (waiting == nullptr) return;
        admit(*waiting, now_ns);
    }
}

Bio* DeadlineLevel::take(std::int64_t now_ns) noexcept {
    admit_waiting(now_ns);
    if (directions_[0].count + directions_[1].count == 0) return nullptr;

    unsigned position = directions_[direction_].count;
    if (in_batch_ && batching_ < tunables_.fifo_batch) position = lower_bound(directions_[direction_], latest_);
    if (position == directions_[direction_].count) {
        unsigned which = 1;
        if (directions_[0].count != 0)
            which = directions_[1].count != 0 && starved_++ >= tunables_.writes_starved ? 1 : 0;
        if (which == 1) starved_ = 0;
        position = choose(which, now_ns);
        direction_ = which;
        batching_ = 0;
        in_batch_ = true;
    }
    ++batching_;
    Bio* const first = remove(direction_, position);
    latest_ = group_end(*first);
    return first;
}

Bio* DeadlineLevel::take_of(const ChannelCore& channel) noexcept {
    for (unsigned which = 0; which < directions_.size(); ++which)
        for (Slot slot = directions_[which].oldest; slot != no_slot; slot = nodes_[slot].younger)
            if (nodes_[slot].first->progress.channel == &channel)
                return remove(which, position_of(directions_[which], slot));
    return overflow_.take_of(channel);
}

bool DeadlineLevel::waits_since(std::int64_t then_ns) const noexcept {
    // What does not fit the window is admitted by the next take().
    if (directions_[0].count + directions_[1].count == 0) return !overflow_.empty();
    for (const Direction& direction : directions_)
        if (direction.count != 0 && nodes_[direction.oldest].queued_ns <= then_ns) return true;
    return false;
}

}  // namespace mqblk::block
