// SPDX-License-Identifier: Apache-2.0
//
// Sizes and times as people write them. Sizes are bytes with k, M, G, T (or KiB, MiB, GiB, TiB), powers of 1024; times
// carry ns, us, ms, s, m or h. What format_* writes, parse_* reads back to the same value.
#pragma once

#include "base/clock.h"

#include <mqblk/error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace mqblk {

/// `name` is what the value was given for; it opens the error: "size=1X: …".
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view name, std::string_view text);
/// Zero may go without a unit; the largest is some 292 years.
[[nodiscard]] Result<Duration> parse_duration(std::string_view name, std::string_view text);
/// A plain decimal number within [low, high].
[[nodiscard]] Result<std::uint64_t> parse_number(std::string_view name, std::string_view text, std::uint64_t low,
                                                 std::uint64_t high);

/// The units of times, as texts for people name them.
inline constexpr std::string_view duration_units = "ns, us, ms, s, m or h";

/// For people, rounded to three digits in the largest unit that leaves one before the point: "8.00MiB", "512B".
[[nodiscard]] std::string human_size(std::uint64_t bytes);

/// Exact, in the largest unit that divides it: "64M", "1000".
[[nodiscard]] std::string format_size(std::uint64_t bytes);
/// Exact, in the largest unit that divides it: "10us", "1500ms", "0".
[[nodiscard]] std::string format_duration(Duration);

}  // namespace mqblk
