// SPDX-License-Identifier: Apache-2.0
#include "registry/json_text.h"

#include <nlohmann/json.hpp>

namespace mqblk::registry {

namespace {

bool too_deep(std::string_view text) noexcept {
    unsigned depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > max_json_depth) return true;
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return false;
}

}  // namespace

nlohmann::ordered_json parse_json(std::string_view text) {
    using nlohmann::ordered_json;
    if (too_deep(text)) return ordered_json(nlohmann::detail::value_t::discarded);
    return ordered_json::parse(text, nullptr, false);
}

}  // namespace mqblk::registry
