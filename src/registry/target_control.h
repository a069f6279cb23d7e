// SPDX-License-Identifier: Apache-2.0
//
// The control protocol of a served target: one request, one answer, each a JSON object on one line (docs/uris.md).
// Requests may come from anyone who can open the socket; whatever they hold, the answer is an answer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mqblk::registry {

class TargetService;

/// Longest request; a longer one is answered with an error.
inline constexpr std::size_t max_control_bytes = 16u << 20;

/// Carries out one request and returns its answer without the line's end: {"ok":true,"result":…} or
/// {"ok":false,"code":"not found","error":"…"}. `default_nqn` is meant where a request names no subsystem.
[[nodiscard]] std::string handle_control(TargetService& service, const std::string& default_nqn,
                                         std::string_view request);

}  // namespace mqblk::registry
