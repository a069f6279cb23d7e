// SPDX-License-Identifier: Apache-2.0
//
// Unit: one disk or volume behind the controller, as the driver keeps it. Its route and block size are read by the
// queues on every command and change only while they stand still; all is written under the controller's mutex too.
#pragma once

#include "driver/megaraid/route.h"

#include <mqblk/device.h>

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk::driver::megaraid {

/// What it says of itself.
struct UnitFacts {
    std::uint64_t blocks = 0;
    std::uint32_t block_bytes = 512;
    std::uint32_t physical_bytes = 512;
    bool write_cache = true;
    bool fua = false;
    bool read_only = false;
    bool rotational = false;
    std::uint32_t max_unmap_blocks = 0;       ///< 0: no UNMAP
    std::uint32_t max_write_same_blocks = 0;  ///< 0: no WRITE SAME
    std::uint32_t unmap_granularity_blocks = 1;
    std::string vendor, product, revision, serial;
};

struct Unit {
    Route route;
    unsigned block_shift = 0;  ///< of blocks over sectors; constant once known
    bool present = false;
    bool known = false;    ///< it has been asked
    bool taken = false;    ///< somebody has it open, or had
    bool retired = false;  ///< gone while it was taken, for good: what comes back in its place is another Unit
    UnitFacts facts;
    std::weak_ptr<Device> device;  ///< if somebody has it open

    [[nodiscard]] Kind kind() const noexcept { return route.kind; }
    [[nodiscard]] std::uint16_t id() const noexcept { return route.id; }
};

}  // namespace mqblk::driver::megaraid
