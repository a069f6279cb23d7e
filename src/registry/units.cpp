// SPDX-License-Identifier: Apache-2.0
#include "registry/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

namespace mqblk::registry {

namespace {

struct Split {
    std::uint64_t number;
    std::string_view suffix;
};

Result<Split> split_number(std::string_view text) {
    int base = 10;
    std::string_view digits = text;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
        base = 16;
        digits.remove_prefix(2);
    }
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
    if (error == std::errc::result_out_of_range) return fail(Errc::invalid_argument, "the number is too large");
    if (error != std::errc{}) return fail(Errc::invalid_argument, "expected a whole number");
    return Split{number, digits.substr(static_cast<std::size_t>(end - digits.data()))};
}

}  // namespace

Result<std::uint64_t> parse_number(std::string_view text) {
    const auto split = split_number(text);
    if (!split) return std::unexpected(split.error());
    if (!split->suffix.empty()) return fail(Errc::invalid_argument, "expected a whole number");
    return split->number;
}

Result<std::uint64_t> parse_size(std::string_view text) {
    constexpr std::string_view expected = "expected a size such as 4096, 4k, 64M, 1G or 2T";
    const auto split = split_number(text);
    if (!split) return fail(Errc::invalid_argument, fmt::format("{}; {}", split.error().message(), expected));
    std::string_view suffix = split->suffix;
    if (suffix.empty()) return split->number;
    constexpr std::string_view units = "kmgtp";
    const char letter = static_cast<char>(suffix.front() | 0x20);
    const auto power = units.find(letter);
    suffix.remove_prefix(1);
    if (power == std::string_view::npos || (!suffix.empty() && suffix != "iB")) {
        return fail(Errc::invalid_argument, std::string(expected));
    }
    const unsigned shift = 10 * (static_cast<unsigned>(power) + 1);
    if (split->number > (std::numeric_limits<std::uint64_t>::max() >> shift)) {
        return fail(Errc::invalid_argument, "the size is too large");
    }
    return split->number << shift;
}

Result<Duration> parse_time(std::string_view text, bool bare_seconds) {
    const auto split = split_number(text);
    const auto expected = [&] {
        return fail(Errc::invalid_argument, bare_seconds
                                                ? "expected a time such as 10 (seconds), 500ms, 20us or 2m"
                                                : "expected a time with its unit, such as 20us, 500ms, 5s or 2m");
    };
    if (!split) return expected();
    struct Unit {
        std::string_view name;
        std::uint64_t ns;
    };
    constexpr std::array units{Unit{"ns", 1},
                               Unit{"us", 1000},
                               Unit{"ms", 1000000},
                               Unit{"s", 1000000000ull},
                               Unit{"m", 60000000000ull},
                               Unit{"h", 3600000000000ull}};
    std::uint64_t factor = 0;
    for (const auto& unit : units) {
        if (unit.name == split->suffix) factor = unit.ns;
    }
    if (split->suffix.empty() && (bare_seconds || split->number == 0)) factor = 1000000000ull;
    if (factor == 0) return expected();
    if (split->number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / factor) {
        return fail(Errc::invalid_argument, "the time is too long");
    }
    return Duration(static_cast<std::int64_t>(split->number * factor));
}

std::string format_size(std::uint64_t bytes) {
    constexpr std::string_view units = "kMGTP";
    std::size_t power = 0;
    while (power < units.size() && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        ++power;
    }
    return power == 0 ? fmt::format("{}", bytes) : fmt::format("{}{}", bytes, units[power - 1]);
}

std::string format_time(Duration time) {
    const auto ns = time.count();
    if (ns == 0) return "0";
    if (ns % 1000000000 == 0) return fmt::format("{}s", ns / 1000000000);
    if (ns % 1000000 == 0) return fmt::format("{}ms", ns / 1000000);
    if (ns % 1000 == 0) return fmt::format("{}us", ns / 1000);
    return fmt::format("{}ns", ns);
}

}  // namespace mqblk::registry
