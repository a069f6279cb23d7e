// SPDX-License-Identifier: Apache-2.0
//
// Which controllers this driver knows, by their PCI ids, before anything of them is touched.
#pragma once

#include "wire/megaraid.h"

#include <mqblk/error.h>

#include <cstdint>
#include <string>

namespace mqblk::driver::megaraid {

/// The generation of the function called `name`. The error names its ids and those that are known, and what else can be
/// done with a controller that is newer.
[[nodiscard]] Result<wire::megaraid::Generation> find_generation(const std::string& name, std::uint16_t vendor,
                                                                 std::uint16_t device);

/// For people: "sas1078", "gen2", "skinny", "thunderbolt", "invader".
[[nodiscard]] const char* to_string(wire::megaraid::Generation) noexcept;

}  // namespace mqblk::driver::megaraid
