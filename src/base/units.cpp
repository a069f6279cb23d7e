// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <span>

namespace mqblk {

namespace {

struct Unit {
    std::string_view suffix;
    std::uint64_t factor;
};

constexpr std::uint64_t kibi = 1024;
constexpr Unit size_units[] = {
    {"", 1},
    {"k", kibi},
    {"K", kibi},
    {"KiB", kibi},
    {"M", kibi* kibi},
    {"MiB", kibi* kibi},
    {"G", kibi* kibi* kibi},
    {"GiB", kibi* kibi* kibi},
    {"T", kibi* kibi* kibi* kibi},
    {"TiB", kibi* kibi* kibi* kibi},
};
constexpr Unit time_units[] = {
    {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000},
};

struct Split {
    std::uint64_t number;
    std::string_view suffix;
};

std::unexpected<Error> refuse_value(std::string_view name, std::string_view text, std::string_view why) {
    return fail(Errc::invalid_argument, fmt::format("{}={}: {}", name, text, why));
}

/// Digits, then whatever follows them.
Result<Split> split_number(std::string_view name, std::string_view text, std::string_view expected) {
    std::uint64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem == std::errc::result_out_of_range) return refuse_value(name, text, "the number is too large");
    if (problem != std::errc{}) return refuse_value(name, text, expected);
    return Split{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

Result<std::uint64_t> scaled(std::string_view name, std::string_view text, std::span<const Unit> units,
                             std::uint64_t most, std::string_view expected) {
    const auto split = split_number(name, text, expected);
    if (!split) return std::unexpected(split.error());
    for (const Unit& unit : units) {
        if (unit.suffix != split->suffix) continue;
        if (split->number > most / unit.factor) return refuse_value(name, text, "the number is too large");
        return split->number * unit.factor;
    }
    if (split->number == 0 && split->suffix.empty()) return 0;
    return refuse_value(name, text, expected);
}

std::string in_largest_unit(std::uint64_t value, std::span<const Unit> units) {
    const Unit* best = &units.front();
    for (const Unit& unit : units) {
        if (value % unit.factor == 0 && unit.factor > best->factor) best = &unit;
    }
    return fmt::format("{}{}", value / best->factor, best->suffix);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view name, std::string_view text) {
    return scaled(name, text, size_units, std::numeric_limits<std::uint64_t>::max(),
                  "must be a number of bytes, with k, M, G or T for powers of 1024, such as 4096, 128k or 1G");
}

Result<Duration> parse_duration(std::string_view name, std::string_view text) {
    const auto ns = scaled(name, text, time_units, static_cast<std::uint64_t>(Duration::max().count()),
                           fmt::format("must be a number with {}, such as 10us or 2s", duration_units));
    if (!ns) return std::unexpected(ns.error());
    return Duration(static_cast<Duration::rep>(*ns));
}

Result<std::uint64_t> parse_number(std::string_view name, std::string_view text, std::uint64_t low,
                                   std::uint64_t high) {
    const std::string expected = fmt::format("must be a number from {} to {}", low, high);
    const auto split = split_number(name, text, expected);
    if (!split) return std::unexpected(split.error());
    if (!split->suffix.empty() || split->number < low || split->number > high) {
        return refuse_value(name, text, expected);
    }
    return split->number;
}

std::string human_size(std::uint64_t bytes) {
    constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < kibi) return fmt::format("{}B", bytes);
    auto number = static_cast<double>(bytes);
    std::size_t unit = 0;
    // 1023.5 would be printed as 1024.
    for (; number >= 1023.5 && unit + 1 < std::size(units); ++unit) number /= 1024;
    const int decimals = number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f}{}", number, decimals, units[unit]);
}

std::string format_size(std::uint64_t bytes) {
    return bytes == 0 ? "0" : in_largest_unit(bytes, size_units);
}

std::string format_duration(Duration duration) {
    if (duration == Duration::zero()) return "0";
    const auto ns = duration.count();
    if (ns < 0) return '-' + in_largest_unit(0 - static_cast<std::uint64_t>(ns), time_units);
    return in_largest_unit(static_cast<std::uint64_t>(ns), time_units);
}

}  // namespace mqblk
