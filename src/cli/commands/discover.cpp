// SPDX-License-Identifier: Apache-2.0
//
// discover and list: what targets offer, by their discovery logs, and the namespaces behind it.
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/names.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"
#include "driver/nvme/host_identity.h"
#include "registry/services.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace mqblk::cli {

namespace {

using driver::nvme::DiscoveryEntry;
using driver::nvme::HostOptions;
using nlohmann::ordered_json;

HostOptions short_lived(const std::string& host_nqn) {
    HostOptions options;
    options.host_nqn = host_nqn;
    options.queues = 1;
    options.ctrl_loss_tmo = std::chrono::seconds(command_loss_tmo_s);
    return options;
}

Result<std::vector<DiscoveryEntry>> ask_discovery(registry::Services& services, const std::string& text,
                                                  const std::string& host_nqn) {
    const auto address = fabric::Address::parse(text, nvme_tcp_port);
    if (!address) return std::unexpected(address.error());
    const auto parts = services.host();
    if (!parts) return std::unexpected(parts.error());
    return parts->control->wait_for([&] { return parts->host->discover(*address, short_lived(host_nqn)); });
}

/// Why a log may be empty: a target shows a host what it may use.
std::string nothing_offered(const std::string& address, const std::string& host_nqn) {
    const auto identity = driver::nvme::host_identity(host_nqn, "");
    return fmt::format(
        "{} offers no subsystem to the host '{}'; allow it there with --allow-host, or name one that is "
        "allowed with --hostnqn",
        address, identity ? identity->nqn : host_nqn);
}

class DiscoverCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("ADDR[:PORT]", address_, "The target")->capture_default_str();
        app.add_option("--hostnqn", host_nqn_, "How this host names itself");
    }

    Result<int> run(const Invocation& invocation) override {
        Session session;
        const auto entries = ask_discovery(session.context().services(), address_, host_nqn_);
        if (!entries) return std::unexpected(entries.error());
        if (invocation.json) {
            auto records = ordered_json::array();
            for (const auto& entry : *entries) {
                records.push_back({{"trtype", entry.transport},
                                   {"adrfam", entry.address_family},
                                   {"subtype", entry.subsystem_type},
                                   {"treq", entry.secure_channel},
                                   {"portid", entry.port_id},
                                   {"cntlid", entry.controller_id},
                                   {"asqsz", entry.admin_queue_size},
                                   {"trsvcid", entry.service},
                                   {"subnqn", entry.nqn},
                                   {"traddr", entry.address}});
            }
            print_json(ordered_json{{"device", address_}, {"records", std::move(records)}});
            return exit_ok;
        }
        for (const auto& entry : *entries) {
            print("{} {} {}:{} port {} {}\n", entry.transport, entry.address_family, entry.address, entry.service,
                  entry.port_id, entry.nqn);
        }
        if (entries->empty()) print("{}\n", nothing_offered(address_, host_nqn_));
        return exit_ok;
    }

  private:
    std::string address_ = "127.0.0.1", host_nqn_;
};

struct ListedNamespace {
    std::string uri, nqn, model, serial, uuid;
    std::uint32_t nsid = 0;
    std::uint64_t bytes = 0;
    std::uint32_t block = 0;
};

class ListCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("ADDR", addresses_, "Targets as ADDR[:PORT] [127.0.0.1:4420]");
        app.add_option("--hostnqn", host_nqn_, "How this host names itself");
    }

    Result<int> run(const Invocation& invocation) override {
        if (addresses_.empty()) addresses_.push_back("127.0.0.1:4420");
        Session session;
        std::vector<ListedNamespace> all;
        for (const auto& address : addresses_) {
            if (auto ok = list_target(session.context().services(), address, all); !ok) {
                return std::unexpected(ok.error());
            }
        }
        if (invocation.json) {
            print_list_json(all);
        } else {
            print_table(all);
        }
        return exit_ok;
    }

  private:
    Result<> list_target(registry::Services& services, const std::string& text, std::vector<ListedNamespace>& all) {
        const auto entries = ask_discovery(services, text, host_nqn_);
        if (!entries) return std::unexpected(entries.error());
        if (entries->empty()) return fail(Errc::permission_denied, nothing_offered(text, host_nqn_));
        const auto asked = fabric::Address::parse(text, nvme_tcp_port);
        std::vector<std::string> nqns;
        for (const auto& entry : *entries) {
            // A target with several ports shows each subsystem on each; all are reached where we asked.
            const bool known = std::find(nqns.begin(), nqns.end(), entry.nqn) != nqns.end();
            if (entry.transport == "tcp" && entry.subsystem_type == "nvme subsystem" && !known)
                nqns.push_back(entry.nqn);
        }
        for (const auto& nqn : nqns) {
            auto controller = services.connect(
                [&](driver::nvme::Host& host) { return host.connect(*asked, nqn, short_lived(host_nqn_)); });
            if (!controller) return std::unexpected(controller.error());
            for (const auto nsid : (*controller)->namespaces()) {
                const auto device = (*controller)->device(nsid);
                if (!device) continue;  // removed meanwhile
                const auto identity = (*device)->identity();
                all.push_back({namespace_uri(*asked, nqn, nsid), nqn, identity.model, identity.serial, identity.uuid,
                               nsid, (*device)->sectors() * sector_bytes, (*device)->limits().logical_block_size});
            }
            services.release(std::move(*controller));
        }
        return {};
    }

    static void print_list_json(const std::vector<ListedNamespace>& all) {
        auto list = ordered_json::array();
        for (const auto& ns : all) {
            list.push_back({{"uri", ns.uri},
                            {"nqn", ns.nqn},
                            {"nsid", ns.nsid},
                            {"bytes", ns.bytes},
                            {"block", ns.block},
                            {"model", ns.model},
                            {"serial", ns.serial},
                            {"uuid", ns.uuid}});
        }
        print_json(ordered_json{{"namespaces", std::move(list)}});
    }

    static void print_table(const std::vector<ListedNamespace>& all) {
        std::size_t width = 3;
        for (const auto& ns : all) width = std::max(width, ns.uri.size());
        print("{:<{}}  {:>8}  {:>5}  {:<20}  {}\n", "URI", width, "SIZE", "BLOCK", "SERIAL", "MODEL");
        for (const auto& ns : all) {
            print("{:<{}}  {:>8}  {:>5}  {:<20}  {}\n", ns.uri, width, human_size(ns.bytes), ns.block, ns.serial,
                  ns.model);
        }
    }

    std::vector<std::string> addresses_;
    std::string host_nqn_;
};

}  // namespace

std::unique_ptr<Command> make_discover() {
    return std::make_unique<DiscoverCommand>();
}
std::unique_ptr<Command> make_list() {
    return std::make_unique<ListCommand>();
}

}  // namespace mqblk::cli
