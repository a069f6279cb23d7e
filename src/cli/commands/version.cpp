// SPDX-License-Identifier: Apache-2.0
//
// version: of the program, the compiler and the kernel.
#include "cli/commands/commands.h"
#include "cli/print.h"
#include "cli/print_json.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace mqblk::cli {

namespace {

class VersionCommand final : public Command {
  public:
    void declare(CLI::App&) override {}

    Result<int> run(const Invocation& invocation) override {
        utsname system{};
        uname(&system);
        if (invocation.json) {
            const nlohmann::ordered_json report{
                {"mqblk version", "mqblk-" MQBLK_VERSION}, {"compiler", __VERSION__}, {"kernel", system.release}};
            print_json(report);
        } else {
            print("mqblk-{}\ncompiler {}\nkernel {}\n", MQBLK_VERSION, __VERSION__, system.release);
        }
        return exit_ok;
    }
};

}  // namespace

std::unique_ptr<Command> make_version() {
    return std::make_unique<VersionCommand>();
}

}  // namespace mqblk::cli
