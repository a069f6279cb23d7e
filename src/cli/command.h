// SPDX-License-Identifier: Apache-2.0
//
// What a command is: it declares its arguments, then runs once. One file per command under commands/; the table in
// commands.cpp lists them all. A command writes its report to stdout, progress to stderr, and returns errors as values.
#pragma once

#include <mqblk/error.h>

#include <memory>
#include <span>
#include <string_view>

namespace CLI {
class App;
}

namespace mqblk::cli {

/// Exit codes; `mqblk help exit` prints them.
enum ExitCode : int {
    exit_ok = 0,
    exit_failed = 1,   ///< the operation was tried and failed, in whole or in part
    exit_usage = 2,    ///< the command line, a URI or a value in it is wrong; nothing was done
    exit_differs = 3,  ///< data were compared or verified, and differ
    exit_signal = 128  ///< plus the signal's number: ended by it
};

/// What all commands are told.
struct Invocation {
    bool json = false;      ///< the report as JSON
    unsigned verbose = 0;   ///< -v: once for what happens, twice for every step
    bool progress = false;  ///< progress even when stderr is no terminal
};

class Command {
  public:
    virtual ~Command() = default;
    /// Adds options and positional arguments that write into this object.
    virtual void declare(CLI::App&) = 0;
    /// The exit code, or an error: `invalid_argument` becomes exit_usage, any other exit_failed.
    virtual Result<int> run(const Invocation&) = 0;
};

struct CommandInfo {
    std::string_view name;
    std::string_view summary;  ///< one line
    std::string_view footer;   ///< examples and notes, below the options in --help
    std::unique_ptr<Command> (*make)();
};

/// All commands in the order of --help.
[[nodiscard]] std::span<const CommandInfo> commands() noexcept;

}  // namespace mqblk::cli
