// SPDX-License-Identifier: Apache-2.0
//
// What was done to a disk. Each channel counts for itself, on one thread, in counters that any thread may read;
// reading sums them, and nothing stops for it. Follows Linux's block statistics (Documentation/block/stat.rst): I/Os
// are counted when they are done, bios that were merged into another's request count as merges besides.
#pragma once

#include "base/histogram.h"

#include <mqblk/bio.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace mqblk {
class Device;
}

namespace mqblk::block {

enum class OpGroup : std::uint8_t { read, write, discard, flush };
inline constexpr unsigned op_group_count = 4;
[[nodiscard]] constexpr OpGroup group_of(Op op) noexcept {
    constexpr OpGroup groups[op_count] = {OpGroup::read, OpGroup::write, OpGroup::flush, OpGroup::discard,
                                          OpGroup::discard};
    return groups[static_cast<unsigned>(op)];
}

/// A device's totals over all its channels, open and closed.
struct Statistics {
    struct Group {
        std::uint64_t ios = 0;     ///< bios that ended, with or without success
        std::uint64_t bytes = 0;   ///< of those that succeeded
        std::uint64_t errors = 0;  ///< of them, those that failed
        std::uint64_t merges = 0;  ///< of them, those that went out in another's request
        Histogram latency;         ///< from submit to the completion callback
    };
    std::array<Group, op_group_count> groups;
    std::uint64_t in_flight = 0;  ///< bios submitted and not yet ended, now
    std::uint64_t requests = 0;   ///< handed to the driver
    std::uint64_t splits = 0;     ///< requests that carried a part of a bio only
    std::uint64_t requeues = 0;   ///< times the driver was busy
    std::uint64_t timeouts = 0;   ///< times a request was late

    [[nodiscard]] const Group& of(OpGroup group) const noexcept { return groups[static_cast<unsigned>(group)]; }
};

/// Any thread.
[[nodiscard]] Statistics statistics(Device&);

/// One counter with one writer.
class Counter {
  public:
    void add(std::uint64_t by = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> value_{0};
};

/// One channel's counts. All zero bytes when new: lies in memory that is touched by use only.
struct ChannelCounters {
    struct Group {
        Counter bytes, errors, merges;
    };
    // By the channel's thread, when a bio ends, or by whoever has the queue.
    std::array<Group, op_group_count> groups;
    Counter requests, splits, requeues, timeouts;
    std::array<Histogram, op_group_count> latency;

    [[nodiscard]] bool unused() const noexcept;
    void add_to(Statistics&) const noexcept;
};

}  // namespace mqblk::block
