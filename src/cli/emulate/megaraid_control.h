// SPDX-License-Identifier: Apache-2.0
//
// What `mqblk ctl` does to a running model of a MegaRAID controller: tell its disks and counters, plug disks in, pull
// disks and volumes out, give it faults.
#pragma once

#include "device/megaraid/controller.h"
#include "registry/control_request.h"
#include "registry/reactor_thread.h"

#include <mqblk/context.h>
#include <mqblk/error.h>

#include <nlohmann/json.hpp>

#include <array>
#include <string_view>

namespace mqblk::cli {

inline constexpr std::array<std::string_view, 4> megaraid_commands{"list", "plug", "pull", "fault"};

/// Carries out one of them, for a controller that works in `thread`; from another thread.
[[nodiscard]] Result<nlohmann::ordered_json> control_megaraid(device::megaraid::Controller& controller,
                                                              registry::ReactorThread& thread, Context& context,
                                                              std::string_view command,
                                                              registry::RequestReader& request);

}  // namespace mqblk::cli
