// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/workload.h"

#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace mqblk::cli {

std::string_view to_string(Direction direction) noexcept {
    switch (direction) {
        case Direction::read:
            return "read";
        case Direction::write:
            return "write";
        case Direction::trim:
            return "trim";
    }
    return "unknown";
}

Result<> Workload::set_mode(const std::string& name, unsigned mix_read_percent) {
    struct Mode {
        std::string_view name;
        bool random, trim;
        unsigned read_percent;
    };
    const Mode modes[] = {
        {"read", false, false, 100},
        {"write", false, false, 0},
        {"randread", true, false, 100},
        {"randwrite", true, false, 0},
        {"rw", false, false, mix_read_percent},
        {"readwrite", false, false, mix_read_percent},
        {"randrw", true, false, mix_read_percent},
        {"trim", false, true, 0},
        {"randtrim", true, true, 0},
    };
    for (const auto& mode : modes) {
        if (mode.name != name) continue;
        rw = name;
        random = mode.random;
        trim = mode.trim;
        read_percent = mode.read_percent;
        return {};
    }
    return fail(Errc::invalid_argument, fmt::format("--rw {}: expected randread, randwrite, read, write, randrw, rw, "
                                                    "trim or randtrim",
                                                    name));
}

namespace {

Result<> check_device(const Workload& work, const BenchDevice& entry) {
    const auto limits = entry.device->limits();
    const std::uint64_t block = limits.logical_block_size;
    const std::uint64_t bytes = entry.device->sectors() * sector_bytes;
    const auto wrong = [&](std::string why) { return fail(Errc::invalid_argument, entry.uri + ": " + why); };
    const auto multiple = [&](std::string_view option, std::uint64_t value) -> Result<> {
        if (value % block == 0) return {};
        return wrong(fmt::format("{} {} is not a multiple of the device's block of {} bytes; use {}", option, value,
                                 block, (value / block + 1) * block));
    };
    if (auto ok = multiple("--bs", work.block_bytes); !ok) return ok;
    if (auto ok = multiple("--offset", work.offset_bytes); !ok) return ok;
    if (work.offset_bytes >= bytes) {
        return wrong(fmt::format("--offset {} is not within the device's {} bytes; use a smaller --offset",
                                 work.offset_bytes, bytes));
    }
    if (work.range_bytes > bytes - work.offset_bytes) {
        return wrong(fmt::format("--range {} from --offset {} passes the end of the device at {} bytes; use --range {}",
                                 work.range_bytes, work.offset_bytes, bytes, bytes - work.offset_bytes));
    }
    const std::uint64_t range = work.range_bytes != 0 ? work.range_bytes : bytes - work.offset_bytes;
    if (range < work.block_bytes) {
        return wrong(
            fmt::format("a range of {} bytes holds no block of {}; use a smaller --bs", range, work.block_bytes));
    }
    if ((work.writes() || work.trim) && entry.device->read_only()) {
        return wrong("the device is write-protected; use --rw randread or read");
    }
    if (work.trim && limits.max_discard_sectors == 0) return wrong("the device has no discard; --rw trim cannot run");
    constexpr std::uint64_t most_units = 1u << 26;
    if (work.verify && range / work.block_bytes > most_units) {
        return wrong(fmt::format("--verify keeps a record of each block and takes {} of them at most; use --range {}",
                                 most_units, format_size(most_units * work.block_bytes)));
    }
    if (work.verify && range / work.block_bytes / work.jobs < std::uint64_t{work.depth} * 2) {
        return wrong(
            fmt::format("--verify needs twice as many blocks as I/Os in flight for each job, and {} blocks "
                        "for {} jobs at depth {} are fewer; use a smaller --depth, --jobs or --bs",
                        range / work.block_bytes, work.jobs, work.depth));
    }
    return {};
}

}  // namespace

Result<> check_workload(const Workload& work, const std::vector<BenchDevice>& devices) {
    if (work.verify && work.trim) {
        return fail(Errc::invalid_argument, "--verify cannot check --rw trim: discarded blocks may read as anything");
    }
    if (work.time.count() == 0 && work.size_bytes == 0) {
        return fail(Errc::invalid_argument, "neither --time nor --size says when to end; use --time 10");
    }
    if (work.size_bytes != 0 && work.size_bytes < work.block_bytes) {
        return fail(Errc::invalid_argument,
                    fmt::format("--size {} is less than one block of --bs {}", work.size_bytes, work.block_bytes));
    }
    for (const auto& entry : devices) {
        if (auto ok = check_device(work, entry); !ok) return ok;
    }
    return {};
}

std::uint64_t JobResult::errors() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& direction : directions) sum += direction.errors;
    return sum;
}

void JobResult::merge(const JobResult& other) {
    for (std::size_t i = 0; i < direction_count; ++i) {
        directions[i].ios += other.directions[i].ios;
        directions[i].bytes += other.directions[i].bytes;
        directions[i].errors += other.directions[i].errors;
        directions[i].latency.merge(other.directions[i].latency);
    }
    runtime = std::max(runtime, other.runtime);
    unanswered += other.unanswered;
    if (first_error == 0) {
        first_error = other.first_error;
        first_error_text = other.first_error_text;
    }
    blocks_verified += other.blocks_verified;
    mismatches += other.mismatches;
    if (first_mismatch.empty()) first_mismatch = other.first_mismatch;
}

}  // namespace mqblk::cli
