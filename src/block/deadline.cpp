// SPDX-License-Identifier: Apache-2.0
#include "block/deadline.h"

#include <algorithm>

namespace mqblk::block {

bool DeadlineScheduler::insert(Bio& first, const QueueLimits& limits, Merges merges, std::int64_t now_ns) noexcept {
    return levels_[level_of(first.priority)].insert(first, limits, merges, now_ns);
}

/// Which priority goes next; `none`: none does now.
unsigned DeadlineScheduler::next_level(std::int64_t now_ns) const noexcept {
    for (unsigned level = 0; level < priority_count; ++level) {
        if (levels_[level].empty() && in_flight_[level] == 0) continue;
        // Whatever is below this one waits for it, up to a point.
        for (unsigned lower = level + 1; lower < priority_count; ++lower)
            if (levels_[lower].waits_since(now_ns - tunables_.prio_aging_expire_ns)) return lower;
        return levels_[level].empty() ? none : level;
    }
    return none;
}

Bio* DeadlineScheduler::take(std::int64_t now_ns) noexcept {
    const unsigned level = next_level(now_ns);
    return level == none ? nullptr : levels_[level].take(now_ns);
}

Bio* DeadlineScheduler::take_of(const ChannelCore& channel) noexcept {
    for (DeadlineLevel& level : levels_)
        if (Bio* const group = level.take_of(channel)) return group;
    return nullptr;
}

bool DeadlineScheduler::empty() const noexcept {
    return std::ranges::all_of(levels_, [](const DeadlineLevel& level) { return level.empty(); });
}

}  // namespace mqblk::block
