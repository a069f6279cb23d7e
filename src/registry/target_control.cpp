// SPDX-License-Identifier: Apache-2.0
#include "registry/target_control.h"

#include "base/printable.h"
#include "registry/json_text.h"
#include "registry/options.h"
#include "registry/target_service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mqblk::registry {

namespace {

using nlohmann::ordered_json;

/// One request's members by type; keeps the first complaint.
class RequestReader {
  public:
    explicit RequestReader(const ordered_json& json) : json_(json) {}

    std::string text(const char* name, const std::string& standard) {
        asked_.insert(name);
        const auto found = json_.find(name);
        if (found == json_.end()) return standard;
        if (found->is_string()) return found->get<std::string>();
        complain(name, "must be a string");
        return standard;
    }
    std::string required_text(const char* name) {
        auto value = text(name, "");
        if (value.empty()) complain(name, "is missing");
        return value;
    }
    std::uint64_t number(const char* name, std::optional<std::uint64_t> standard, std::uint64_t high) {
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
    bool flag(const char* name, std::optional<bool> standard = std::nullopt) {
        asked_.insert(name);
        const auto found = json_.find(name);
        if (found == json_.end() && standard) return *standard;
        if (found != json_.end() && found->is_boolean()) return found->get<bool>();
        complain(name, "must be true or false");
        return false;
    }
    const ordered_json* any(const char* name) {
        asked_.insert(name);
        const auto found = json_.find(name);
        if (found != json_.end()) return &*found;
        complain(name, "is missing");
        return nullptr;
    }
    /// What is wrong so far.
    [[nodiscard]] Result<> check() const {
        if (error_.empty()) return {};
        return fail(Errc::invalid_argument, error_);
    }
    /// The same once all was asked for: what was not is not known.
    [[nodiscard]] Result<> finish() {
        for (const auto& [name, value] : json_.items()) {
            if (asked_.contains(name)) continue;
            complain(name.substr(0, 64), fmt::format("is not known; this command takes {}", fmt::join(asked_, ", ")));
        }
        return check();
    }

  private:
    void complain(std::string_view name, std::string_view why) {
        if (error_.empty()) error_ = fmt::format("request: \"{}\" {}", name, why);
    }
    const ordered_json& json_;
    std::string error_;
    std::set<std::string> asked_;
};

struct Call {
    TargetService& service;
    const std::string& default_nqn;
    RequestReader reader;

    std::string nqn() { return reader.text("nqn", default_nqn); }
    std::uint32_t nsid(std::optional<std::uint64_t> standard) {
        return static_cast<std::uint32_t>(reader.number("nsid", standard, 0xfffffffe));
    }
};

using Answer = Result<ordered_json>;
constexpr std::size_t max_error_bytes = 2000;  // of an answer: an error may name a URI of a megabyte

Answer done(const Result<>& result) {
    if (!result) return std::unexpected(result.error());
    return ordered_json::object();
}

ordered_json describe(const TargetService::Added& entry) {
    return {{"nqn", entry.nqn},
            {"nsid", entry.info.nsid},
            {"uri", entry.info.uri},
            {"bytes", entry.info.sectors * sector_bytes},
            {"block", entry.info.block_bytes},
            {"uuid", entry.info.uuid},
            {"nguid", entry.info.nguid}};
}

Answer call_add(Call& call) {
    const auto nqn = call.nqn();
    NamespaceEntry entry{call.nsid(0), call.reader.required_text("uri"), call.reader.text("uuid", ""),
                         call.reader.text("nguid", "")};
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    const auto added = call.service.add(nqn, std::move(entry));
    if (!added) return std::unexpected(added.error());
    return describe(*added);
}

Answer call_remove(Call& call) {
    const auto nqn = call.nqn();
    const auto nsid = call.nsid(std::nullopt);
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    return done(call.service.remove(nqn, nsid));
}

Answer call_resize(Call& call) {
    const auto nqn = call.nqn();
    const auto nsid = call.nsid(std::nullopt);
    const auto bytes = call.reader.number("bytes", std::nullopt, std::numeric_limits<std::int64_t>::max());
    const bool shrink = call.reader.flag("shrink", false);
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    return done(call.service.resize(nqn, nsid, bytes, shrink));
}

Answer call_list(Call& call) {
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    auto namespaces = ordered_json::array();
    for (const auto& entry : call.service.namespaces()) namespaces.push_back(describe(entry));
    auto listen = ordered_json::array();
    for (const auto& address : call.service.addresses()) listen.push_back(address.to_string());
    return ordered_json{{"listen", std::move(listen)},
                        {"connections", call.service.connections()},
                        {"namespaces", std::move(namespaces)}};
}

Answer call_save(Call& call) {
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    return ordered_json::parse(call.service.save().to_json());
}

Answer call_load(Call& call) {
    const auto* const config = call.reader.any("config");
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    const auto parsed = TargetConfig::parse(config->dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    if (!parsed) return std::unexpected(parsed.error());
    return done(call.service.load(*parsed));
}

Answer call_hosts(Call& call) {
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    auto subsystems = ordered_json::array();
    for (const auto& subsystem : call.service.save().subsystems) {
        subsystems.push_back({{"nqn", subsystem.nqn},
                              {"allow_any_host", subsystem.allow_any_host},
                              {"allowed_hosts", subsystem.allowed_hosts}});
    }
    auto controllers = ordered_json::array();
    for (const auto& info : call.service.target().controllers()) {
        controllers.push_back({{"nqn", info.subsystem_nqn},
                               {"host", info.host_nqn},
                               {"peer", info.peer},
                               {"controller", info.controller_id},
                               {"io_queues", info.io_queues},
                               {"keep_alive_ms", info.keep_alive_ms}});
    }
    return ordered_json{{"subsystems", std::move(subsystems)}, {"controllers", std::move(controllers)}};
}

Answer call_allow_host(Call& call) {
    const auto nqn = call.nqn();
    const auto host = call.reader.required_text("host");
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    return done(call.service.allow_host(nqn, host));
}

Answer call_disallow_host(Call& call) {
    const auto nqn = call.nqn();
    const auto host = call.reader.required_text("host");
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    return done(call.service.disallow_host(nqn, host));
}

Answer call_allow_any_host(Call& call) {
    const auto nqn = call.nqn();
    const bool any = call.reader.flag("any");
    if (auto ok = call.reader.finish(); !ok) return std::unexpected(ok.error());
    return done(call.service.allow_any_host(nqn, any));
}

struct Handler {
    std::string_view name;
    Answer (*handle)(Call&);
};
constexpr std::array handlers{
    Handler{"add", call_add},
    Handler{"remove", call_remove},
    Handler{"resize", call_resize},
    Handler{"list", call_list},
    Handler{"save", call_save},
    Handler{"load", call_load},
    Handler{"hosts", call_hosts},
    Handler{"allow-host", call_allow_host},
    Handler{"disallow-host", call_disallow_host},
    Handler{"allow-any-host", call_allow_any_host},
};

Answer dispatch(TargetService& service, const std::string& default_nqn, std::string_view text) {
    if (text.size() > max_control_bytes) {
        return fail(Errc::invalid_argument, fmt::format("request: longer than {} bytes", max_control_bytes));
    }
    const auto request = parse_json(text);
    if (!request.is_object()) return fail(Errc::invalid_argument, "request: not a JSON object on one line");
    Call call{service, default_nqn, RequestReader(request)};
    const auto command = call.reader.required_text("command");
    if (auto ok = call.reader.check(); !ok) return std::unexpected(ok.error());
    std::vector<std::string_view> names;
    for (const auto& handler : handlers) {
        if (handler.name == command) return handler.handle(call);
        names.push_back(handler.name);
    }
    return fail(Errc::invalid_argument, fmt::format("request: there is no command \"{}\"; there are {}",
                                                    command.substr(0, 64), fmt::join(names, ", ")));
}

}  // namespace

std::string handle_control(TargetService& service, const std::string& default_nqn, std::string_view request) {
    const auto answer = dispatch(service, default_nqn, request);
    const ordered_json json =
        answer ? ordered_json{{"ok", true}, {"result", *answer}}
               : ordered_json{
                     {"ok", false},
                     {"code", to_string(answer.error().code())},
                     {"error", abridged(answer.error().message(), max_error_bytes)}};
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace mqblk::registry
