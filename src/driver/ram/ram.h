// SPDX-License-Identifier: Apache-2.0
//
// The RAM disk: memory that is taken from the system as it is written and given back as it is discarded. Its content is
// zero at first and gone when the last user closes it.
#pragma once

#include "block/disk_options.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk::driver::ram {

struct Options {
    std::uint64_t bytes = 0;
    block::DiskOptions disk;
    bool populate = false;  ///< take all memory when opened
    std::string name = "ram";
};

[[nodiscard]] Result<std::shared_ptr<Device>> open(const Options&);

/// A RAM disk can grow to this many times the size it was opened with: so much address space it holds.
inline constexpr unsigned growth = 16;

/// Changes the size of a device that open() made, a multiple of its block. What lies beyond a smaller size is lost; new
/// space reads as zero. Requests beyond the new end that are on their way end with out_of_range. Any thread, but not
/// from within a completion.
[[nodiscard]] Result<> resize(Device&, std::uint64_t bytes);

}  // namespace mqblk::driver::ram
