// SPDX-License-Identifier: Apache-2.0
//
// A device's attributes by the names, units and rules of /sys/block/X/queue (Documentation/ABI/stable/sysfs-block), in
// the order of the names, so that people and scripts find what they know. Those that mean nothing here are left out.
#include "block/device_core.h"
#include "block/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace mqblk::block {

namespace {

constexpr unsigned min_requests = 4;
constexpr std::uint32_t sectors_per_kib = 1024 / sector_bytes;

std::string text(std::uint64_t value) {
    return fmt::format("{}", value);
}
std::string text(bool value) {
    return value ? "1" : "0";
}

/// An attribute in KiB of a limit in sectors.
std::string kib(std::uint32_t sectors) {
    return sectors == QueueLimits::unlimited ? text(std::uint64_t{std::numeric_limits<std::int32_t>::max()})
                                             : text(std::uint64_t{sectors / sectors_per_kib});
}

std::string scheduler_text(SchedulerKind kind) {
    return kind == SchedulerKind::none ? "[none] mq-deadline" : "none [mq-deadline]";
}

std::optional<std::uint32_t> parse(const std::string& value) {
    std::uint32_t number = 0;
    const char* const end = value.data() + value.size();
    const auto [at, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc{} || at != end || value.empty()) return std::nullopt;
    return number;
}

Result<> refuse(const std::string& name, const std::string& value, std::string_view allowed) {
    return mqblk::fail(Errc::invalid_argument, fmt::format("{}={}: must be {}", name, value, allowed));
}

/// A number in [low, high], or the error that says so.
Result<std::uint32_t> number(const std::string& name, const std::string& value, std::uint32_t low, std::uint32_t high) {
    const std::optional<std::uint32_t> parsed = parse(value);
    if (!parsed || *parsed < low || *parsed > high)
        return std::unexpected(
            refuse(name, value,
                   low == high ? text(std::uint64_t{low}) : fmt::format("a number from {} to {}", low, high))
                .error());
    return *parsed;
}

Result<> set_scheduler(Settings& settings, const std::string& value) {
    if (value == "none") {
        settings.scheduler = SchedulerKind::none;
    } else if (value == "mq-deadline") {
        settings.scheduler = SchedulerKind::mq_deadline;
    } else {
        return refuse("scheduler", value, "none or mq-deadline");
    }
    return {};
}

Result<> set_write_cache(Settings& settings, const std::string& value) {
    if (value != "write back" && value != "write through")
        return refuse("write_cache", value, "'write back' or 'write through'");
    settings.write_through = value == "write through";
    return {};
}

Result<> set_max_sectors(DeviceCore& device, Settings& settings, const std::string& value) {
    const QueueLimits& limits = device.view().limits;
    const std::uint32_t block_kib = std::max(4096u, limits.logical_block_size) / 1024;
    const std::uint32_t hardware = device.disk_limits().max_sectors;
    const std::uint32_t most = hardware == QueueLimits::unlimited
                                   ? static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max())
                                   : std::max(hardware / sectors_per_kib, block_kib);
    const auto parsed = number("max_sectors_kb", value, block_kib, most);
    if (!parsed) return std::unexpected(parsed.error());
    const std::uint64_t sectors = std::uint64_t{*parsed} * sectors_per_kib;
    const std::uint64_t block = limits.logical_block_size / sector_bytes;
    settings.max_sectors = static_cast<std::uint32_t>(std::min<std::uint64_t>(sectors - sectors % block, hardware));
    return {};
}

/// What the scheduler mq-deadline may be told: /sys/block/X/queue/iosched. Times are in ms.
struct Tunable {
    std::string_view name;
    std::int64_t DeadlineTunables::* time_ns;  // or
    std::uint32_t DeadlineTunables::* count;   // or a switch:
    bool DeadlineTunables::* on;
};
constexpr std::int64_t ns_per_ms = 1'000'000;
constexpr std::array<Tunable, 6> deadline_tunables{{
    {"fifo_batch", nullptr, &DeadlineTunables::fifo_batch, nullptr},
    {"front_merges", nullptr, nullptr, &DeadlineTunables::front_merges},
    {"prio_aging_expire", &DeadlineTunables::prio_aging_expire_ns, nullptr, nullptr},
    {"read_expire", &DeadlineTunables::read_expire_ns, nullptr, nullptr},
    {"write_expire", &DeadlineTunables::write_expire_ns, nullptr, nullptr},
    {"writes_starved", nullptr, &DeadlineTunables::writes_starved, nullptr},
}};

const Tunable* tunable(std::string_view name) {
    const auto* const at = std::ranges::find(deadline_tunables, name, &Tunable::name);
    return at == deadline_tunables.end() ? nullptr : at;
}

std::string tunable_text(const DeadlineTunables& tunables, const Tunable& which) {
    if (which.time_ns != nullptr) return text(static_cast<std::uint64_t>(tunables.*which.time_ns / ns_per_ms));
    return which.count != nullptr ? text(std::uint64_t{tunables.*which.count}) : text(tunables.*which.on);
}

Result<> set_tunable(Settings& settings, const Tunable& which, const std::string& value) {
    const std::string name(which.name);
    if (settings.scheduler != SchedulerKind::mq_deadline)
        return mqblk::fail(Errc::not_found,
                           fmt::format("{} is the scheduler mq-deadline's, and that is not in use; set "
                                       "scheduler=mq-deadline first",
                                       name));
    const auto parsed = number(name, value, 0, which.on != nullptr ? 1 : std::numeric_limits<std::int32_t>::max());
    if (!parsed) return std::unexpected(parsed.error());
    if (which.time_ns != nullptr) {
        settings.deadline.*which.time_ns = *parsed * ns_per_ms;
    } else if (which.count != nullptr) {
        settings.deadline.*which.count = *parsed;
    } else {
        settings.deadline.*which.on = *parsed != 0;
    }
    return {};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> attributes_of(const DeviceCore& device) {
    const DeviceCore::View view = device.view();
    const QueueLimits& limits = view.limits;
    const Settings& settings = view.settings;
    const Driver::Shape& shape = device.set().shape();
    const std::uint64_t granule =
        limits.max_discard_sectors == 0 ? 0 : std::max(limits.discard_granularity, limits.logical_block_size);
    std::vector<std::pair<std::string, std::string>> all{
        {"add_random", "0"},  // no disk here feeds the system's randomness
        {"chunk_sectors", text(std::uint64_t{limits.chunk_sectors})},
        {"dax", text(device.disk().direct != nullptr)},
        {"discard_granularity", text(granule)},
        {"discard_max_bytes", text(std::uint64_t{limits.max_discard_sectors} * sector_bytes)},
        {"discard_max_hw_bytes", text(std::uint64_t{limits.max_discard_sectors} * sector_bytes)},
        {"dma_alignment", text(std::uint64_t{limits.dma_alignment})},
        {"fua", text(limits.fua)},
        {"hw_sector_size", text(std::uint64_t{limits.logical_block_size})},
        {"io_poll", "1"},
        {"io_timeout", text(static_cast<std::uint64_t>(
                           std::chrono::duration_cast<std::chrono::milliseconds>(settings.timeout).count()))},
        {"iostats", text(settings.iostats)},
        {"logical_block_size", text(std::uint64_t{limits.logical_block_size})},
        {"max_discard_segments", "1"},
        {"max_hw_sectors_kb", kib(device.disk_limits().max_sectors)},
        {"max_sectors_kb", kib(limits.max_sectors)},
        {"max_segment_size", text(std::uint64_t{limits.max_segment_size})},
        {"max_segments", text(std::uint64_t{limits.max_segments})},
        {"minimum_io_size", text(std::uint64_t{limits.io_min})},
        {"nomerges", text(static_cast<std::uint64_t>(settings.merges))},
        {"nr_hw_queues", text(std::uint64_t{shape.max_queues})},
        {"nr_requests", text(std::uint64_t{settings.nr_requests})},
        {"optimal_io_size", text(std::uint64_t{limits.io_opt})},
        {"physical_block_size", text(std::uint64_t{limits.physical_block_size})},
        {"rotational", text(limits.rotational)},
        {"rq_affinity", "2"},  // completions run on the thread that submitted, always
        {"scheduler", scheduler_text(settings.scheduler)},
        {"virt_boundary_mask", text(limits.virt_boundary_mask)},
        {"write_cache", limits.write_cache ? "write back" : "write through"},
        {"write_zeroes_max_bytes", text(std::uint64_t{limits.max_write_zeroes_sectors} * sector_bytes)},
        {"zoned", "none"},
    };
    if (settings.scheduler == SchedulerKind::mq_deadline)
        for (const Tunable& each : deadline_tunables)
            all.emplace_back(each.name, tunable_text(settings.deadline, each));
    std::ranges::sort(all);
    return all;
}

Result<> set_attribute_of(DeviceCore& device, const std::string& name, const std::string& value) {
    Settings settings = device.settings();
    const auto apply = [&](const Result<std::uint32_t>& parsed, auto&& assign) -> Result<> {
        if (!parsed) return std::unexpected(parsed.error());
        assign(*parsed);
        return {};
    };
    const Driver::Shape& shape = device.set().shape();
    const unsigned depth = shape.depth - shape.reserved;
    Result<> result;
    if (name == "scheduler") {
        result = set_scheduler(settings, value);
    } else if (name == "nr_requests") {
        result = apply(number(name, value, std::min(min_requests, depth), depth),
                       [&](std::uint32_t n) { settings.nr_requests = n; });
    } else if (name == "max_sectors_kb") {
        result = set_max_sectors(device, settings, value);
    } else if (name == "nomerges") {
        result = apply(number(name, value, 0, 2), [&](std::uint32_t n) { settings.merges = static_cast<Merges>(n); });
    } else if (name == "rq_affinity") {
        if (value != "2") result = refuse(name, value, "2: a completion runs on the thread that submitted, always");
    } else if (name == "io_timeout") {
        result = apply(number(name, value, 1, QueueLimits::unlimited),
                       [&](std::uint32_t n) { settings.timeout = std::chrono::milliseconds(n); });
    } else if (name == "iostats") {
        result = apply(number(name, value, 0, 1), [&](std::uint32_t n) { settings.iostats = n != 0; });
    } else if (name == "write_cache") {
        result = set_write_cache(settings, value);
    } else if (const Tunable* const which = tunable(name)) {
        result = set_tunable(settings, *which, value);
    } else {
        const auto all = attributes_of(device);
        const bool known = std::ranges::any_of(all, [&](const auto& each) { return each.first == name; });
        result = known ? mqblk::fail(Errc::permission_denied,
                                     fmt::format("attribute {} is read-only; writable are io_timeout, iostats, "
                                                 "max_sectors_kb, nomerges, nr_requests, rq_affinity, scheduler, "
                                                 "write_cache and those of mq-deadline",
                                                 name))
                       : mqblk::fail(Errc::not_found, fmt::format("there is no attribute {}", name));
    }
    if (!result) return result;
    device.change(settings);
    return {};
}

}  // namespace mqblk::block
