// SPDX-License-Identifier: Apache-2.0
#include "cli/emulate/fault_help.h"

#include <fmt/format.h>

namespace mqblk::cli {

std::string explain_faults(std::string_view command, std::string_view blocks, std::span<const FaultHelp> kinds) {
    std::string text = fmt::format(
        "A fault is KIND[@COMMAND[xCOUNT]][,KEY=VALUE]...: it strikes at {},\n"
        "or the next after that which it fits, COUNT times in a row (x0: for ever). COMMAND 0, or no @: at the next "
        "that\n"
        "it fits. Commands of a driver's start-up count. {}\n"
        "by and for are times, as in 2s. Kinds:\n",
        command, blocks);
    for (const FaultHelp& help : kinds)
        text += fmt::format("  {} ({})\n      {}\n", help.kind, help.keys, help.meaning);
    return text;
}

}  // namespace mqblk::cli
