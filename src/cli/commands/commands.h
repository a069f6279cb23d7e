// SPDX-License-Identifier: Apache-2.0
//
// The makers of all commands, one per file of this folder.
#pragma once

#include "cli/command.h"

#include <memory>

namespace mqblk::cli {

std::unique_ptr<Command> make_serve();
std::unique_ptr<Command> make_ctl();
std::unique_ptr<Command> make_emulate();
std::unique_ptr<Command> make_discover();
std::unique_ptr<Command> make_list();
std::unique_ptr<Command> make_info();
std::unique_ptr<Command> make_read();
std::unique_ptr<Command> make_write();
std::unique_ptr<Command> make_copy();
std::unique_ptr<Command> make_verify();
std::unique_ptr<Command> make_flush();
std::unique_ptr<Command> make_discard();
std::unique_ptr<Command> make_zero();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_latency();
std::unique_ptr<Command> make_iops();
std::unique_ptr<Command> make_raid();
std::unique_ptr<Command> make_help();
std::unique_ptr<Command> make_version();
std::unique_ptr<Command> make_completion();

}  // namespace mqblk::cli
