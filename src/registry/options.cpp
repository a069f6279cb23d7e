// SPDX-License-Identifier: Apache-2.0
#include "registry/options.h"

#include "base/units.h"
#include "registry/queue_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace mqblk::registry {

namespace {

/// Levenshtein distance; texts of names, so quadratic is fine.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

}  // namespace

std::string_view closest(std::string_view given, std::span<const std::string_view> names) {
    std::string_view best;
    std::size_t distance = std::max<std::size_t>(2, given.size() / 3) + 1;
    if (given.size() > 64) return best;
    for (const auto name : names) {
        const bool prefix = given.size() >= 2 && name.starts_with(given);
        const auto d = prefix ? 1 : edit_distance(given, name);
        if (d < distance) {
            distance = d;
            best = name;
        }
    }
    return best;
}

OptionReader::OptionReader(const Uri& uri, std::span<const OptionInfo> allowed) : uri_(uri) {
    std::vector<std::string_view> names;
    for (const auto& info : allowed) names.push_back(info.name);
    for (std::size_t i = 0; i < uri.options.size(); ++i) {
        const auto& name = uri.options[i].name;
        const auto info = std::find_if(allowed.begin(), allowed.end(), [&](const auto& o) { return o.name == name; });
        if (info == allowed.end()) {
            auto candidates = names;
            for (const auto& each : queue_options()) candidates.push_back(each.name);
            const auto meant = closest(name, candidates);
            keep(fmt::format("{}: unknown option \"{}\"{}; allowed: {}, and the queue's options (mqblk help uris)",
                             uri.scheme, name, meant.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", meant),
                             names.empty() ? "none of its own" : fmt::format("{}", fmt::join(names, ", "))));
        } else if (!info->repeats) {
            for (std::size_t k = 0; k < i; ++k) {
                if (uri.options[k].name == name) {
                    keep(fmt::format("{}: option \"{}\" is given more than once", uri.scheme, name));
                }
            }
        }
    }
}

void OptionReader::keep(std::string message) {
    if (!error_) error_.emplace(Errc::invalid_argument, std::move(message));
}

void OptionReader::refuse(std::string sentence) {
    keep(fmt::format("{}: {}", uri_.scheme, sentence));
}

void OptionReader::reject(std::string_view name, std::string_view why) {
    const auto* option = uri_.find(name);
    keep(option == nullptr ? fmt::format("{}: option \"{}\" {}", uri_.scheme, name, why)
                           : fmt::format("{}: {}={}: {}", uri_.scheme, name, option->value, why));
}

const Uri::Option* OptionReader::find(std::string_view name) {
    const auto* option = uri_.find(name);
    if (option == nullptr) return nullptr;
    if (!option->nested.empty()) {
        reject(name, "must be a plain value, not a URI");
        return nullptr;
    }
    if (!option->has_value) {
        keep(fmt::format("{}: option \"{}\" needs a value ({}=…)", uri_.scheme, name, name));
        return nullptr;
    }
    return option;
}

std::uint64_t OptionReader::size(std::string_view name, std::uint64_t standard, std::uint64_t low, std::uint64_t high) {
    const auto* option = find(name);
    if (option == nullptr) return standard;
    const auto value = parse_size(name, option->value);
    if (!value) {
        keep(fmt::format("{}: {}", uri_.scheme, value.error().message()));
        return standard;
    }
    if (*value < low || *value > high) {
        reject(name, fmt::format("must be from {} to {}", format_size(low), format_size(high)));
        return standard;
    }
    return *value;
}

std::uint64_t OptionReader::number(std::string_view name, std::uint64_t standard, std::uint64_t low,
                                   std::uint64_t high) {
    const auto* option = find(name);
    if (option == nullptr) return standard;
    const auto value = parse_number(name, option->value, low, high);
    if (!value) {
        keep(fmt::format("{}: {}", uri_.scheme, value.error().message()));
        return standard;
    }
    return *value;
}

Duration OptionReader::time(std::string_view name, Duration standard, Duration low, Duration high) {
    const auto* option = find(name);
    if (option == nullptr) return standard;
    const auto value = parse_duration(name, option->value);
    if (!value) {
        keep(fmt::format("{}: {}", uri_.scheme, value.error().message()));
        return standard;
    }
    if (*value < low || *value > high) {
        reject(name, fmt::format("must be from {} to {}", format_duration(low), format_duration(high)));
        return standard;
    }
    return *value;
}

bool OptionReader::flag(std::string_view name, bool standard) {
    const auto* option = uri_.find(name);
    if (option == nullptr) return standard;
    if (!option->has_value) return true;
    constexpr std::array<std::string_view, 8> words{"0", "no", "off", "false", "1", "yes", "on", "true"};
    const auto found = std::find(words.begin(), words.end(), option->value);
    if (found == words.end() || !option->nested.empty()) {
        reject(name, "must be 0 or 1");
        return standard;
    }
    return found - words.begin() >= 4;
}

std::string OptionReader::text(std::string_view name, std::string_view standard) {
    const auto* option = find(name);
    return option == nullptr ? std::string(standard) : option->value;
}

std::size_t OptionReader::choice(std::string_view name, std::span<const std::string_view> allowed,
                                 std::size_t standard) {
    const auto* option = find(name);
    if (option == nullptr) return standard;
    const auto found = std::find(allowed.begin(), allowed.end(), option->value);
    if (found != allowed.end()) return static_cast<std::size_t>(found - allowed.begin());
    reject(name, fmt::format("must be {}", fmt::join(allowed, " or ")));
    return standard;
}

std::vector<const Uri*> OptionReader::uris(std::string_view name) {
    std::vector<const Uri*> result;
    for (const auto& option : uri_.options) {
        if (option.name != name) continue;
        if (option.nested.empty()) {
            keep(fmt::format("{}: {}={}: must be a URI in square brackets, such as {}=[ram://?size=64M]", uri_.scheme,
                             name, option.value, name));
        } else {
            result.push_back(&option.nested.front());
        }
    }
    return result;
}

Result<> OptionReader::finish() const {
    if (error_) return std::unexpected(*error_);
    return {};
}

}  // namespace mqblk::registry
