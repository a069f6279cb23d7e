// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/commands.h"

#include <array>

namespace mqblk::cli {

namespace {

constexpr std::array table{
    CommandInfo{"help", "What URIs name, and what exit codes mean",
                "Examples:\n"
                "  mqblk help uris\n"
                "  mqblk help uris --markdown > table.md\n"
                "  mqblk help exit",
                make_help},
    CommandInfo{"completion", "A completion script for a shell",
                "Examples:\n"
                "  . <(mqblk completion bash)\n"
                "  mqblk completion zsh > ~/.zfunc/_mqblk\n"
                "  mqblk completion fish > ~/.config/fish/completions/mqblk.fish",
                make_completion},
    CommandInfo{"version", "The version of mqblk and of what it was built with", "", make_version},
};

}  // namespace

std::span<const CommandInfo> commands() noexcept {
    return table;
}

}  // namespace mqblk::cli
