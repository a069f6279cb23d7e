// SPDX-License-Identifier: Apache-2.0
//
// Uses a disk as a caller would: one I/O at a time, or random ones in flight together that are compared with a model of
// every byte.
#pragma once

#include "base/random.h"

#include <mqblk/device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace mqblk::test {

class DiskUser {
  public:
    /// What an opener returned; an error is thrown, which fails the test with its text.
    explicit DiskUser(Result<std::shared_ptr<Device>> opened);
    /// With its channel in a reactor of the caller's.
    DiskUser(std::shared_ptr<Device> device, Reactor& reactor);

    /// Submits and waits. For reads and writes `data` is one segment.
    Status run(Op op, std::uint64_t sector, std::uint64_t sectors, std::span<std::byte> data = {},
               std::uint8_t flags = 0);
    Status read(std::uint64_t sector, std::span<std::byte> data) {
        return run(Op::read, sector, data.size() / 512, data);
    }
    Status write(std::uint64_t sector, std::span<std::byte> data, std::uint8_t flags = 0) {
        return run(Op::write, sector, data.size() / 512, data, flags);
    }
    [[nodiscard]] Channel& channel() noexcept { return *channel_; }
    [[nodiscard]] Device& device() noexcept { return *device_; }

  private:
    std::shared_ptr<Device> device_;
    std::unique_ptr<Channel> channel_;
};

struct ExerciseOptions {
    unsigned operations = 2000;
    unsigned in_flight = 16;
    std::uint64_t max_bytes = 64 * 1024;  ///< of one operation
    bool odd_memory = true;               ///< pieces at any address, of any length
};

/// Random reads, writes (some forced), zeroings, discards and flushes. The disk must be zero at the start, and read as
/// zero where it was discarded. Returns the bytes that it ought to hold now; failures are reported to GoogleTest.
std::vector<std::byte> exercise(DiskUser&, Random&, const ExerciseOptions&);

/// Two writes of 4 KiB, at the beginning and at `end` (a sector), are checked against the old size and reach the disk
/// when `shrink` has made it end there: the first succeeds, the second is out of range.
void expect_shrinking_spares_what_is_below(Device&, std::uint64_t end, const std::function<bool()>& shrink);

/// Deterministic bytes.
std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed);

}  // namespace mqblk::test
