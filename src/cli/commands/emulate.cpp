// SPDX-License-Identifier: Apache-2.0
//
// emulate: the model of a card with devices as its disks, served on a vfio-user socket to a virtual machine or to a
// driver in another process. The main thread runs the model; a signal ends it in order.
#include "cli/commands/commands.h"
#include "cli/emulate/card.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/standard_output.h"
#include "pci/vfio_user_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::cli {

namespace {

class EmulateCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.require_subcommand(0, 1);
        app.fallthrough();
        app.add_option("WORDS", others_)->group("");  // to say what they are not
        app.add_option("--socket", socket_, "UNIX socket to make, for one client after the other")->required();
        app.add_flag("--poll", poll_, "Never sleep");
        for (auto make : {make_skd_card, make_megaraid_card}) {
            auto card = make();
            CLI::App* const chosen = card->declare(app);
            cards_.emplace_back(chosen, std::move(card));
        }
    }

    Result<int> run(const Invocation& invocation) override {
        for (const auto& [chosen, card] : cards_) {
            if (!chosen->parsed()) continue;
            if (others_.empty()) return emulate(invocation, *card);
            return fail(Errc::invalid_argument, fmt::format("emulate {}: '{}' is one argument too many (see mqblk "
                                                            "emulate {} --help)",
                                                            card->name(), others_.front(), card->name()));
        }
        std::vector<std::string> names;
        for (const auto& [chosen, card] : cards_) names.push_back(card->name());
        if (others_.empty()) {
            return fail(Errc::invalid_argument,
                        fmt::format("emulate: name the model as a subcommand; there are {}", fmt::join(names, ", ")));
        }
        return fail(Errc::invalid_argument, fmt::format("emulate: there is no model called \"{}\"; there are {}",
                                                        others_.front(), fmt::join(names, ", ")));
    }

  private:
    Result<int> emulate(const Invocation& invocation, EmulatedCard& card) {
        Session session;
        auto model = card.make(session);
        if (!model) return std::unexpected(model.error());
        const auto reactor = session.reactor();
        if (!reactor) return std::unexpected(reactor.error());
        Signals signals;
        const auto server = pci::VfioUserServer::listen(**reactor, socket_, std::move(*model));
        if (!server) return std::unexpected(server.error());
        if (poll_) (*reactor)->set_spin(Duration::max());
        announce(invocation, card);
        const auto ended = (*reactor)->watch(signals.fd(), [] {});
        ended->arm(false);
        while (Signals::caught() == 0) (*reactor)->run_once(Reactor::Sleep::yes);
        return exit_ok;
    }

    void announce(const Invocation& invocation, const EmulatedCard& card) const {
        const std::string uri = card.uri(socket_);
        if (invocation.json) {
            nlohmann::ordered_json report{{"ready", true}, {"model", card.name()}, {"socket", socket_}};
            if (!uri.empty()) report["uri"] = uri;
            card.report(report);
            print_json(report, json_one_line);
        } else {
            const auto lines = card.describe();
            print("{}, at {}\n", lines.front(), socket_);
            for (std::size_t i = 1; i < lines.size(); ++i) print("{}\n", lines[i]);
            if (!uri.empty()) print("  mqblk bench {}\n", uri);
            print(
                "  qemu-system-x86_64 -device '{{\"driver\":\"vfio-user-pci\",\"socket\":{{\"type\":\"unix\","
                "\"path\":\"{}\"}}}}' ...\n",
                std::filesystem::absolute(socket_).lexically_normal().string());
            print("ready\n");
        }
        flush_output();
    }

    std::string socket_;
    std::vector<std::string> others_;
    bool poll_ = false;
    std::vector<std::pair<CLI::App*, std::unique_ptr<EmulatedCard>>> cards_;
};

}  // namespace

std::unique_ptr<Command> make_emulate() {
    return std::make_unique<EmulateCommand>();
}

}  // namespace mqblk::cli
