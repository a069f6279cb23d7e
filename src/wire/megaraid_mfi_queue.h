// SPDX-License-Identifier: Apache-2.0
//
// How commands reach the firmware of MegaRAID controllers older than Fusion, and how answers come back: the address of
// an MFI frame (wire/megaraid_mfi.h) is written to the inbound queue port; the firmware writes its answer into the
// frame, the frame's context into a ring in memory, and then how far it has come. INIT says where the ring is. Little
// endian.
#pragma once

#include "base/endian.h"
#include "wire/megaraid.h"

#include <cstddef>
#include <cstdint>

namespace mqblk::wire::megaraid {

/// Offsets that the Fusion generation does not have, or has elsewhere.
namespace mfi_reg {
enum : unsigned {
    inbound_doorbell = 0x20,    ///< Doorbell values, but for the skinny ones
    inbound_queue_port = 0x40,  ///< mfi_post()
    outbound_doorbell_clear = 0xa0,
    host_diag = 0xf8,       ///< gen2
    write_sequence = 0xfc,  ///< gen2: the keys of mfi_diag_keys
};
}
inline constexpr std::uint32_t mfi_diag_keys[] = {0x0, 0x4, 0xb, 0x2, 0x7, 0xd};

// What each unmasks, and the bit of the interrupt status that stands for answers.
inline constexpr std::uint32_t intr_1078 = 0x80000004, intr_1078_reply = 0x80000000;
inline constexpr std::uint32_t intr_gen2 = 0x5, intr_gen2_reply = 0x1;
inline constexpr std::uint32_t intr_skinny = 0x1, intr_skinny_reply = 0x1;

/// Of scratch_pad: elements that a frame's list may have, and that they may be MfiSgeIeee.
[[nodiscard]] constexpr unsigned mfi_max_sges_of(std::uint32_t scratch_pad) noexcept {
    return scratch_pad >> 16 & 0xff;
}
inline constexpr std::uint32_t state_mfi_ieee = 1u << 26;

/// What is written to the queue port for a frame of `frame_bytes` at `address`, a multiple of 64 below 4 GiB: bits 4:1
/// say how many times 64 bytes are to be read behind the first 64, no more than seven, the rest is fetched when needed.
[[nodiscard]] constexpr std::uint32_t mfi_post(std::uint64_t address, std::size_t frame_bytes) noexcept {
    constexpr std::size_t unit = 64, most = 7;
    const std::size_t further = frame_bytes <= unit ? 0 : (frame_bytes - 1) / unit;
    return static_cast<std::uint32_t>(address) | static_cast<std::uint32_t>((further < most ? further : most) << 1) | 1;
}
[[nodiscard]] constexpr std::uint32_t mfi_posted_address(std::uint32_t word) noexcept {
    return word & ~std::uint32_t{0x1f};
}

/// What INIT names by queue_info_new.
struct MfiQueueInfo {
    le32 flags{};  ///< 2: contexts of 64 bits
    le32 entries{};
    le64 replies{};   ///< of le32 each
    le64 producer{};  ///< of a le32 that the firmware writes: the entry that it will write next
    le64 consumer{};  ///< of a le32 that the host writes: the entry that it will read next
};
static_assert(sizeof(MfiQueueInfo) == 32 && offsetof(MfiQueueInfo, replies) == 8 &&
              offsetof(MfiQueueInfo, producer) == 0x10 && offsetof(MfiQueueInfo, consumer) == 0x18);

/// Where the list begins in frames of each kind.
inline constexpr std::size_t mfi_io_sgl_offset = 0x28;    ///< ld_read, ld_write, dcmd
inline constexpr std::size_t mfi_scsi_sgl_offset = 0x30;  ///< ld_scsi_io, pd_scsi_io

}  // namespace mqblk::wire::megaraid
