// SPDX-License-Identifier: Apache-2.0
//
// The makers of all commands, one per file of this folder.
#pragma once

#include "cli/command.h"

#include <memory>

namespace mqblk::cli {

std::unique_ptr<Command> make_help();
std::unique_ptr<Command> make_version();
std::unique_ptr<Command> make_completion();

}  // namespace mqblk::cli
