// SPDX-License-Identifier: Apache-2.0
//
// ctl: one request to a running target or card model over its control socket, and its answer as text or JSON.
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/commands/commands.h"
#include "cli/control_socket.h"
#include "cli/names.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "registry/target_config.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>

namespace mqblk::cli {

namespace {

using nlohmann::ordered_json;

ordered_json member_list(const ordered_json& json, const char* name) {
    return json.value(name, ordered_json::array());
}

class CtlCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.require_subcommand(1);
        app.fallthrough();
        app.add_option("--control", socket_,
                       "The socket that `mqblk serve --control` or `mqblk emulate --control` made (required)");
        auto* add = declare_one(app, "add", "Open a device and add it as a namespace");
        add->add_option("[NAME=]URI", uri_, "The device, and the subsystem to add it to")->required();
        add_nqn(*add);
        add->add_option("--nsid", nsid_, "Namespace number [the lowest free one]")->check(CLI::Range(1u, 0xfffffffeu));
        auto* remove = declare_one(app, "remove", "Remove a namespace and close its device");
        add_nsid(*remove);
        add_nqn(*remove);
        auto* resize = declare_one(app, "resize", "Change the size of a null, ram or file device");
        add_nsid(*resize);
        add_size(*resize, "SIZE", bytes_, "The new size", 512, 1ull << 62)->required();
        resize->add_flag("--shrink", shrink_, "SIZE may be smaller: what lies beyond is lost");
        add_nqn(*resize);
        declare_one(app, "list", "Namespaces, addresses and connections; of a controller model, disks and counters");
        auto* save = declare_one(app, "save", "Write the target's configuration");
        save->add_option("FILE", file_, "Where to; - is standard output")->capture_default_str();
        auto* load = declare_one(app, "load", "Make the target what a saved configuration says");
        load->add_option("FILE", file_, "Where from; - is standard input")->required();
        declare_one(app, "hosts", "Hosts that may connect, and those that are connected");
        for (const char* name : {"allow-host", "disallow-host"}) {
            auto* sub = declare_one(app, name, name[0] == 'a' ? "Let a host connect" : "Let a host connect no more");
            sub->add_option("HOST", host_, "The host's NQN")->required();
            add_nqn(*sub);
        }
        auto* any = declare_one(app, "allow-any-host", "Let any host connect, or only those allowed");
        any->add_option("on|off", any_)->required()->check(CLI::IsMember({"on", "off"}));
        add_nqn(*any);
        auto* plug = declare_one(app, "plug", "Controller models: plug a new disk in, or one that was pulled out");
        plug->add_option("URI|pd/N|ld/N", unit_, "The device of a new disk, or which of those that were there")
            ->required();
        auto* pull = declare_one(app, "pull", "Controller models: pull a disk out, or take a volume away");
        pull->add_option("pd/N|ld/N", unit_, "The disk or volume")->required();
        auto* fault = declare_one(app, "fault", "Models: what goes wrong from now on");
        fault->add_option("FAULT", fault_, "As for the model's --fault")->required();
    }

    Result<int> run(const Invocation& invocation) override {
        if (socket_.empty()) {
            return fail(Errc::invalid_argument,
                        "ctl needs --control SOCKET: the socket of a target started with mqblk serve --control SOCKET");
        }
        auto request = make_request();
        if (!request) return std::unexpected(request.error());
        const auto line = request_line(*request);
        if (!line) return std::unexpected(line.error());
        const auto text = ask_control(socket_, *line);
        if (!text) return std::unexpected(text.error());
        const auto answer = ordered_json::parse(*text, nullptr, false);
        if (!answer.is_object() || !answer.contains("ok")) {
            return fail(Errc::protocol, fmt::format("what listens at {} is no mqblk target or model", socket_));
        }
        if (answer["ok"] != true) {
            const bool usage = answer.value("code", "") == to_string(Errc::invalid_argument);
            return fail(usage ? Errc::invalid_argument : Errc::io, answer.value("error", "no reason given"));
        }
        const auto result = answer.value("result", ordered_json::object());
        if (command_ == "save") return save(result);
        if (invocation.json) {
            print_json(result);
        } else {
            print_result(result);
        }
        return exit_ok;
    }

  private:
    CLI::App* declare_one(CLI::App& app, const char* name, const char* summary) {
        auto* sub = app.add_subcommand(name, summary);
        sub->callback([this, name] { command_ = name; });
        return sub;
    }
    void add_nqn(CLI::App& app) { app.add_option("--nqn", nqn_, "The subsystem [the target's own default]"); }
    void add_nsid(CLI::App& app) {
        app.add_option("NSID", nsid_, "The namespace")->required()->check(CLI::Range(1u, 0xfffffffeu));
    }

    /// Bytes that JSON cannot carry would name something else than was meant.
    static Result<std::string> request_line(const ordered_json& request) {
        try {
            return request.dump();
        } catch (const ordered_json::type_error&) {
            return fail(Errc::invalid_argument, "an argument is not UTF-8; in URIs, write such bytes as %XX");
        }
    }

    Result<ordered_json> make_request() {
        ordered_json request{{"command", command_}};
        if (command_ == "add") {
            const auto named = split_name(uri_, nqn_);
            request["uri"] = named.uri;
            nqn_ = named.nqn;
        }
        if (!nqn_.empty()) request["nqn"] = nqn_;
        if (nsid_ != 0) request["nsid"] = nsid_;
        if (command_ == "resize") request["bytes"] = bytes_;
        if (command_ == "resize" && shrink_) request["shrink"] = true;
        if (!host_.empty()) request["host"] = host_;
        if (command_ == "allow-any-host") request["any"] = any_ == "on";
        if (!unit_.empty()) request[unit_.find(':') == std::string::npos ? "unit" : "uri"] = unit_;
        if (!fault_.empty()) request["fault"] = fault_;
        if (command_ == "load") {
            const auto text = read_text();
            if (!text) return std::unexpected(text.error());
            const auto config = registry::TargetConfig::parse(*text);
            if (!config) return std::unexpected(config.error().in(file_));
            request["config"] = ordered_json::parse(*text);
        }
        return request;
    }

    Result<std::string> read_text() const {
        std::ifstream file;
        if (file_ != "-") file.open(file_, std::ios::binary);
        if (!file) return std::unexpected(Error::from_errno(errno, fmt::format("opening {}", file_)));
        std::string text(registry::TargetConfig::max_text_bytes + 1, '\0');
        const auto bytes =
            file_ == "-"
                ? std::fread(text.data(), 1, text.size(), stdin)
                : static_cast<std::size_t>(file.rdbuf()->sgetn(text.data(), static_cast<std::streamsize>(text.size())));
        text.resize(bytes);
        return text;
    }

    Result<int> save(const ordered_json& config) const {
        const auto text = json_text(config) + "\n";
        if (file_ == "-") {
            write_output(text);
            return exit_ok;
        }
        std::ofstream file(file_, std::ios::binary | std::ios::trunc);
        file << text;
        file.close();
        if (!file) return std::unexpected(Error::from_errno(errno, fmt::format("writing {}", file_)));
        return exit_ok;
    }

    void print_result(const ordered_json& result) const {
        if (command_ == "add") {
            print("{} namespace {}: {}\n", result.value("nqn", ""), result.value("nsid", 0u), result.value("uri", ""));
        } else if (command_ == "plug" && result.contains("bytes")) {
            print("{}: {}, {}\n", result.value("unit", ""), unit_, human_size(result.value("bytes", std::uint64_t{0})));
        } else if (command_ == "list" && result.contains("model")) {
            print_model(result);
        } else if (command_ == "list") {
            for (const auto& address : member_list(result, "listen"))
                print("listening on {}\n", address.get<std::string>());
            print("{} connections\n", result.value("connections", 0u));
            for (const auto& entry : member_list(result, "namespaces")) {
                print("{} namespace {}: {}, {}, blocks of {} bytes\n", entry.value("nqn", ""), entry.value("nsid", 0u),
                      entry.value("uri", ""), human_size(entry.value("bytes", std::uint64_t{0})),
                      entry.value("block", 0u));
            }
        } else if (command_ == "hosts") {
            for (const auto& entry : member_list(result, "subsystems")) {
                print("{}: {}\n", entry.value("nqn", ""),
                      entry.value("allow_any_host", false) ? "any host" : "these hosts:");
                for (const auto& host : member_list(entry, "allowed_hosts")) print("  {}\n", host.get<std::string>());
            }
            for (const auto& entry : member_list(result, "controllers")) {
                print("connected: {} from {} to {}, controller {}, {} I/O queues\n", entry.value("host", ""),
                      entry.value("peer", ""), entry.value("nqn", ""), entry.value("controller", 0u),
                      entry.value("io_queues", 0u));
            }
        }
    }

    static void print_model(const ordered_json& result) {
        print("{}: {}, {} commands in flight\n", result.value("model", ""), result.value("state", ""),
              result.value("in_flight", 0u));
        for (const auto& unit : member_list(result, "units")) {
            print("{}: {}, {}, blocks of {} bytes{}\n", unit.value("unit", ""), unit.value("device", ""),
                  human_size(unit.value("bytes", std::uint64_t{0})), unit.value("block", 0u),
                  unit.value("present", false) ? "" : ", pulled out");
        }
        const auto counters = result.value("counters", ordered_json::object());
        for (const auto& [name, value] : counters.items()) print("{}: {}\n", name, value.get<std::uint64_t>());
    }

    std::string socket_, command_, uri_, nqn_, host_, any_, unit_, fault_, file_ = "-";
    std::uint32_t nsid_ = 0;
    std::uint64_t bytes_ = 0;
    bool shrink_ = false;
};

}  // namespace

std::unique_ptr<Command> make_ctl() {
    return std::make_unique<CtlCommand>();
}

}  // namespace mqblk::cli
