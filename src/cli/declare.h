// SPDX-License-Identifier: Apache-2.0
//
// Commands as subcommands of CLI11: their own arguments and those that all of them share. Used to parse, and to make
// completion scripts from the same declarations.
#pragma once

#include "cli/command.h"

#include <CLI/App.hpp>

#include <memory>

namespace mqblk::cli {

struct Declared {
    std::unique_ptr<Command> command;
    CLI::App* app;  ///< owned by the parent
};

/// Adds the command to `parent`; options write into the command and into `invocation`, which outlive the parsing.
[[nodiscard]] Declared declare_command(CLI::App& parent, const CommandInfo& info, Invocation& invocation);

}  // namespace mqblk::cli
