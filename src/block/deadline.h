// SPDX-License-Identifier: Apache-2.0
//
// The scheduler `mq-deadline`: one for a disk on a hardware queue, for all channels that share the queue, under that
// queue's lock where it has one; a driver with one queue has one scheduler for each disk, then. Three priorities: the
// highest that waits goes first, and lower ones go while nothing of a higher one waits or is in flight, or once they
// have waited for prio_aging_expire. Within a priority, see deadline_level.h.
#pragma once

#include "block/deadline_level.h"

#include <array>
#include <cstdint>

namespace mqblk::block {

class DeadlineScheduler {
  public:
    explicit DeadlineScheduler(const DeadlineTunables& tunables = {}) : tunables_(tunables) {}
    DeadlineScheduler(const DeadlineScheduler&) = delete;
    DeadlineScheduler& operator=(const DeadlineScheduler&) = delete;

    void tune(const DeadlineTunables& tunables) noexcept { tunables_ = tunables; }
    /// Takes a group; true if it became part of one that waits.
    bool insert(Bio& first, const QueueLimits&, Merges, std::int64_t now_ns) noexcept;
    /// take() would find something.
    [[nodiscard]] bool ready(std::int64_t now_ns) const noexcept { return next_level(now_ns) != none; }
    /// The group to go next; null: nothing waits, or nothing that may go before something in flight has ended.
    [[nodiscard]] Bio* take(std::int64_t now_ns) noexcept;
    /// Some group of `channel`, or null: to give them up or to move them.
    [[nodiscard]] Bio* take_of(const ChannelCore& channel) noexcept;
    [[nodiscard]] bool empty() const noexcept;

    /// A request of this priority sets out and ends.
    void began(Priority priority) noexcept {
        ++in_flight_[level_of(priority)];
        ++all_in_flight_;
    }
    void ended(Priority priority) noexcept {
        --in_flight_[level_of(priority)];
        --all_in_flight_;
    }
    [[nodiscard]] std::uint32_t in_flight() const noexcept { return all_in_flight_; }

  private:
    static constexpr unsigned none = priority_count;
    [[nodiscard]] static unsigned level_of(Priority priority) noexcept {
        const auto level = static_cast<unsigned>(priority);
        return level < priority_count ? level : priority_count - 1;
    }
    [[nodiscard]] unsigned next_level(std::int64_t now_ns) const noexcept;

    DeadlineTunables tunables_;
    std::array<DeadlineLevel, priority_count> levels_{DeadlineLevel(tunables_), DeadlineLevel(tunables_),
                                                      DeadlineLevel(tunables_)};
    std::array<std::uint32_t, priority_count> in_flight_{};
    std::uint32_t all_in_flight_ = 0;
};

}  // namespace mqblk::block
