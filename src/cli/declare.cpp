// SPDX-License-Identifier: Apache-2.0
#include "cli/declare.h"

#include <CLI/CLI.hpp>

#include <string>

namespace mqblk::cli {

Declared declare_command(CLI::App& parent, const CommandInfo& info, Invocation& invocation) {
    auto* sub = parent.add_subcommand(std::string(info.name), std::string(info.summary));
    sub->footer(std::string(info.footer));
    sub->add_flag("--json", invocation.json, "Report as JSON");
    sub->add_flag("--progress", invocation.progress, "Show progress even when stderr is no terminal");
    sub->add_flag("-v,--verbose", invocation.verbose, "Log what happens; twice for every step");
    Declared declared{info.make(), sub};
    declared.command->declare(*sub);
    return declared;
}

}  // namespace mqblk::cli
