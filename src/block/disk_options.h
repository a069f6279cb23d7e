// SPDX-License-Identifier: Apache-2.0
//
// What can be set for every disk of a driver without a wire, and the disk and shape that follow from it.
#pragma once

#include "block/driver.h"

#include <mqblk/error.h>

#include <cstdint>
#include <string_view>

namespace mqblk::block {

struct DiskOptions {
    unsigned block = 512;  ///< logical block size in bytes: 512 or 4096
    unsigned queues = 0;   ///< hardware queues, 1 … 1,024; 0 = one for each processor
    unsigned depth = 128;  ///< tags per hardware queue, 1 … 65,536
    bool read_only = false;
};

/// Refuses values out of range and sizes that are zero or no multiple of the block. `what` names the disk in the error.
[[nodiscard]] Result<> check_disk_options(std::string_view what, const DiskOptions&, std::uint64_t bytes);

/// The block sizes, filled in; everything else as by default.
[[nodiscard]] QueueLimits limits_for(const DiskOptions&);

[[nodiscard]] Driver::Shape shape_for(const DiskOptions&, std::size_t payload_bytes);

}  // namespace mqblk::block
