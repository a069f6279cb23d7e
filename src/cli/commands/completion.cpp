// SPDX-License-Identifier: Apache-2.0
//
// Completion scripts, made from the declarations that also parse, so that they cannot be out of date: commands, their
// options, the kinds of devices and file names.
#include "cli/commands/commands.h"
#include "cli/declare.h"
#include "cli/print.h"
#include "registry/schemes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace mqblk::cli {

namespace {

struct CommandWords {
    std::string name, summary;
    std::vector<std::string> options;
    std::vector<std::string> subcommands;
};

std::vector<CommandWords> collect_words() {
    CLI::App app;
    Invocation invocation;
    std::vector<CommandWords> result;
    for (const auto& info : commands()) {
        const auto declared = declare_command(app, info, invocation);
        CommandWords words{std::string(info.name), std::string(info.summary), {}, {}};
        for (const auto* option : declared.app->get_options()) {
            for (const auto& name : option->get_lnames()) words.options.push_back("--" + name);
        }
        for (const auto* sub : declared.app->get_subcommands([](CLI::App*) { return true; })) {
            words.subcommands.push_back(sub->get_name());
        }
        result.push_back(std::move(words));
    }
    return result;
}

std::string scheme_words() {
    std::vector<std::string> words;
    for (const auto& scheme : registry::schemes()) words.push_back(fmt::format("{}://", scheme.name));
    return fmt::format("{}", fmt::join(words, " "));
}

std::string bash_script(const std::vector<CommandWords>& all) {
    std::string cases, names;
    for (const auto& words : all) {
        names += words.name + " ";
        cases += fmt::format("        {}) options=\"{}\"; plain=\"{} {}\" ;;\n", words.name,
                             fmt::join(words.options, " "), fmt::join(words.subcommands, " "), scheme_words());
    }
    return fmt::format(R"(# mqblk: completion for bash
_mqblk() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" options="" plain=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{}--help --version" -- "$current"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{}    esac
    case "$current" in
        -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
        *) COMPREPLY=($(compgen -W "$plain" -- "$current") $(compgen -f -- "$current")) ;;
    esac
}}
complete -o nospace -F _mqblk mqblk
)",
                       names, cases);
}

std::string zsh_script(const std::vector<CommandWords>& all) {
    std::string cases, names;
    for (const auto& words : all) {
        names += fmt::format("        '{}:{}'\n", words.name, words.summary);
        cases += fmt::format("        {}) compadd -- {} {} {}; _files ;;\n", words.name, fmt::join(words.options, " "),
                             fmt::join(words.subcommands, " "), scheme_words());
    }
    return fmt::format(R"(#compdef mqblk
_mqblk() {{
    local -a names
    names=(
{}    )
    if (( CURRENT == 2 )); then
        _describe command names
        return
    fi
    case "$words[2]" in
{}    esac
}}
_mqblk "$@"
)",
                       names, cases);
}

std::string fish_script(const std::vector<CommandWords>& all) {
    std::string text = "# mqblk: completion for fish\n";
    for (const auto& words : all) {
        text += fmt::format("complete -c mqblk -n __fish_use_subcommand -a {} -d '{}'\n", words.name, words.summary);
        for (const auto& option : words.options) {
            text += fmt::format("complete -c mqblk -n '__fish_seen_subcommand_from {}' -l {}\n", words.name,
                                option.substr(2));
        }
        if (!words.subcommands.empty()) {
            text += fmt::format("complete -c mqblk -n '__fish_seen_subcommand_from {}' -a '{}'\n", words.name,
                                fmt::join(words.subcommands, " "));
        }
    }
    text += fmt::format("complete -c mqblk -n 'not __fish_use_subcommand' -a '{}'\n", scheme_words());
    return text;
}

class CompletionCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("SHELL", shell_, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
    }

    Result<int> run(const Invocation&) override {
        const auto words = collect_words();
        write_output(shell_ == "bash" ? bash_script(words) : shell_ == "zsh" ? zsh_script(words) : fish_script(words));
        return exit_ok;
    }

  private:
    std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion() {
    return std::make_unique<CompletionCommand>();
}

}  // namespace mqblk::cli
