// SPDX-License-Identifier: Apache-2.0
//
// Faults of a model as people write them: KIND[@COMMAND[xCOUNT]][,KEY=VALUE]... What the kinds and keys mean is the
// model's; that there are such, and how numbers look, is here.
#pragma once

#include "base/clock.h"

#include <mqblk/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mqblk {

struct FaultWord {
    std::string_view name;
    std::string_view keys;  ///< that it takes, each with a space behind it
};

/// Of a table whose entries have a `word` each.
template <class Kind, std::size_t N>
[[nodiscard]] constexpr std::array<FaultWord, N> fault_words_of(const Kind (&kinds)[N]) noexcept {
    std::array<FaultWord, N> words;
    for (std::size_t i = 0; i < N; ++i) words[i] = kinds[i].word;
    return words;
}

/// "lba, blocks": a word's keys, for people.
[[nodiscard]] std::string list_fault_keys(const FaultWord& word);

/// A kind of fault, for people.
struct FaultHelp {
    std::string_view kind;
    std::string keys;     ///< "lba, blocks"
    std::string meaning;  ///< one line, keys in backquotes, defaults in parentheses
    std::string_view example{};
};

struct FaultText {
    std::size_t kind = 0;  ///< index of its word
    std::optional<std::uint64_t> command{}, count{};
    std::vector<std::pair<std::string_view, std::string_view>> values{};  ///< key and value; within the text
};

/// No key twice. The error names what is wrong and what is allowed.
[[nodiscard]] Result<FaultText> parse_fault_text(std::string_view text, std::span<const FaultWord> words);

inline constexpr auto most_fault_number = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

/// Decimal, or hexadecimal after 0x, from `least` to `most`.
[[nodiscard]] Result<std::uint64_t> parse_fault_number(std::string_view key, std::string_view value,
                                                       std::uint64_t most = most_fault_number, std::uint64_t least = 0);
/// The same into an integer or an enumeration that has room for `most`.
template <class T>
[[nodiscard]] Result<> parse_fault_number_into(std::string_view key, std::string_view value, std::uint64_t most, T& to,
                                               std::uint64_t least = 0) {
    const auto number = parse_fault_number(key, value, most, least);
    if (!number) return std::unexpected(number.error());
    to = static_cast<T>(*number);
    return {};
}
/// A time with its unit, not over a year, so that it can be added to any time.
[[nodiscard]] Result<Duration> parse_fault_duration(std::string_view key, std::string_view value);

}  // namespace mqblk
