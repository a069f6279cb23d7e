// SPDX-License-Identifier: Apache-2.0
//
// What control protocols have in common: a request is one JSON object on one line, with its "command" and that
// command's members, and so is its answer (docs/uris.md). Requests may come from anyone who can open the socket;
// whatever they hold, the answer is an answer.
#pragma once

#include <mqblk/error.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace mqblk::registry {

/// Longest request; a longer one is answered with an error.
inline constexpr std::size_t max_control_bytes = 16u << 20;

[[nodiscard]] Result<nlohmann::ordered_json> parse_request(std::string_view text);

/// {"ok":true,"result":…} or {"ok":false,"code":"not found","error":"…"}, without the line's end.
[[nodiscard]] std::string answer_line(const Result<nlohmann::ordered_json>& answer);

[[nodiscard]] std::unexpected<Error> no_such_command(std::string_view command, std::span<const std::string_view> known);

/// One request's members by type; keeps the first complaint.
class RequestReader {
  public:
    explicit RequestReader(const nlohmann::ordered_json& json) : json_(json) {}  ///< keeps a reference

    /// Which command it is.
    [[nodiscard]] Result<std::string> command();
    [[nodiscard]] std::string text(const char* name, const std::string& standard);
    [[nodiscard]] std::string required_text(const char* name);
    /// Up to `high`; without `standard` it must be there.
    [[nodiscard]] std::uint64_t number(const char* name, std::optional<std::uint64_t> standard, std::uint64_t high);
    [[nodiscard]] bool flag(const char* name, std::optional<bool> standard = std::nullopt);
    /// Of any type; null if it is missing.
    [[nodiscard]] const nlohmann::ordered_json* any(const char* name);

    /// After all that the command takes was asked for: what is wrong; a member that was not asked for is.
    [[nodiscard]] Result<> finish();

  private:
    [[nodiscard]] Result<> check() const;
    void complain(std::string_view name, std::string_view why);

    const nlohmann::ordered_json& json_;
    std::string error_;
    std::set<std::string> asked_;
};

}  // namespace mqblk::registry
