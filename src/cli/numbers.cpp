// SPDX-License-Identifier: Apache-2.0
#include "cli/numbers.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>

namespace mqblk::cli {

namespace {

/// `number` in the first unit that leaves no more than four digits before the point, with as many after it as keep the
/// whole within four characters.
std::string four_characters(double number, double base, std::span<const std::string_view> units) {
    std::size_t unit = 0;
    while (number >= 9999.5 && unit + 1 < units.size()) {
        number /= base;
        ++unit;
    }
    const int decimals = unit == 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f}{}", number, decimals, units[unit]);
}

constexpr std::array<std::string_view, 6> count_units{"", "k", "M", "G", "T", "P"};
constexpr std::array<std::string_view, 6> binary_units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
constexpr std::array<std::string_view, 6> decimal_units{"B", "kB", "MB", "GB", "TB", "PB"};

}  // namespace

std::string count(double number) {
    return four_characters(number, 1000, count_units);
}
std::string binary_bytes(std::uint64_t bytes) {
    return four_characters(static_cast<double>(bytes), 1024, binary_units);
}
std::string decimal_bytes(std::uint64_t bytes) {
    return four_characters(static_cast<double>(bytes), 1000, decimal_units);
}

}  // namespace mqblk::cli
