// SPDX-License-Identifier: Apache-2.0
//
// What mqblk says to people besides its results: lines on standard error. Any thread. Not for the I/O path; what a peer
// can provoke at will goes through log_limited, so that it cannot flood.
#pragma once

#include <mqblk/error.h>

#include <cstdint>
#include <string_view>

namespace mqblk {

enum class LogLevel : std::uint8_t { debug, info, warning, error, off };

/// Lines below `level` are dropped. At the start: warning.
void set_log_level(LogLevel level) noexcept;
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);
/// For callers that would have to build an expensive line first.
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;

void log_debug(std::string_view line) noexcept;
void log_info(std::string_view line) noexcept;
void log_warning(std::string_view line) noexcept;
void log_error(std::string_view line) noexcept;

/// A warning at the first time and then at most once in ten seconds for each `reason` (a short constant text such as
/// "tcp: bad digest"), with the number of lines held back. The number of reasons remembered is bounded.
void log_limited(std::string_view reason, std::string_view line) noexcept;

}  // namespace mqblk
