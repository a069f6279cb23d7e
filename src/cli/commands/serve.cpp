// SPDX-License-Identifier: Apache-2.0
//
// serve: an NVMe/TCP target over devices given by URI. The main thread only waits for signals and control requests.
#include "base/log.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/commands/commands.h"
#include "cli/control_server.h"
#include "cli/names.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/standard_output.h"
#include "registry/control_request.h"
#include "registry/target_control.h"
#include "registry/target_service.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace mqblk::cli {

namespace {

using registry::TargetConfig;
using registry::TargetService;

/// From a signal to the end, whatever the backends do: those end or fail their commands in less (io_timeout).
constexpr std::chrono::seconds shutdown_bound{60};

Result<TargetConfig> read_config(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::unexpected(Error::from_errno(errno, fmt::format("opening {}", path)));
    std::string text(TargetConfig::max_text_bytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    auto config = TargetConfig::parse(text);
    if (!config) return std::unexpected(config.error().in(path));
    return config;
}

/// Where a client on this machine reaches what listens at `address`.
fabric::Address reachable(fabric::Address address) {
    if (address.host == "0.0.0.0") address.host = "127.0.0.1";
    if (address.host == "::") address.host = "::1";
    return address;
}

class ServeCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("[NAME=]URI", disks_, "Devices to serve; those with the same NAME share a subsystem");
        app.add_option("--listen", listen_,
                       "ADDR[:PORT] to listen on, may be repeated; port 0: any free one "
                       "[127.0.0.1:4420]")
            ->allow_extra_args(false);
        app.add_option("--nqn", nqn_, "Subsystem of devices without NAME")->capture_default_str();
        app.add_option("--allow-host", hosts_, "NQN of a host that may connect, may be repeated [any host]")
            ->allow_extra_args(false);
        app.add_option("--config", config_, "Configuration to load, as `mqblk ctl save` writes it");
        app.add_option("--control", control_, "UNIX socket for `mqblk ctl`");
        app.add_option("--threads", options_.threads, "Threads that serve")
            ->check(CLI::Range(1, 1024))
            ->capture_default_str();
        add_cores(app, "--cores", options_.cores, "CPUs to pin one thread each to, instead of --threads");
        app.add_flag("--poll", options_.poll, "Never sleep");
        app.add_flag("--no-header-digest", no_header_digest_, "Do not grant header digests");
        app.add_flag("--no-data-digest", no_data_digest_, "Do not grant data digests");
        add_size(app, "--max-transfer", max_transfer_, "Most bytes of one command [1M]", 4096, 64u << 20);
        add_size(app, "--in-capsule", in_capsule_, "Most bytes of data within a command capsule [16k]", 0, 1u << 20);
        add_size(app, "--buffers", buffers_, "Memory of each thread for data on its way [64M]", 1u << 20, 1ull << 40);
    }

    Result<int> run(const Invocation& invocation) override {
        if (disks_.empty() && config_.empty() && control_.empty()) {
            return fail(Errc::invalid_argument,
                        "nothing to serve: name a device, as in mqblk serve ram://?size=64M, or --config or --control");
        }
        options_.tcp.header_digest = !no_header_digest_;
        options_.tcp.data_digest = !no_data_digest_;
        options_.tcp.buffer_bytes = buffers_;
        options_.target.max_transfer_bytes = static_cast<std::uint32_t>(max_transfer_);
        options_.target.in_capsule_bytes = static_cast<std::uint32_t>(in_capsule_);
        Context context;
        FreshFiles fresh(context);
        auto service = TargetService::start(context, options_);
        if (!service) return std::unexpected(service.error());
        if (auto ok = set_up(**service); !ok) return std::unexpected(ok.error());
        Signals signals(Signals::Second::ends_the_process);
        std::unique_ptr<ControlServer> control;
        if (!control_.empty()) {
            auto listening = ControlServer::listen(control_, registry::max_control_bytes, [&](std::string_view line) {
                return registry::handle_control(**service, nqn_, line);
            });
            if (!listening) return std::unexpected(listening.error());
            control = std::move(*listening);
        }
        fresh.keep();
        announce(invocation, **service);
        if (const int problem = std::fflush(stdout) == 0 ? 0 : errno; problem != 0) {
            note_output_error(problem);
            return exit_failed;
        }
        wait_for_end(signals, control.get());
        if (const auto closed = (*service)->close(shutdown_bound); !closed) {
            log_error(closed.error().in("serve").message());
            std::_Exit(exit_failed);  // the devices may still write to memory of this process: nothing is taken apart
        }
        return exit_ok;
    }

  private:
    Result<> set_up(TargetService& service) {
        if (!config_.empty()) {
            const auto config = read_config(config_);
            if (!config) return std::unexpected(config.error());
            if (auto ok = service.load(*config); !ok) return std::unexpected(ok.error().in(config_));
        }
        std::set<std::string> nqns;
        for (const auto& disk : disks_) {
            auto named = split_name(disk, nqn_);
            if (nqns.insert(named.nqn).second) {
                if (auto ok = admit_hosts(service, named.nqn); !ok) return ok;
            }
            if (auto added = service.add(named.nqn, {0, named.uri, {}, {}}); !added) {
                return std::unexpected(added.error());
            }
        }
        if (disks_.empty() && config_.empty()) {
            if (auto ok = admit_hosts(service, nqn_); !ok) return ok;
        }
        if (listen_.empty()) listen_.push_back("127.0.0.1:4420");
        for (const auto& text : listen_) {
            const auto address = fabric::Address::parse(text, nvme_tcp_port);
            if (!address) return std::unexpected(address.error().in("--listen"));
            if (auto taken = service.listen(*address); !taken) return std::unexpected(taken.error());
        }
        return {};
    }

    Result<> admit_hosts(TargetService& service, const std::string& nqn) const {
        if (auto ok = service.ensure_subsystem(nqn, hosts_.empty()); !ok) return ok;
        for (const auto& host : hosts_) {
            if (auto ok = service.allow_host(nqn, host); !ok) return ok;
        }
        return {};
    }

    void announce(const Invocation& invocation, TargetService& service) const {
        const auto namespaces = service.namespaces();
        const auto addresses = service.addresses();
        if (invocation.json) {
            auto list = nlohmann::ordered_json::array();
            for (const auto& entry : namespaces) {
                auto uris = nlohmann::ordered_json::array();
                for (const auto& address : addresses)
                    uris.push_back(namespace_uri(reachable(address), entry.nqn, entry.info.nsid));
                list.push_back({{"nqn", entry.nqn},
                                {"nsid", entry.info.nsid},
                                {"device", entry.info.uri},
                                {"bytes", entry.info.sectors * sector_bytes},
                                {"uris", std::move(uris)}});
            }
            const nlohmann::ordered_json report{{"ready", true}, {"namespaces", std::move(list)}};
            print_json(report, json_one_line);
        } else {
            print_namespaces(namespaces, addresses);
            print("ready\n");
        }
    }

    static void print_namespaces(const std::vector<TargetService::Added>& namespaces,
                                 const std::vector<fabric::Address>& addresses) {
        for (const auto& entry : namespaces) {
            print("{} namespace {}: {}, {}, blocks of {} bytes\n", entry.nqn, entry.info.nsid, entry.info.uri,
                  human_size(entry.info.sectors * sector_bytes), entry.info.block_bytes);
            for (const auto& address : addresses) {
                print("  mqblk bench {}\n", namespace_uri(reachable(address), entry.nqn, entry.info.nsid));
            }
        }
        std::set<std::string> nqns;
        for (const auto& entry : namespaces) nqns.insert(entry.nqn);
        for (const auto& nqn : nqns) {
            for (const auto& address : addresses) {
                const auto at = reachable(address);
                print("  nvme connect -t tcp -a {} -s {} -n {}\n", at.host, at.port, nqn);
            }
        }
    }

    std::vector<std::string> disks_, listen_, hosts_;
    std::string nqn_ = std::string(default_nqn), config_, control_;
    bool no_header_digest_ = false, no_data_digest_ = false;
    std::uint64_t max_transfer_ = 1u << 20, in_capsule_ = 16384, buffers_ = 64u << 20;
    TargetService::Options options_;
};

}  // namespace

std::unique_ptr<Command> make_serve() {
    return std::make_unique<ServeCommand>();
}

}  // namespace mqblk::cli
