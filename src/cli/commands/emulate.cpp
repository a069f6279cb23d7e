// SPDX-License-Identifier: Apache-2.0
//
// emulate: the model of a card with devices as its disks, served on a vfio-user socket to a virtual machine or to a
// driver in another process. The model works in a thread of its own; the main thread waits for signals and for what
// `mqblk ctl` asks.
#include "base/steady_clock.h"
#include "cli/commands/commands.h"
#include "cli/control_server.h"
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

#include <algorithm>
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
        app.add_option("--control", control_, "UNIX socket for `mqblk ctl`");
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
        const SteadyClock clock;
        const auto thread = registry::ReactorThread::start(clock, {.name = "mqblk-model", .poll = poll_});
        if (!thread) return std::unexpected(thread.error());
        Signals signals(Signals::Second::ends_the_process);
        std::unique_ptr<ControlServer> control;
        if (!control_.empty()) {
            auto listening = ControlServer::listen(control_, registry::max_control_bytes, [&](std::string_view line) {
                return registry::answer_line(answer(line, card, session, **thread));
            });
            if (!listening) return std::unexpected(listening.error());
            control = std::move(*listening);
        }
        Result<std::unique_ptr<pci::VfioUserServer>> server;
        (*thread)->run([&] { server = pci::VfioUserServer::listen((*thread)->reactor(), socket_, std::move(*model)); });
        if (!server) return std::unexpected(server.error());
        announce(invocation, card);
        wait_for_end(signals, control.get());
        (*thread)->run([&] { server->reset(); });
        return exit_ok;
    }

    static Result<nlohmann::ordered_json> answer(std::string_view line, EmulatedCard& card, Session& session,
                                                 registry::ReactorThread& thread) {
        const auto request = registry::parse_request(line);
        if (!request) return std::unexpected(request.error());
        registry::RequestReader reader(*request);
        const auto command = reader.command();
        if (!command) return std::unexpected(command.error());
        if (std::ranges::find(card.commands(), *command) == card.commands().end())
            return registry::no_such_command(*command, card.commands());
        return card.control(*command, reader, session, thread);
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

    std::string socket_, control_;
    std::vector<std::string> others_;
    bool poll_ = false;
    std::vector<std::pair<CLI::App*, std::unique_ptr<EmulatedCard>>> cards_;
};

}  // namespace

std::unique_ptr<Command> make_emulate() {
    return std::make_unique<EmulateCommand>();
}

}  // namespace mqblk::cli
