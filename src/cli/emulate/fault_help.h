// SPDX-License-Identifier: Apache-2.0
//
// What `--fault` of a model takes, for its --help.
#pragma once

#include "base/fault_text.h"

#include <span>
#include <string>
#include <string_view>

namespace mqblk::cli {

/// `command` is what the model counts, and since when, as in "SCSI command COMMAND since the card's start".
[[nodiscard]] std::string explain_faults(std::string_view command, std::string_view blocks,
                                         std::span<const FaultHelp> kinds);

}  // namespace mqblk::cli
