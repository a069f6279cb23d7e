// SPDX-License-Identifier: Apache-2.0
//
// What a SCSI status and sense data mean for a request. Tables.
#pragma once

#include <mqblk/status.h>

#include <cstdint>
#include <span>

namespace mqblk::driver::srp {

enum class Verdict : std::uint8_t {
    good,
    again,  ///< may be sent again, a bounded number of times
    busy,   ///< the same, after a pause
    error,
};

struct Answer {
    Verdict verdict = Verdict::error;
    Status status = Status::io_error;  ///< of an error, and of what has been sent again often enough
};

/// Sense data counts with CHECK CONDITION only.
[[nodiscard]] Answer judge(std::uint8_t scsi_status, std::span<const std::uint8_t> sense) noexcept;

}  // namespace mqblk::driver::srp
