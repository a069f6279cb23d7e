// SPDX-License-Identifier: Apache-2.0
//
// emulate: the model of a card with a device as its disk, served on a vfio-user socket to a virtual machine or to a
// driver in another process. The main thread runs the model; a signal ends it in order.
#include "cli/commands/commands.h"
#include "cli/numbers.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/standard_output.h"
#include "device/skd/card.h"
#include "pci/vfio_user_server.h"
#include "registry/uri.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace mqblk::cli {

namespace {

class EmulateCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.require_subcommand(1);
        app.fallthrough();
        app.add_option("--socket", socket_, "UNIX socket to make, for one client after the other")->required();
        app.add_flag("--poll", poll_, "Never sleep");
        auto* skd = app.add_subcommand("skd", "The sTec S1120 PCIe SSD, for Linux's skd driver and mqblk's own");
        skd->add_option("DISK-URI", disk_, "The device that is its flash; blocks of 512 bytes")->required();
        skd->add_option("--profile", profile_, "Timing: none, as fast as it goes, or s1120, the published figures")
            ->capture_default_str();
        skd->add_option("--serial", serial_, "Serial number, 12 characters [the disk's own]");
        skd->add_option("--fault", faults_,
                        "What goes wrong: KIND[@COMMAND][xCOUNT][,KEY=VALUE]..., may be repeated; KIND is\n"
                        "medium-error, status (status, key, asc), lost, late, twice (by), wrong-tag, busy, sanitize,\n"
                        "erase, fault, restart, offline, gone (for), each also with lba and blocks; no-answer (type)")
            ->allow_extra_args(false);
    }

    Result<int> run(const Invocation& invocation) override {
        device::skd::Options options{.serial = serial_, .boot_time = {}, .reset_time = {}, .faults = {}};
        const auto profile = device::skd::parse_profile(profile_);
        if (!profile) return std::unexpected(profile.error().in("--profile"));
        options.profile = *profile;
        for (const std::string& text : faults_) {
            const auto fault = device::skd::parse_fault(text);
            if (!fault) return std::unexpected(fault.error().in("--fault"));
            options.faults.push_back(*fault);
        }
        Session session;
        auto disk = session.context().open(disk_);
        if (!disk) return std::unexpected(disk.error());
        const std::uint64_t bytes = (*disk)->sectors() * sector_bytes;
        auto card = device::skd::Card::create(std::move(*disk), std::move(options));
        if (!card) return std::unexpected(card.error());
        return serve(invocation, session, std::move(*card), bytes);
    }

  private:
    Result<int> serve(const Invocation& invocation, Session& session, std::unique_ptr<pci::Model> model,
                      std::uint64_t disk_bytes) {
        const auto reactor = session.reactor();
        if (!reactor) return std::unexpected(reactor.error());
        Signals signals;
        const auto server = pci::VfioUserServer::listen(**reactor, socket_, std::move(model));
        if (!server) return std::unexpected(server.error());
        if (poll_) (*reactor)->set_spin(Duration::max());
        announce(invocation, disk_bytes);
        const auto ended = (*reactor)->watch(signals.fd(), [] {});
        ended->arm(false);
        while (Signals::caught() == 0) (*reactor)->run_once(Reactor::Sleep::yes);
        return exit_ok;
    }

    void announce(const Invocation& invocation, std::uint64_t disk_bytes) const {
        if (invocation.json) {
            const nlohmann::ordered_json report{{"ready", true},      {"model", "skd"},  {"socket", socket_},
                                                {"uri", uri()},       {"device", disk_}, {"bytes", disk_bytes},
                                                {"profile", profile_}};
            print_json(report, json_one_line);
        } else {
            print("S1120 with {}, {}, at {}\n", disk_, binary_bytes(disk_bytes), socket_);
            print("  mqblk bench {}\n", uri());
            print(
                "  qemu-system-x86_64 -device '{{\"driver\":\"vfio-user-pci\",\"socket\":{{\"type\":\"unix\","
                "\"path\":\"{}\"}}}}' ...\n",
                socket_);
            print("ready\n");
        }
        flush_output();
    }

    /// What a driver in another process opens.
    [[nodiscard]] std::string uri() const {
        registry::Uri uri;
        uri.scheme = "skd+vfio-user";
        uri.path = std::filesystem::absolute(socket_).lexically_normal().string();
        return uri.to_string();
    }

    std::string socket_, disk_, profile_ = "none", serial_;
    std::vector<std::string> faults_;
    bool poll_ = false;
};

}  // namespace

std::unique_ptr<Command> make_emulate() {
    return std::make_unique<EmulateCommand>();
}

}  // namespace mqblk::cli
