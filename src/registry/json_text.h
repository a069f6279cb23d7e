// SPDX-License-Identifier: Apache-2.0
//
// JSON from strangers: parsed only if it is not nested deeper than anything of ours, so that nothing that walks through
// it later can run out of stack.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string_view>

namespace mqblk::registry {

inline constexpr unsigned max_json_depth = 32;

/// A value of the kind "discarded" where the text is no JSON, is nested too deeply, or holds a number out of all range
/// or bytes that are not UTF-8.
[[nodiscard]] nlohmann::ordered_json parse_json(std::string_view text);

}  // namespace mqblk::registry
