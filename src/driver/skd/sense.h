// SPDX-License-Identifier: Apache-2.0
//
// What a command's end means: the table of the card's sense data, and the block layer's status where it is an error.
#pragma once

#include "wire/scsi.h"
#include "wire/skd.h"

#include <mqblk/status.h>

#include <cstdint>

namespace mqblk::driver::skd {

enum class Verdict : std::uint8_t {
    good,
    smart_alert,    ///< good, and the card asks for attention
    requeue,        ///< may be sent once more
    busy_imminent,  ///< the same, and the card will be busy for a while
    error,
};

/// `error` counts with CHECK CONDITION only.
[[nodiscard]] Verdict judge(std::uint8_t scsi_status, const wire::skd::ErrorEntry& error) noexcept;

/// Of a command that failed.
[[nodiscard]] Status status_of(std::uint8_t scsi_status, const wire::skd::ErrorEntry& error) noexcept;

}  // namespace mqblk::driver::skd
