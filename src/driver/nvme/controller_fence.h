// SPDX-License-Identifier: Apache-2.0
//
// What the fence between two associations goes by, as functions of what the target stated. The fence itself is
// ControllerCore's (controller_fence.cpp).
#pragma once

#include "base/clock.h"
#include "driver/nvme/association.h"
#include "driver/nvme/controller_facts.h"
#include "wire/nvme_cross_reset.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace mqblk::driver::nvme {

/// A controller that was lost, or left, and may still carry commands out while its association says that one may act.
struct Unfenced {
    wire::nvme::ControllerInstance instance;
    Time dead_by;  ///< it has stopped by then, whatever has become of it
    std::shared_ptr<Association> association;
};
/// Those that one host has lost of one subsystem at one address: shared by its controllers there, the next included.
/// Control reactor only.
using FenceBook = std::vector<Unfenced>;

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
