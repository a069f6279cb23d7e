// SPDX-License-Identifier: Apache-2.0
#include "base/fault_text.h"

#include "base/units.h"

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

std::optional<std::uint64_t> read_number(std::string_view text) {
    const bool hexadecimal = text.starts_with("0x");
    const std::string_view digits = hexadecimal ? text.substr(2) : text;
    std::uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, hexadecimal ? 16 : 10);
    if (error != std::errc{} || end != digits.data() + digits.size() || number > most_fault_number) return std::nullopt;
    return number;
}

Result<> parse_when(FaultText& fault, std::string_view text) {
    std::string_view rest = text;
    const auto command = read_number(take_until(rest, 'x'));
    if (!command) return fail(Errc::invalid_argument, "the command after '@' must be a number, as in @100");
    fault.command = *command;
    if (text.find('x') == std::string_view::npos) return {};
    const auto count = read_number(rest);
    if (!count) return fail(Errc::invalid_argument, "the count after 'x' must be a number, as in x3; x0 is for ever");
    fault.count = *count;
    return {};
}

/// KEY=VALUE of `word`, which `fault` has not yet.
Result<> take_pair(FaultText& fault, const FaultWord& word, std::string_view pair) {
    if (pair.empty()) {
        return fail(Errc::invalid_argument,
                    fmt::format("a comma without KEY=VALUE after it; {} takes: {}", word.name, list_fault_keys(word)));
    }
    std::string_view value = pair;
    const std::string_view key = take_until(value, '=');
    if (key.empty() || word.keys.find(fmt::format("{} ", key)) == std::string_view::npos)
        return fail(Errc::invalid_argument,
                    fmt::format("{} has no '{}'; it takes: {}", word.name, key, list_fault_keys(word)));
    const auto same = [key](const auto& each) { return each.first == key; };
    if (std::ranges::any_of(fault.values, same))
        return fail(Errc::invalid_argument, fmt::format("'{}' is given more than once", key));
    fault.values.emplace_back(key, value);
    return {};
}

}  // namespace

std::string list_fault_keys(const FaultWord& word) {
    std::string list;
    for (std::string_view rest = word.keys; !rest.empty();)
        list += fmt::format("{}{}", list.empty() ? "" : ", ", take_until(rest, ' '));
    return list.empty() ? "nothing" : list;
}

Result<std::uint64_t> parse_fault_number(std::string_view key, std::string_view value, std::uint64_t most,
                                         std::uint64_t least) {
    const auto number = read_number(value);
    if (!number || *number < least || *number > most) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}={}: must be a number from {} to {}", key, value, least, most));
    }
    return *number;
}

Result<Duration> parse_fault_duration(std::string_view key, std::string_view value) {
    constexpr Duration longest = std::chrono::years(1);
    const auto time = parse_duration(key, value);
    if (time && *time > longest)
        return fail(Errc::invalid_argument, fmt::format("{}={}: must not be over a year", key, value));
    return time;
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
    for (bool more = text.find(',') != std::string_view::npos; more;) {
        more = rest.find(',') != std::string_view::npos;
        if (auto taken = take_pair(fault, *word, take_until(rest, ',')); !taken)
            return std::unexpected(taken.error().in(fmt::format("fault '{}'", text)));
    }
    return fault;
}

}  // namespace mqblk
