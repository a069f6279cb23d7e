// SPDX-License-Identifier: Apache-2.0
//
// The text that names a device: scheme[+transport]://address/path?option=value&option=[nested URI]. Parsing knows no
// scheme; it decodes, keeps options in order (they may repeat), and says at which character a text is wrong. What is
// parsed and printed again is the same URI. Text may come from a control socket: size and depth are bounded.
#pragma once

#include <mqblk/error.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mqblk::registry {

struct Uri {
    static constexpr std::size_t max_length = 1u << 20;  ///< bytes of text
    static constexpr unsigned max_depth = 16;            ///< URIs within URIs

    struct Option {
        std::string name;
        std::string value;        ///< decoded; for a nested URI its text without the brackets
        bool has_value = false;   ///< false: only the name was given
        std::vector<Uri> nested;  ///< one element where the value stood in square brackets, else none
    };

    std::string scheme;           ///< with its transport: "ram", "nvme+tcp"
    std::string address;          ///< decoded; what stands between "//" and the next "/" or "?"
    std::string path;             ///< decoded; empty or begins with "/"
    std::vector<Option> options;  ///< in the order given

    /// Errors name the text, the first wrong character by its position (counting from 1) and what belongs there.
    [[nodiscard]] static Result<Uri> parse(std::string_view text);

    /// Plain ASCII, with as much encoding as parse() needs to read it back.
    [[nodiscard]] std::string to_string() const;

    /// The last option with this name, or null.
    [[nodiscard]] const Option* find(std::string_view name) const noexcept;
    /// Replaces the first option with this name, or adds it.
    void set(std::string_view name, std::string value);
};

}  // namespace mqblk::registry
