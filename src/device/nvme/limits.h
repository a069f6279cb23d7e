// SPDX-License-Identifier: Apache-2.0
//
// Every limit that the target announces, and the one place that computes it. Identify, the properties, Connect and
// `mqblk info` all take their figures from here, so that nothing is announced that is not served.
#pragma once

#include "device/nvme/target.h"

#include <cstdint>

namespace mqblk::device::nvme {

inline constexpr std::uint32_t page_bytes = 4096;              ///< CAP.MPSMIN: the unit of MDTS
inline constexpr std::uint32_t admin_in_capsule_bytes = 8192;  ///< NVMe/TCP 1.0, section 3.3.2.2: admin and fabrics
inline constexpr std::uint32_t admin_queue_depth = 32;         ///< before Connect says otherwise
inline constexpr std::uint32_t sqe_bytes = 64;
inline constexpr std::uint32_t fused_blocks = 16;       ///< ACWU + 1: longest atomic Compare-and-Write
inline constexpr std::uint32_t error_log_entries = 64;  ///< ELPE + 1
inline constexpr std::uint32_t abort_limit = 4;         ///< ACL + 1
inline constexpr std::uint32_t ana_groups = 1;
inline constexpr std::uint32_t ready_timeout_half_seconds = 15;  ///< CAP.TO

/// Brings the options into what the protocol can say and what can be served.
[[nodiscard]] AnnouncedLimits announce(const Target::Options&) noexcept;

/// n with 2^n pages == `bytes`, as MDTS, VSL and WZSL have it. `bytes` is such a power.
[[nodiscard]] std::uint8_t page_exponent(std::uint32_t bytes) noexcept;

}  // namespace mqblk::device::nvme
