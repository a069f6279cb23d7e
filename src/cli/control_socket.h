// SPDX-License-Identifier: Apache-2.0
//
// What both ends of a control socket need: its address, connecting, and sending all of a text within a bound.
#pragma once

#include <mqblk/error.h>

#include <string>
#include <string_view>

namespace mqblk::cli {

/// A connected, blocking socket whose sends and receives end after `timeout_s`.
[[nodiscard]] Result<int> connect_control(const std::string& path, unsigned timeout_s);
/// A socket that listens at `path` with mode 0600.
[[nodiscard]] Result<int> listen_control(const std::string& path);
void set_control_timeout(int fd, unsigned timeout_s) noexcept;
[[nodiscard]] bool send_all(int fd, std::string_view text) noexcept;

/// Sends one request and returns the one line of its answer.
[[nodiscard]] Result<std::string> ask_control(const std::string& path, const std::string& request);

}  // namespace mqblk::cli
