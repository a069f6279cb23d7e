// SPDX-License-Identifier: Apache-2.0
//
// The control protocol of a served target: one request, one answer, each a JSON object on one line (docs/uris.md).
// Requests may come from anyone who can open the socket; whatever they hold, the answer is an answer.
#pragma once

#include <string>
#include <string_view>

namespace mqblk::registry {

class TargetService;

/// Carries out one request and returns its answer without the line's end. `default_nqn` is meant where a request names
/// no subsystem.
[[nodiscard]] std::string handle_control(TargetService& service, const std::string& default_nqn,
                                         std::string_view request);

}  // namespace mqblk::registry
