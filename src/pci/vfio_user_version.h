// SPDX-License-Identifier: Apache-2.0
//
// The first message of a vfio-user connection: version and capabilities (section VFIO_USER_VERSION). Capabilities
// that are not known are passed over; those that are must be of their type and not absurd.
#pragma once

#include "wire/vfio_user.h"

#include <mqblk/error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mqblk::pci {

/// What one side takes.
struct VfioUserVersion {
    std::uint16_t major = wire::vfio_user::version_major;
    std::uint16_t minor = wire::vfio_user::version_minor;
    std::uint32_t max_fds = wire::vfio_user::default_max_fds;
    std::uint32_t max_transfer_bytes = wire::vfio_user::default_max_transfer_bytes;
    std::uint32_t max_dma_maps = wire::vfio_user::default_max_dma_maps;
    bool write_multiple = false;
    std::uint32_t posted_writes = 0;  ///< version of this project's extension; 0: without it
};

/// The payload of a version message.
[[nodiscard]] std::vector<std::byte> encode_version(const VfioUserVersion&);
/// The error says what is wrong with it.
[[nodiscard]] Result<VfioUserVersion> decode_version(std::span<const std::byte> payload);

}  // namespace mqblk::pci
