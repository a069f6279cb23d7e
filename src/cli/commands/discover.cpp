// SPDX-License-Identifier: Apache-2.0
//
// discover: what targets offer, by their discovery logs.
#include "cli/commands/commands.h"
#include "cli/discovery.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <string>

namespace mqblk::cli {

namespace {

using nlohmann::ordered_json;

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

}  // namespace

std::unique_ptr<Command> make_discover() {
    return std::make_unique<DiscoverCommand>();
}

}  // namespace mqblk::cli
