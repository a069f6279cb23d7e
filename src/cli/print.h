// SPDX-License-Identifier: Apache-2.0
//
// The one place through which the program speaks. Nothing here throws or changes an exit code by itself: text for
// standard output that cannot be written is noted (standard_output.h) and told at the end; text for standard error that
// cannot be written is lost, as there is nowhere left to say so.
#pragma once

#include "base/printable.h"

#include <fmt/format.h>

#include <string_view>
#include <type_traits>
#include <utility>

namespace mqblk::cli {

/// To standard output, buffered by stdio, as it is.
void write_output(std::string_view text) noexcept;
/// What is buffered, now.
void flush_output() noexcept;
/// To standard error at once, after what standard output holds so far.
void write_error(std::string_view text) noexcept;

/// An argument of print(): text made printable, all else as it is.
template <class T>
decltype(auto) shown(const T& value) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
        return printable(value);
    } else {
        return (value);
    }
}

/// To standard output. What `format` says stays; each text among the arguments may come from a peer and is made
/// printable, so that it neither moves the cursor nor begins a line of its own.
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
    write_output(fmt::format(fmt::runtime(format), shown(args)...));
}

/// "mqblk: MESSAGE" as one line on standard error, whatever the message holds. An empty message is none.
void complain(std::string_view message) noexcept;

}  // namespace mqblk::cli
