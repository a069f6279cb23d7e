// SPDX-License-Identifier: Apache-2.0
#include "base/fault_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace mqblk {

namespace {

/// The part before `separator`, which is taken off `text` together with it; all of it if there is none.
std::string_view take_until(std::string_view& text, char separator) {
    const std::size_t at = text.find(separator);
    const std::string_view part = text.substr(0, at);
    text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
    return part;
}

Result<> parse_when(FaultText& fault, std::string_view text) {
    std::string_view rest = text;
    const auto command = parse_fault_number("the command after '@'", take_until(rest, 'x'));
    if (!command) return std::unexpected(command.error());
    fault.command = *command;
    if (text.find('x') == std::string_view::npos) return {};
    const auto count = parse_fault_number("the count after 'x'", rest);
    if (!count) return std::unexpected(count.error());
    fault.count = *count;
    return {};
}

}  // namespace

Result<std::uint64_t> parse_fault_number(std::string_view key, std::string_view value, std::uint64_t most) {
    const bool hexadecimal = value.starts_with("0x");
    const std::string_view digits = hexadecimal ? value.substr(2) : value;
    std::uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, hexadecimal ? 16 : 10);
    if (error != std::errc{} || end != digits.data() + digits.size() || number > most)
        return fail(Errc::invalid_argument, fmt::format("{}={}: must be a number from 0 to {}", key, value, most));
    return number;
}

Result<FaultText> parse_fault_text(std::string_view text, std::span<const FaultWord> words) {
    std::string_view rest = text;
    std::string_view head = take_until(rest, ',');
    const bool placed = head.find('@') != std::string_view::npos;
    const std::string_view name = take_until(head, '@');
    const auto word = std::ranges::find(words, name, &FaultWord::name);
    if (word == words.end()) {
        std::string known;
        for (const FaultWord& each : words) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
        return fail(Errc::invalid_argument, fmt::format("fault '{}': no such kind; there are {}", text, known));
    }
    FaultText fault{.kind = static_cast<std::size_t>(word - words.begin())};
    if (placed) {
        if (auto when = parse_when(fault, head); !when)
            return std::unexpected(when.error().in(fmt::format("fault '{}'", text)));
    }
    while (!rest.empty()) {
        std::string_view value = take_until(rest, ',');
        const std::string_view key = take_until(value, '=');
        if (key.empty() || word->keys.find(fmt::format("{} ", key)) == std::string_view::npos) {
            return fail(Errc::invalid_argument,
                        fmt::format("fault '{}': {} has no '{}'; it takes: {}", text, word->name, key,
                                    word->keys.empty() ? "nothing" : word->keys));
        }
        fault.values.emplace_back(key, value);
    }
    return fault;
}

}  // namespace mqblk
