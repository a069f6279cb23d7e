// SPDX-License-Identifier: Apache-2.0
#include "registry/control_request.h"

#include "base/printable.h"
#include "registry/json_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mqblk::registry {

using nlohmann::ordered_json;

namespace {
constexpr std::size_t max_error_bytes = 2000;  // of an answer: an error may name a URI of a megabyte
constexpr std::size_t max_name_bytes = 64;     // of a member or command that is repeated in an error
}  // namespace

Result<ordered_json> parse_request(std::string_view text) {
    if (text.size() > max_control_bytes)
        return fail(Errc::invalid_argument, fmt::format("request: longer than {} bytes", max_control_bytes));
    auto request = parse_json(text);
    if (!request.is_object()) return fail(Errc::invalid_argument, "request: not a JSON object on one line");
    return request;
}

std::string answer_line(const Result<ordered_json>& answer) {
    const ordered_json json = answer ? ordered_json{{"ok", true}, {"result", *answer}}
                                     : ordered_json{{"ok", false},
                                                    {"code", to_string(answer.error().code())},
                                                    {"error", abridged(answer.error().message(), max_error_bytes)}};
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::unexpected<Error> no_such_command(std::string_view command, std::span<const std::string_view> known) {
    return fail(Errc::invalid_argument, fmt::format("request: there is no command \"{}\"; there are {}",
                                                    command.substr(0, max_name_bytes), fmt::join(known, ", ")));
}

Result<std::string> RequestReader::command() {
    auto command = required_text("command");
    if (auto ok = check(); !ok) return std::unexpected(ok.error());
    return command;
}

std::string RequestReader::text(const char* name, const std::string& standard) {
    asked_.insert(name);
    const auto found = json_.find(name);
    if (found == json_.end()) return standard;
    if (found->is_string()) return found->get<std::string>();
    complain(name, "must be a string");
    return standard;
}

std::string RequestReader::required_text(const char* name) {
    auto value = text(name, "");
    if (value.empty()) complain(name, "is missing");
    return value;
}

std::uint64_t RequestReader::number(const char* name, std::optional<std::uint64_t> standard, std::uint64_t high) {
    asked_.insert(name);
    const auto found = json_.find(name);
    if (found == json_.end()) {
        if (!standard) complain(name, "is missing");
        return standard.value_or(0);
    }
    if (found->is_number_unsigned() && *found <= high) return found->get<std::uint64_t>();
    complain(name, fmt::format("must be a number up to {}", high));
    return 0;
}

bool RequestReader::flag(const char* name, std::optional<bool> standard) {
    asked_.insert(name);
    const auto found = json_.find(name);
    if (found == json_.end() && standard) return *standard;
    if (found != json_.end() && found->is_boolean()) return found->get<bool>();
    complain(name, "must be true or false");
    return false;
}

const ordered_json* RequestReader::any(const char* name) {
    asked_.insert(name);
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    complain(name, "is missing");
    return nullptr;
}

Result<> RequestReader::check() const {
    if (error_.empty()) return {};
    return fail(Errc::invalid_argument, error_);
}

Result<> RequestReader::finish() {
    for (const auto& [name, value] : json_.items()) {
        if (asked_.contains(name)) continue;
        complain(name.substr(0, max_name_bytes),
                 fmt::format("is not known; this command takes {}", fmt::join(asked_, ", ")));
    }
    return check();
}

void RequestReader::complain(std::string_view name, std::string_view why) {
    if (error_.empty()) error_ = fmt::format("request: \"{}\" {}", name, why);
}

}  // namespace mqblk::registry
