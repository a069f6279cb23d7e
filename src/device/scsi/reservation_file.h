// SPDX-License-Identifier: Apache-2.0
//
// Reservations that outlive the process, in a file of their own: JSON, replaced as a whole or not at all (written
// beside it, synchronised, renamed). Whatever else the file holds is an error and never "no reservations".
#pragma once

#include "device/scsi/reservations.h"

#include <mqblk/error.h>

#include <string>
#include <string_view>

namespace mqblk::device::scsi {

/// What a file of that content means. Hostile bytes allowed.
[[nodiscard]] Result<Reservations> parse_reservations(std::string_view text);
[[nodiscard]] std::string format_reservations(const Reservations&);

/// No reservations where there is no file. Sets `persist` where there is one.
[[nodiscard]] Result<Reservations> load_reservations(const std::string& path);
/// Where `persist` is off what the file holds is no registration. Returns after it is on stable storage.
[[nodiscard]] Result<> save_reservations(const std::string& path, const Reservations&);

}  // namespace mqblk::device::scsi
