// SPDX-License-Identifier: Apache-2.0
//
// What the firmware's registers mean to a driver: what to do in each state on the way to ready, and the limits that
// follow from the scratch pads. Pure functions. The wait in each state is the caller's.
#pragma once

#include "wire/megaraid.h"

#include <cstdint>

namespace mqblk::driver::megaraid {

enum class Step : std::uint8_t {
    wait,   ///< until the register changes
    write,  ///< `doorbell`, then wait
    done,   ///< it is ready
    fail,   ///< nothing leads from here
};
struct BringUp {
    Step step = Step::fail;
    std::uint32_t doorbell = 0;  ///< wire::megaraid::Doorbell values
};
/// `resetting`: a controller reset is under way, so that a fault may still go away.
[[nodiscard]] BringUp bring_up(wire::megaraid::State state, bool resetting) noexcept;

[[nodiscard]] const char* to_string(wire::megaraid::State) noexcept;

/// Whether a fault of a Fusion controller is one that a controller reset may help against.
[[nodiscard]] constexpr bool reset_may_help(std::uint32_t scratch_pad) noexcept {
    return wire::megaraid::state_of(scratch_pad) != wire::megaraid::State::fault ||
           (scratch_pad & wire::megaraid::state_reset_adapter) != 0;
}

struct Limits {
    unsigned commands = 0;  ///< of all kinds, outstanding at once; SMIDs are 1 to this
    unsigned reply_queues = 1;
    std::uint32_t chain_bytes = 1024;  ///< of MFI frames with their list, in the generation that has nothing else
    unsigned sges = 0;                 ///< of one request
    unsigned reply_depth = 0;          ///< entries of a reply queue
    bool msix = false;
    bool combined_index = false;  ///< eight reply queues share an index register
    bool ieee_lists = true;       ///< MFI frames may have elements with flags
};
[[nodiscard]] Limits read_limits(std::uint32_t scratch_pad, std::uint32_t scratch_pad_2,
                                 wire::megaraid::Generation generation) noexcept;

}  // namespace mqblk::driver::megaraid
