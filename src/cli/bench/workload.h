// SPDX-License-Identifier: Apache-2.0
//
// What a measurement does and what came of it. The workload is fixed before the first I/O and shared by all jobs; a
// result belongs to one job until that job has ended.
#pragma once

#include "base/clock.h"
#include "base/histogram.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mqblk::cli {

enum class Direction : std::uint8_t { read, write, trim };
inline constexpr std::size_t direction_count = 3;
[[nodiscard]] std::string_view to_string(Direction) noexcept;

struct Workload {
    std::string rw = "randread";  ///< as given, for reports
    bool random = true;           ///< offsets
    bool trim = false;            ///< discards instead of reads and writes
    unsigned read_percent = 100;  ///< of I/Os: 100 reads only, 0 writes only
    std::uint64_t block_bytes = 4096;
    unsigned depth = 32;                              ///< in flight for each job, over all its devices
    unsigned jobs = 1;                                ///< threads
    Duration time{0};                                 ///< measured time; 0: until `size_bytes` are done
    Duration ramp{0};                                 ///< runs before, not counted
    std::uint64_t size_bytes = 0;                     ///< of each job; 0: until `time` is over
    std::uint64_t offset_bytes = 0, range_bytes = 0;  ///< the part of each device in use; range 0: to its end
    bool verify = false;
    bool poll = false;  ///< never sleep
    bool continue_on_error = false;
    std::uint64_t seed = 1;
    std::vector<unsigned> cores;  ///< job i runs on cores[i % size]; empty: where the system likes

    [[nodiscard]] bool reads() const noexcept { return !trim && read_percent > 0; }
    [[nodiscard]] bool writes() const noexcept { return !trim && read_percent < 100; }

    /// From fio's names: read, write, randread, randwrite, rw, readwrite, randrw, trim, randtrim.
    [[nodiscard]] Result<> set_mode(const std::string& name, unsigned mix_read_percent);
};

struct BenchDevice {
    std::string uri;
    std::shared_ptr<Device> device;
};

/// Refuses what cannot be done on these devices, naming the device, the value and the remedy. Nothing was done yet.
[[nodiscard]] Result<> check_workload(const Workload&, const std::vector<BenchDevice>&);

struct DirectionResult {
    std::uint64_t ios = 0, bytes = 0, errors = 0;
    Histogram latency;  ///< of successful I/Os, nanoseconds from submission to completion
};

struct JobResult {
    std::array<DirectionResult, direction_count> directions;
    Duration runtime{0};
    unsigned unanswered = 0;       ///< I/Os given up at a second signal
    int first_error = 0;           ///< errno of the first failed I/O, 0: none
    std::string first_error_text;  ///< names operation, place and reason
    std::uint64_t blocks_verified = 0, mismatches = 0;
    std::string first_mismatch;  ///< names the block and both values

    [[nodiscard]] std::uint64_t errors() const noexcept;
    void merge(const JobResult& other);
};

}  // namespace mqblk::cli
