// SPDX-License-Identifier: Apache-2.0
//
// Text of a peer's or a user's as it may go to a terminal, a log or JSON, whatever its bytes are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mqblk {

/// `text` as valid UTF-8 without control characters: those (C0, DEL, C1), what reorders or breaks lines (U+2028,
/// U+2029, U+202A to U+202E, U+2066 to U+2069), and bytes that are no UTF-8 become "\xNN", byte by byte. All else
/// stays.
[[nodiscard]] std::string printable(std::string_view text);

/// `text`, or its beginning and its end around " […] " where it is longer than `most` bytes: a sentence that holds what
/// a stranger sent stays a sentence. Where it is cut may be within a character.
[[nodiscard]] std::string abridged(std::string_view text, std::size_t most);

}  // namespace mqblk
