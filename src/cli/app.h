// SPDX-License-Identifier: Apache-2.0
//
// From arguments to a command, and from its outcome to an exit code and at most one line on stderr.
#pragma once

namespace mqblk::cli {

/// Parses, runs, reports. Returns the exit code (see command.h). Never throws.
int run(int argc, const char* const* argv) noexcept;

}  // namespace mqblk::cli
