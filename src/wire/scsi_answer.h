// SPDX-License-Identifier: Apache-2.0
//
// What a SCSI status and sense data mean for whoever sent the command. Tables (SAM-5 5.3, SPC-4 4.5).
#pragma once

#include <mqblk/status.h>

#include <cstdint>
#include <span>

namespace mqblk::wire::scsi {

enum class Verdict : std::uint8_t {
    good,
    again,    ///< may be sent again, a bounded number of times
    busy,     ///< the same, after a pause
    aborted,  ///< by task management
    error,
};

struct Answer {
    Verdict verdict = Verdict::error;
    mqblk::Status status = mqblk::Status::io_error;  ///< of an error, and of what has been sent again often enough
};

/// Sense data counts with CHECK CONDITION only.
[[nodiscard]] Answer judge(std::uint8_t scsi_status, std::span<const std::uint8_t> sense) noexcept;

}  // namespace mqblk::wire::scsi
