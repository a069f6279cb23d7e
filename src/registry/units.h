// SPDX-License-Identifier: Apache-2.0
//
// Sizes and times as people write them: 64M, 4k, 20us, 5s. One reading for URIs and for the command line. Powers of
// 1024 for sizes; no fractions, no signs, nothing left over.
#pragma once

#include "base/clock.h"

#include <mqblk/error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace mqblk::registry {

/// A whole number in decimal, or with 0x in hexadecimal. The error says what was expected, not what it was for.
[[nodiscard]] Result<std::uint64_t> parse_number(std::string_view text);

/// Bytes: a number with k, M, G, T or P (either case, "iB" may follow).
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

/// A number with ns, us, ms, s, m or h. `bare_seconds`: a number alone counts seconds; else only 0 may stand alone.
[[nodiscard]] Result<Duration> parse_time(std::string_view text, bool bare_seconds);

/// The shortest exact form that parse_size reads back: "64M", "1536", "0".
[[nodiscard]] std::string format_size(std::uint64_t bytes);
/// The shortest exact form that parse_time reads back: "5s", "20us", "0".
[[nodiscard]] std::string format_time(Duration);

}  // namespace mqblk::registry
