// SPDX-License-Identifier: Apache-2.0
//
// What the answer in a request frame means: the firmware's status, the SCSI status behind it, and sense data. Tables.
#pragma once

#include <mqblk/status.h>

#include <cstdint>
#include <span>

namespace mqblk::driver::megaraid {

enum class Verdict : std::uint8_t {
    good,
    again,        ///< may be sent again, a bounded number of times
    by_firmware,  ///< the configuration has changed: again, without the map
    aborted,      ///< by task management
    error,
};

struct Answer {
    Verdict verdict = Verdict::error;
    Status status = Status::io_error;  ///< of an error, and of what has been sent again often enough
};

/// `mfi_status` and `scsi_status` as the firmware wrote them. Sense data counts with CHECK CONDITION only.
[[nodiscard]] Answer judge(std::uint8_t mfi_status, std::uint8_t scsi_status,
                           std::span<const std::uint8_t> sense) noexcept;

}  // namespace mqblk::driver::megaraid
