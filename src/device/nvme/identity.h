// SPDX-License-Identifier: Apache-2.0
//
// Names: NQNs and the identifiers that must survive a restart. A namespace's UUID is a version 5 (name-based, SHA-1)
// UUID of subsystem, nsid and URI (RFC 4122, section 4.3); its NGUID is the same 16 bytes; a serial number is a hash of
// the subsystem's NQN.
#pragma once

#include <mqblk/error.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace mqblk::device::nvme {

using Uuid = std::array<std::uint8_t, 16>;

[[nodiscard]] Uuid derive_uuid(std::string_view subsystem_nqn, std::uint32_t nsid, std::string_view uri);
/// "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", lower case.
[[nodiscard]] std::string uuid_text(const Uuid&);
/// 32 hexadecimal digits, lower case.
[[nodiscard]] std::string nguid_text(const Uuid&);
/// Reads either form, with or without dashes; the error names `what` and the value.
[[nodiscard]] Result<Uuid> parse_uuid(std::string_view what, std::string_view text);

/// 20 characters.
[[nodiscard]] std::string derive_serial(std::string_view subsystem_nqn);

}  // namespace mqblk::device::nvme
