// SPDX-License-Identifier: Apache-2.0
//
// Opens NVMe namespaces: over TCP, or of a target in this process, which a URI with ns= makes on the way.
#include "base/units.h"
#include "registry/schemes.h"
#include "registry/services.h"

#include <fmt/format.h>

namespace mqblk::registry {

namespace {

using driver::nvme::Controller;
using driver::nvme::HostOptions;

constexpr std::size_t longest_uri_nqn_bytes = 223;
constexpr std::uint64_t max_nsid = 0xfffffffe;

struct NamespaceName {
    std::string nqn;
    std::uint32_t nsid = 0;
};

/// "/NQN/NSID"; an NQN may itself hold slashes. Without an NQN where `nqn_needed` is off.
Result<NamespaceName> read_name(const Uri& uri, const SchemeInfo& info, bool nqn_needed) {
    const auto slash = uri.path.rfind('/');
    const auto expected = [&] {
        return fail(Errc::invalid_argument, fmt::format("{}: \"{}\" does not name a namespace; write {}, as in {}",
                                                        uri.scheme, uri.path, info.form, info.example));
    };
    if (slash == std::string::npos) return expected();
    NamespaceName name{uri.path.substr(0, slash), 0};
    if (!name.nqn.empty()) name.nqn.erase(0, 1);
    if (name.nqn.empty() == nqn_needed) return expected();
    if (name.nqn.size() > longest_uri_nqn_bytes) {
        return fail(Errc::invalid_argument, fmt::format("{}: the NQN has {} bytes; at most {} are allowed", uri.scheme,
                                                        name.nqn.size(), longest_uri_nqn_bytes));
    }
    const auto nsid = parse_number("NSID", std::string_view(uri.path).substr(slash + 1), 1, max_nsid);
    if (!nsid) return std::unexpected(nsid.error().in(uri.scheme));
    name.nsid = static_cast<std::uint32_t>(*nsid);
    return name;
}

HostOptions read_host_options(OptionReader& reader, const Services& services) {
    constexpr auto hour = std::chrono::hours(1);
    constexpr auto ms = std::chrono::milliseconds(1);
    HostOptions options;
    options.queues = static_cast<unsigned>(reader.number("queues", options.queues, 1, 65535));
    options.depth = static_cast<unsigned>(reader.number("depth", options.depth, 1, 65535));
    options.header_digest = reader.flag("hdgst", false);
    options.data_digest = reader.flag("ddgst", false);
    options.keep_alive = reader.time("keep_alive", options.keep_alive, Duration::zero(), hour);
    options.connect_timeout = reader.time("connect_timeout", options.connect_timeout, ms, hour);
    options.reconnect_delay = reader.time("reconnect_delay", options.reconnect_delay, ms, hour);
    options.ctrl_loss_tmo = reader.time("ctrl_loss_tmo", std::chrono::seconds(services.options().ctrl_loss_tmo_s),
                                        Duration::zero(), 24 * hour);
    options.io_timeout = reader.time("timeout", options.io_timeout, ms, hour);
    options.host_nqn = reader.text("hostnqn", services.options().host_nqn);
    return options;
}

Result<std::shared_ptr<Device>> take_namespace(Services& services, Result<std::shared_ptr<Controller>> controller,
                                               std::uint32_t nsid) {
    if (!controller) return std::unexpected(controller.error());
    auto device = (*controller)->device(nsid);
    if (!device) {
        services.release(std::move(*controller));
        return std::unexpected(device.error());
    }
    return services.bind(std::move(*device), std::move(*controller));
}

/// Opens each ns= and makes a subsystem of them, numbered from 1. Nothing is left behind where one fails.
Result<std::string> make_subsystem(Services& services, const Services::LoopParts& parts,
                                   const std::vector<const Uri*>& uris) {
    std::vector<device::nvme::NamespaceConfig> namespaces;
    for (const auto* uri : uris) {
        auto device = services.open(*uri);
        if (!device) return std::unexpected(device.error());
        device::nvme::NamespaceConfig config;
        config.nsid = static_cast<std::uint32_t>(namespaces.size() + 1);
        config.uri = uri->to_string();
        config.device = std::move(*device);
        namespaces.push_back(std::move(config));
    }
    device::nvme::SubsystemConfig subsystem;
    subsystem.nqn = services.new_loop_nqn();
    if (auto ok = parts.target->add_subsystem(subsystem); !ok) return std::unexpected(ok.error());
    for (auto& config : namespaces) {
        if (auto ok = parts.target->add_namespace(subsystem.nqn, std::move(config)); !ok) {
            [[maybe_unused]] const auto removed = parts.target->remove_subsystem(subsystem.nqn);
            return std::unexpected(ok.error());
        }
    }
    return subsystem.nqn;
}

}  // namespace

Result<std::shared_ptr<Device>> open_nvme_tcp(Services& services, const Uri& uri, const SchemeInfo& info) {
    const auto name = read_name(uri, info, true);
    if (!name) return std::unexpected(name.error());
    if (uri.address.empty()) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: no address; write {}, as in {}", uri.scheme, info.form, info.example));
    }
    constexpr std::uint16_t nvme_tcp_port = 4420;
    const auto address = fabric::Address::parse(uri.address, nvme_tcp_port);
    if (!address) return std::unexpected(address.error().in(uri.scheme));
    OptionReader reader(uri, info.options);
    const auto options = read_host_options(reader, services);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    auto controller =
        services.connect([&](driver::nvme::Host& host) { return host.connect(*address, name->nqn, options); });
    return take_namespace(services, std::move(controller), name->nsid);
}

Result<std::shared_ptr<Device>> open_nvme_loop(Services& services, const Uri& uri, const SchemeInfo& info) {
    OptionReader reader(uri, info.options);
    const auto options = read_host_options(reader, services);
    const auto namespaces = reader.uris("ns");
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (!uri.address.empty()) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: takes no address; write {}, as in {}", uri.scheme, info.form, info.example));
    }
    auto name = read_name(uri, info, namespaces.empty());
    if (!name) return std::unexpected(name.error());
    const auto loop = services.loop();
    if (!loop) return std::unexpected(loop.error());
    if (!namespaces.empty()) {
        auto nqn = make_subsystem(services, *loop, namespaces);
        if (!nqn) return std::unexpected(nqn.error().in(uri.scheme));
        name->nqn = std::move(*nqn);
    }
    auto controller =
        services.connect([&](driver::nvme::Host& host) { return host.connect(loop->loop, name->nqn, options); });
    return take_namespace(services, std::move(controller), name->nsid);
}

}  // namespace mqblk::registry
