// SPDX-License-Identifier: Apache-2.0
//
// DeadlineLevel: what the scheduler mq-deadline holds of one priority. Requests leave in the order of their sectors, in
// batches of one direction, reads before writes; but none waits longer than its expiry once it is at the head of its
// direction's line, and writes are passed over a bounded number of times. It sorts a window of the oldest groups; what
// does not fit waits in order of arrival, as submitters do in Linux when nr_requests are queued.
#pragma once

#include "block/scheduler.h"

#include <array>
#include <cstdint>
#include <vector>

namespace mqblk::block {

/// The names, units aside, and the defaults are Linux's (/sys/block/X/queue/iosched).
struct DeadlineTunables {
    std::int64_t read_expire_ns = 500'000'000;
    std::int64_t write_expire_ns = 5'000'000'000;
    std::uint32_t writes_starved = 2;  ///< times reads may go first while writes wait
    std::uint32_t fifo_batch = 16;     ///< requests by sector before the lines are looked at again
    bool front_merges = true;
    std::int64_t prio_aging_expire_ns = 10'000'000'000;  ///< what has waited for longer has the highest priority
};

class DeadlineLevel {
  public:
    static constexpr unsigned window = 256;  ///< groups that are sorted

    explicit DeadlineLevel(const DeadlineTunables&);
    /// Takes a group; true if it became part of one that waits.
    bool insert(Bio& first, const QueueLimits&, Merges, std::int64_t now_ns) noexcept;
    /// The group to go next, or null.
    [[nodiscard]] Bio* take(std::int64_t now_ns) noexcept;
    /// A group of `channel`, the oldest of its direction, or null.
    [[nodiscard]] Bio* take_of(const ChannelCore& channel) noexcept;
    [[nodiscard]] bool empty() const noexcept {
        return directions_[0].count + directions_[1].count == 0 && overflow_.empty();
    }
    /// Something has waited since `then_ns` or longer.
    [[nodiscard]] bool waits_since(std::int64_t then_ns) const noexcept;

  private:
    using Slot = std::uint16_t;
    static constexpr Slot no_slot = window;

    struct Node {
        Bio* first;
        std::int64_t queued_ns;
        Slot older, younger;  // in its direction's line; free nodes are chained by `younger`
    };
    struct Direction {
        std::array<Slot, window> sorted;  // by sector; `count` of them
        unsigned count = 0;
        Slot oldest = no_slot, youngest = no_slot;
    };

    void admit(Bio& first, std::int64_t now_ns) noexcept;
    void admit_waiting(std::int64_t now_ns) noexcept;
    [[nodiscard]] bool merge(Direction&, Bio& bio, const QueueLimits&, Merges) noexcept;
    /// Position in `sorted` of the first group at or after `sector`.
    [[nodiscard]] unsigned lower_bound(const Direction&, std::uint64_t sector) const noexcept;
    [[nodiscard]] unsigned position_of(const Direction&, Slot) const noexcept;
    [[nodiscard]] unsigned choose(unsigned which, std::int64_t now_ns) noexcept;
    Bio* remove(unsigned which, unsigned position) noexcept;

    const DeadlineTunables& tunables_;
    std::vector<Node> nodes_;
    Slot free_ = 0;
    std::array<Direction, 2> directions_;  // reads, and all that changes data
    Fifo overflow_;
    bool in_batch_ = false;
    unsigned batching_ = 0;     // how far the batch in hand is
    unsigned direction_ = 0;    // of the batch
    std::uint64_t latest_ = 0;  // where the batch has come to
    unsigned starved_ = 0;
};

}  // namespace mqblk::block
