// SPDX-License-Identifier: Apache-2.0
//
// The scheduler `mq-deadline`: requests leave in the order of their sectors, in batches of one direction, reads before
// writes; but none waits longer than its expiry once it is at the head of its direction's line, and writes are passed
// over a bounded number of times. Constants are Linux's. It sorts a window of the oldest groups; what does not fit
// waits in order of arrival, as submitters do in Linux when nr_requests are queued. Without priorities.
#pragma once

#include "block/scheduler.h"

#include <array>
#include <cstdint>
#include <vector>

namespace mqblk::block {

class DeadlineScheduler final : public Scheduler {
  public:
    static constexpr std::int64_t read_expire_ns = 500'000'000;
    static constexpr std::int64_t write_expire_ns = 5'000'000'000;
    static constexpr unsigned writes_starved = 2;  ///< times reads may go first while writes wait
    static constexpr unsigned fifo_batch = 16;     ///< requests by sector before the lines are looked at again
    static constexpr unsigned window = 256;        ///< groups that are sorted

    DeadlineScheduler();
    bool insert(Bio& first, const QueueLimits&, Merges, std::int64_t now_ns) noexcept override;
    [[nodiscard]] Bio* take(std::int64_t now_ns) noexcept override;
    [[nodiscard]] bool empty() const noexcept override {
        return directions_[0].count + directions_[1].count == 0 && overflow_.empty();
    }

  private:
    using Slot = std::uint16_t;
    static constexpr Slot no_slot = window;

    struct Node {
        Bio* first;
        std::int64_t expires_ns;
        Slot older, younger;  // in its direction's line; free nodes are chained by `younger`
    };
    struct Direction {
        std::array<Slot, window> sorted;  // by sector; `count` of them
        unsigned count = 0;
        Slot oldest = no_slot, youngest = no_slot;
    };

    void admit(Bio& first, std::int64_t now_ns) noexcept;
    [[nodiscard]] bool merge(Direction&, Bio& bio, const QueueLimits&, Merges) noexcept;
    /// Position in `sorted` of the first group at or after `sector`.
    [[nodiscard]] unsigned lower_bound(const Direction&, std::uint64_t sector) const noexcept;
    [[nodiscard]] unsigned position_of(const Direction&, Slot) const noexcept;
    [[nodiscard]] unsigned choose(unsigned which, std::int64_t now_ns) noexcept;
    Bio* remove(unsigned which, unsigned position) noexcept;

    std::vector<Node> nodes_;
    Slot free_ = 0;
    std::array<Direction, 2> directions_;  // reads, and all that changes data
    FifoScheduler overflow_;
    unsigned batching_ = fifo_batch;  // how far the batch in hand is; full: begin another
    unsigned direction_ = 0;          // of the batch
    std::uint64_t latest_ = 0;        // where the batch has come to
    unsigned starved_ = 0;
};

}  // namespace mqblk::block
