// SPDX-License-Identifier: Apache-2.0
//
// list: the namespaces of targets, by their discovery logs, and what is behind controllers; each with the URI that
// opens it.
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/discovery.h"
#include "cli/names.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"
#include "registry/listing.h"
#include "registry/services.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace mqblk::cli {

namespace {

using nlohmann::ordered_json;
using registry::ControllerListing;

struct ListedNamespace {
    std::string uri, nqn, model, serial, uuid;
    std::uint32_t nsid = 0;
    std::uint64_t bytes = 0;
    std::uint32_t block = 0;
};

/// A line of the table.
struct ListedDisk {
    std::string uri;
    std::uint64_t bytes;
    std::uint32_t block;
    std::string serial, model;
};

ordered_json namespace_json(const ListedNamespace& ns) {
    return {{"uri", ns.uri},     {"nqn", ns.nqn},     {"nsid", ns.nsid},     {"bytes", ns.bytes},
            {"block", ns.block}, {"model", ns.model}, {"serial", ns.serial}, {"uuid", ns.uuid}};
}

ordered_json controller_json(const ControllerListing& controller) {
    auto details = ordered_json::object();
    for (const auto& [name, value] : controller.details) details[name] = value;
    auto disks = ordered_json::array();
    for (const auto& disk : controller.disks) {
        ordered_json entry{{"uri", disk.uri},     {"kind", disk.kind},   {"id", disk.id},        {"bytes", disk.bytes},
                           {"block", disk.block}, {"model", disk.model}, {"serial", disk.serial}};
        if (disk.raid_level) entry["raid_level"] = *disk.raid_level;
        disks.push_back(std::move(entry));
    }
    return {{"uri", controller.uri},
            {"driver", controller.driver},
            {"details", std::move(details)},
            {"disks", std::move(disks)}};
}

/// What a controller says of itself, in one line; of a card that is one disk, the table says it.
void print_controller(const ControllerListing& controller) {
    const auto detail = [&](std::string_view name) {
        const auto found = std::ranges::find(controller.details, name, &std::pair<std::string, std::string>::first);
        return found == controller.details.end() ? std::string() : found->second;
    };
    const auto volumes = std::ranges::count(controller.disks, "volume", &ControllerListing::Disk::kind);
    const auto disks = std::ssize(controller.disks) - volumes;
    if (detail("product").empty()) return;
    print("{}: {}, serial {}, firmware {}, disks of their own {}, volumes {}\n", controller.uri, detail("product"),
          detail("controller_serial"), detail("firmware_state"), disks, volumes);
}

class ListCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("ADDR", addresses_,
                       "Targets as ADDR[:PORT] [127.0.0.1:4420]; controllers by URI, with or without the disk's name");
        app.add_option("--hostnqn", host_nqn_, "How this host names itself");
    }

    Result<int> run(const Invocation& invocation) override {
        if (addresses_.empty()) addresses_.push_back("127.0.0.1:4420");
        Session session;
        registry::Services& services = session.context().services();
        for (const auto& address : addresses_) {
            const bool is_uri = address.find("://") != std::string::npos;
            if (auto ok = is_uri ? list_uri(services, address) : list_target(services, address); !ok)
                return std::unexpected(ok.error());
        }
        if (invocation.json) {
            print_list_json();
        } else {
            for (const auto& controller : controllers_) print_controller(controller);
            print_table();
        }
        return exit_ok;
    }

  private:
    Result<> list_uri(registry::Services& services, const std::string& text) {
        const auto uri = registry::Uri::parse(text);
        if (!uri) return std::unexpected(uri.error());
        auto listing = registry::list_controller(services, *uri);
        if (!listing) return std::unexpected(listing.error());
        for (const auto& disk : listing->disks)
            table_.push_back({disk.uri, disk.bytes, disk.block, disk.serial, disk.model});
        controllers_.push_back(std::move(*listing));
        return {};
    }

    Result<> list_target(registry::Services& services, const std::string& text) {
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
                namespaces_.push_back({namespace_uri(*asked, nqn, nsid), nqn, identity.model, identity.serial,
                                       identity.uuid, nsid, (*device)->sectors() * sector_bytes,
                                       (*device)->limits().logical_block_size});
                const ListedNamespace& ns = namespaces_.back();
                table_.push_back({ns.uri, ns.bytes, ns.block, ns.serial, ns.model});
            }
            services.release(std::move(*controller));
        }
        return {};
    }

    void print_list_json() const {
        auto namespaces = ordered_json::array(), controllers = ordered_json::array();
        for (const auto& ns : namespaces_) namespaces.push_back(namespace_json(ns));
        for (const auto& controller : controllers_) controllers.push_back(controller_json(controller));
        ordered_json report{{"namespaces", std::move(namespaces)}};
        if (!controllers.empty()) report["controllers"] = std::move(controllers);
        print_json(report);
    }

    void print_table() const {
        std::size_t width = 3;
        for (const auto& disk : table_) width = std::max(width, disk.uri.size());
        print("{:<{}}  {:>8}  {:>5}  {:<20}  {}\n", "URI", width, "SIZE", "BLOCK", "SERIAL", "MODEL");
        for (const auto& disk : table_) {
            print("{:<{}}  {:>8}  {:>5}  {:<20}  {}\n", disk.uri, width, human_size(disk.bytes), disk.block,
                  disk.serial, disk.model);
        }
    }

    std::vector<std::string> addresses_;
    std::string host_nqn_;
    std::vector<ListedNamespace> namespaces_;
    std::vector<ControllerListing> controllers_;
    std::vector<ListedDisk> table_;  ///< all, in the order asked for
};

}  // namespace

std::unique_ptr<Command> make_list() {
    return std::make_unique<ListCommand>();
}

}  // namespace mqblk::cli
