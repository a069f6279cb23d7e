// SPDX-License-Identifier: Apache-2.0
//
// How one I/O ended. The set follows what block drivers can tell apart and what an initiator must be told: a status is
// translated to NVMe, SCSI or errno at the edge and nowhere else.
#pragma once

#include <cstdint>
#include <string_view>

namespace mqblk {

enum class Status : std::uint8_t {
    ok,
    invalid,        ///< misaligned, malformed or contradictory; nothing was done
    out_of_range,   ///< beyond the end of the device; nothing was done
    not_supported,  ///< the device has no such operation
    read_only,      ///< write to a write-protected device
    no_space,       ///< thin device or file system is full
    medium_error,   ///< data cannot be read or written at this place
    miscompare,     ///< compare found other data
    protection,     ///< reservation or access conflict
    io_error,       ///< the device failed and says no more
    timed_out,      ///< no answer within the request's bound, after the driver's recovery
    aborted,        ///< ended by request of the initiator or by a reset; may be sent again
    transport,      ///< the path to the device was lost; another path may serve
    removed,        ///< the device is gone
};

[[nodiscard]] std::string_view to_string(Status) noexcept;

/// The errno that a file system would see.
[[nodiscard]] int to_errno(Status) noexcept;
[[nodiscard]] Status status_from_errno(int error_number) noexcept;

}  // namespace mqblk
