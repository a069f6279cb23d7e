// SPDX-License-Identifier: Apache-2.0
//
// What a request is as a SCSI command: its CDB, and what goes to the disk besides the request's own data.
#pragma once

#include "block/request.h"
#include "driver/megaraid/command_memory.h"
#include "driver/megaraid/unit.h"
#include "wire/scsi.h"

#include <cstdint>

namespace mqblk::driver::megaraid {

[[nodiscard]] wire::scsi::Cdb build_cdb(const block::Request& request, std::uint64_t block,
                                        std::uint32_t blocks) noexcept;

struct Parameters {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;  ///< 0: there are none
};
/// Of UNMAP its range, of WRITE SAME a block of zeroes; written to the memory of command `smid`.
[[nodiscard]] Parameters write_parameters(const block::Request& request, const Unit& unit, CommandMemory& memory,
                                          std::uint16_t smid) noexcept;

}  // namespace mqblk::driver::megaraid
