// SPDX-License-Identifier: Apache-2.0
#include "cli/app.h"

#include "base/log.h"
#include "cli/command.h"
#include "cli/declare.h"
#include "cli/print.h"
#include "cli/standard_output.h"
#include "registry/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace mqblk::cli {

namespace {

constexpr std::string_view app_footer =
    "Exit codes: 0 done; 1 failed; 2 wrong command line or URI, nothing was done; 3 data differ;\n"
    "128+N ended by signal N. Ctrl-C ends in order; again, it gives up what is not answered and reports.\n"
    "`mqblk help uris` lists every kind of device; `mqblk COMMAND --help` has examples.";

/// CLI11's words for it are "Could not convert: --seed = x".
int report_no_number(std::string_view text) {
    const auto equals = text.rfind(" = ");
    const auto colon = text.find(": ");
    if (equals == std::string_view::npos || colon == std::string_view::npos || colon > equals) {
        complain(text);
    } else {
        complain(fmt::format("{}={}: must be a number", text.substr(colon + 2, equals - colon - 2),
                             text.substr(equals + 3)));
    }
    return exit_usage;
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
        std::ostringstream out, unused;
        app.exit(error, out, unused);
        write_output(out.str());
        return finish_output(exit_ok);
    }
    if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) return report_no_number(error.what());
    const auto chosen = app.get_subcommands();
    complain(
        fmt::format("{} (see mqblk {}--help)", error.what(), chosen.empty() ? "" : chosen.front()->get_name() + " "));
    return exit_usage;
}

int run_command(Command& command, const Invocation& invocation) {
    const auto outcome = command.run(invocation);
    if (outcome) return finish_output(*outcome);
    if (std::fflush(stdout) != 0) note_output_error(errno);
    if (output_reader_gone()) return finish_output(exit_failed);
    complain(outcome.error().message());
    return outcome.error().code() == Errc::invalid_argument ? exit_usage : exit_failed;
}

/// A first word that is no command deserves a better answer than the parser's.
bool complain_of_unknown_command(int argc, const char* const* argv) {
    if (argc < 2 || argv[1][0] == '-') return false;
    const std::string_view word = argv[1];
    std::vector<std::string_view> names;
    for (const auto& info : commands()) names.push_back(info.name);
    if (std::find(names.begin(), names.end(), word) != names.end()) return false;
    const auto meant = registry::closest(word, names);
    complain(fmt::format("there is no command \"{}\"{}; there are {}", word,
                         meant.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", meant), fmt::join(names, ", ")));
    return true;
}

int parse_and_run(int argc, const char* const* argv) {
    CLI::App app("User-space multi-queue block storage: serve disks over NVMe/TCP, use them, measure them.", "mqblk");
    Invocation invocation;
    app.set_version_flag("--version", std::string("mqblk ") + MQBLK_VERSION);
    app.require_subcommand(1);
    app.footer(std::string(app_footer));
    std::vector<Declared> declared;
    for (const auto& info : commands()) declared.push_back(declare_command(app, info, invocation));
    if (complain_of_unknown_command(argc, argv)) return exit_usage;
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return report_parse_error(app, error);
    }
    set_log_level(invocation.verbose == 0   ? LogLevel::warning
                  : invocation.verbose == 1 ? LogLevel::info
                                            : LogLevel::debug);
    for (const auto& entry : declared) {
        if (entry.app->parsed()) return run_command(*entry.command, invocation);
    }
    return exit_usage;
}

}  // namespace

int run(int argc, const char* const* argv) noexcept {
    std::signal(SIGPIPE, SIG_IGN);
    // A shell starts what it runs in the background with Ctrl-C ignored; commands catch it, and so it ends them before
    // they do, too.
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    hold_standard_descriptors();
    try {
        return parse_and_run(argc, argv);
    } catch (const std::exception& error) {
        complain(fmt::format("internal error: {}", error.what()));
        return exit_failed;
    }
}

}  // namespace mqblk::cli
