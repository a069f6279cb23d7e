// SPDX-License-Identifier: Apache-2.0
//
// What the fence between two associations goes by, as functions of what the target stated. The fence itself is
// ControllerCore's (controller_fence.cpp).
#pragma once

#include "base/clock.h"
#include "driver/nvme/controller_facts.h"
#include "wire/nvme_cross_reset.h"

#include <cstdint>
#include <optional>
#include <span>

namespace mqblk::driver::nvme {

/// How long after its host's last word a controller may still carry commands out: until its keep-alive has expired, by
/// traffic or by command, and its commands have come to rest. A network is thought to hold nothing back for longer than
/// one keep-alive time-out. NVMe 2.3, section 9.6.
[[nodiscard]] Duration longest_afterlife(Duration keep_alive, const ControllerFacts&);

/// What the Cross-Controller Reset log says of an instance, whose random number it does not repeat: the newest entry's
/// status. Nothing: it has no such entry.
[[nodiscard]] std::optional<std::uint8_t> cross_reset_state(const wire::nvme::CrossResetLogHeader&,
                                                            std::span<const wire::nvme::CrossResetLogEntry>,
                                                            const wire::nvme::ControllerInstance&);

}  // namespace mqblk::driver::nvme
