// SPDX-License-Identifier: Apache-2.0
//
// The one place through which the program speaks. Nothing here throws or changes an exit code by itself: text for
// standard output that cannot be written is noted (standard_output.h) and told at the end; text for standard error that
// cannot be written is lost, as there is nowhere left to say so.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace mqblk::cli {

/// To standard output, buffered by stdio.
void write_output(std::string_view text) noexcept;
/// What is buffered, now.
void flush_output() noexcept;
/// To standard error at once, after what standard output holds so far.
void write_error(std::string_view text) noexcept;

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
    write_output(fmt::format(format, std::forward<Args>(args)...));
}

/// "mqblk: MESSAGE" as one line on standard error, whatever the message holds. An empty message is none.
void complain(std::string_view message) noexcept;

}  // namespace mqblk::cli
