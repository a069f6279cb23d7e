// SPDX-License-Identifier: Apache-2.0
//
// help: what URIs can name and what exit codes mean, from the tables that the program itself uses.
#include "cli/commands/commands.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "registry/queue_options.h"
#include "registry/schemes.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <string>

namespace mqblk::cli {

namespace {

constexpr std::string_view uri_rules =
    "A URI names a device: scheme[+transport]://address/path?option=value&option=value\n"
    "A value that is itself a URI stands in square brackets: nvme+loop:///1?ns=[ram://?size=64M]\n"
    "Sizes take k, M, G, T (powers of 1024); times need a unit: ns, us, ms, s, m or h; %XX writes any other "
    "character.\n\n";

constexpr std::string_view exit_codes =
    "0      done\n"
    "1      the operation was tried and failed, in whole or in part\n"
    "2      the command line, a URI or a value in it is wrong; nothing was done\n"
    "3      data were compared or verified, and differ\n"
    "128+N  ended by signal N (130 for Ctrl-C)\n"
    "Ctrl-C ends in order: nothing new is begun, and what was begun is awaited. Where it is not answered, a second\n"
    "Ctrl-C gives it up and reports what was done; a third ends the program at once.\n"
    "Files that a command creates (size= of file://, -o, DST) are removed again if it ends with 2 or 1 before it used\n"
    "them; a file that size= has grown stays grown.\n";

class HelpCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("TOPIC", topic_, "uris or exit")->check(CLI::IsMember({"uris", "exit"}));
        app.add_flag("--markdown", markdown_, "The table of URIs as Markdown");
    }

    Result<int> run(const Invocation& invocation) override {
        if (topic_ == "exit") {
            write_output(exit_codes);
        } else if (topic_.empty()) {
            for (const auto& info : commands()) print("{:<12} {}\n", info.name, info.summary);
            print("\n`mqblk COMMAND --help` for each; `mqblk help uris` for what URIs name.\n");
        } else if (invocation.json) {
            print_json(schemes_as_json());
        } else if (markdown_) {
            write_output(registry::describe_schemes(true));
        } else {
            write_output(uri_rules);
            write_output(registry::describe_schemes(false));
        }
        return exit_ok;
    }

  private:
    static nlohmann::ordered_json options_as_json(std::span<const registry::OptionInfo> options) {
        auto list = nlohmann::ordered_json::array();
        for (const auto& option : options) {
            list.push_back({{"name", option.name},
                            {"form", option.form},
                            {"default", option.standard},
                            {"help", option.help},
                            {"repeats", option.repeats}});
        }
        return list;
    }

    static nlohmann::ordered_json schemes_as_json() {
        auto list = nlohmann::ordered_json::array();
        for (const auto& scheme : registry::schemes()) {
            list.push_back({{"scheme", scheme.name},
                            {"form", scheme.form},
                            {"summary", scheme.summary},
                            {"example", scheme.example},
                            {"options", options_as_json(scheme.options)}});
        }
        return {{"schemes", std::move(list)}, {"queue_options", options_as_json(registry::queue_options())}};
    }

    std::string topic_;
    bool markdown_ = false;
};

}  // namespace

std::unique_ptr<Command> make_help() {
    return std::make_unique<HelpCommand>();
}

}  // namespace mqblk::cli
