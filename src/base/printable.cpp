// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 by RFC 3629: shortest forms only, no surrogates, nothing beyond U+10FFFF.
#include "base/printable.h"

#include <cstddef>
#include <cstdint>

namespace mqblk {

namespace {

struct Decoded {
    std::size_t bytes = 0;  ///< 0: no UTF-8 here
    std::uint32_t point = 0;
};

Decoded decode(std::string_view text) noexcept {
    const auto at = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const std::uint8_t first = at(0);
    if (first < 0x80) return {1, first};
    const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
    std::uint32_t point = first & (0x7fu >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((at(i) & 0xc0) != 0x80) return {};
        point = point << 6 | (at(i) & 0x3fu);
    }
    const std::uint32_t least = bytes == 2 ? 0x80 : bytes == 3 ? 0x800 : 0x10000;
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return {};
    return {bytes, point};
}

bool harmless(std::uint32_t point) noexcept {
    if (point < 0x20 || (point >= 0x7f && point < 0xa0)) return false;
    return (point < 0x2028 || point > 0x202e) && (point < 0x2066 || point > 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const Decoded next = decode(text);
        const std::size_t bytes = next.bytes != 0 ? next.bytes : 1;
        const bool good = next.bytes != 0 && harmless(next.point);
        for (const char c : text.substr(0, bytes)) {
            if (good) {
                result += c;
            } else {
                const auto byte = static_cast<std::uint8_t>(c);
                (result += "\\x") += {digits[byte >> 4], digits[byte & 15]};
            }
        }
        text.remove_prefix(bytes);
    }
    return result;
}

std::string abridged(std::string_view text, std::size_t most) {
    if (text.size() <= most) return std::string(text);
    std::string result(text.substr(0, most / 2));
    result += " […] ";
    return result += text.substr(text.size() - most / 2);
}

}  // namespace mqblk
