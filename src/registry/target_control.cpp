// SPDX-License-Identifier: Apache-2.0
#include "registry/target_control.h"

#include "registry/control_request.h"
#include "registry/target_service.h"

#include <nlohmann/json.hpp>

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::registry {

namespace {

using nlohmann::ordered_json;

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
    const auto request = parse_request(text);
    if (!request) return std::unexpected(request.error());
    Call call{service, default_nqn, RequestReader(*request)};
    const auto command = call.reader.command();
    if (!command) return std::unexpected(command.error());
    std::vector<std::string_view> names;
    for (const auto& handler : handlers) {
        if (handler.name == *command) return handler.handle(call);
        names.push_back(handler.name);
    }
    return no_such_command(*command, names);
}

}  // namespace

std::string handle_control(TargetService& service, const std::string& default_nqn, std::string_view request) {
    return answer_line(dispatch(service, default_nqn, request));
}

}  // namespace mqblk::registry
