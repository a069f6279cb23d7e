// SPDX-License-Identifier: Apache-2.0
//
// A MegaRAID SAS controller as its driver sees it: PCI identity, the registers of its memory BAR, firmware states, and
// the descriptors that go in through the request port of the Fusion generation and come back in the reply queues.
// Everything is little endian. Pure data and arithmetic. What the descriptors name is in wire/megaraid_mfi.h
// (management frames) and wire/megaraid_mpi.h (I/O frames); the way of the older generation, which has MFI frames only,
// in wire/megaraid_mfi_queue.h.
#pragma once

#include "base/endian.h"

#include <cstddef>
#include <cstdint>

namespace mqblk::wire::megaraid {

inline constexpr std::uint16_t pci_vendor_id = 0x1000;
namespace pci_device {
enum : std::uint16_t {
    thunderbolt = 0x005b,  ///< 2208
    plasma = 0x002f,
    invader = 0x005d,  ///< 3108
    fury = 0x005f,
    intruder = 0x00ce,
    intruder_24 = 0x00cf,
    cutlass_52 = 0x0052,
    cutlass_53 = 0x0053,
    // The generation of MFI frames.
    sas1078r = 0x0060,
    sas1078de = 0x007c,
    gen2_78 = 0x0078,  ///< 2108
    gen2_79 = 0x0079,
    skinny_71 = 0x0071,  ///< 2008
    skinny_73 = 0x0073,
};
}

/// Which interface: those of MFI frames (1078, gen2, skinny) differ in registers; the two of Fusion in details. Later
/// ones have other contexts and maps.
enum class Generation : std::uint8_t { unknown, sas1078, gen2, skinny, thunderbolt, invader };
[[nodiscard]] constexpr bool is_fusion(Generation generation) noexcept {
    return generation == Generation::thunderbolt || generation == Generation::invader;
}
[[nodiscard]] constexpr Generation generation_of(std::uint16_t device_id) noexcept {
    switch (device_id) {
        case pci_device::thunderbolt:
        case pci_device::plasma:
            return Generation::thunderbolt;
        case pci_device::invader:
        case pci_device::fury:
        case pci_device::intruder:
        case pci_device::intruder_24:
        case pci_device::cutlass_52:
        case pci_device::cutlass_53:
            return Generation::invader;
        case pci_device::sas1078r:
        case pci_device::sas1078de:
            return Generation::sas1078;
        case pci_device::gen2_78:
        case pci_device::gen2_79:
            return Generation::gen2;
        case pci_device::skinny_71:
        case pci_device::skinny_73:
            return Generation::skinny;
        default:
            return Generation::unknown;
    }
}
/// Ids of Ventura, Harpoon, Crusader, Tomcat and Aero: 0014 to 0017, 001b, 001c, 10e0 to 10e7.
[[nodiscard]] constexpr bool is_later_generation(std::uint16_t device_id) noexcept {
    return (device_id >= 0x0014 && device_id <= 0x0017) || device_id == 0x001b || device_id == 0x001c ||
           (device_id >= 0x10e0 && device_id <= 0x10e7);
}

/// Offsets in the first memory BAR; 32 bits wide.
namespace reg {
enum : unsigned {
    doorbell = 0x00,              ///< write: Doorbell values; read: bit 0 the firmware is busy
    write_sequence = 0x04,        ///< the keys of diag_keys open host_diag
    host_diag = 0x08,             ///< HostDiag
    outbound_intr_status = 0x30,  ///< bit 0: there are replies; write back to clear
    outbound_intr_mask = 0x34,    ///< 1 = masked
    reply_post_host_index = 0x6c,
    scratch_pad = 0xb0,    ///< firmware state, see StateWord
    scratch_pad_2 = 0xb4,  ///< capabilities, see Capability
    scratch_pad_3 = 0xb8,
    scratch_pad_4 = 0xbc,
    inbound_low_queue_port = 0xc0,  ///< a request descriptor: both halves at once, or this one first
    inbound_high_queue_port = 0xc4,
    supplemental_reply_index = 0x30c,  ///< of eight vectors; 16 bytes further for the next eight
};
}
inline constexpr unsigned register_bytes = 0x400;  ///< what drivers map is more; there is nothing behind it
inline constexpr unsigned max_vectors = 128;
inline constexpr std::uint32_t intr_reply = 0x1;
inline constexpr std::uint32_t intr_fusion = 0x9;  ///< the bits that drivers unmask

/// Where the host writes how far it has read the reply queue of a vector. `combined`, with more than eight vectors from
/// Invader on: eight vectors share a register, those from 0 on too.
[[nodiscard]] constexpr unsigned reply_index_register(unsigned vector, bool combined) noexcept {
    return combined ? reg::supplemental_reply_index + 16 * (vector / 8) : unsigned{reg::reply_post_host_index};
}
[[nodiscard]] constexpr std::uint32_t reply_index_value(unsigned vector, std::uint32_t index, bool combined) noexcept {
    return (combined ? vector & 7 : vector) << 24 | (index & 0xffffff);
}

// Firmware state.

enum class State : std::uint8_t {
    undefined = 0x0,
    bb_init = 0x1,
    fw_init = 0x4,
    wait_handshake = 0x6,
    fw_init_2 = 0x7,
    device_scan = 0x8,
    boot_message_pending = 0x9,
    flush_cache = 0xa,
    ready = 0xb,
    operational = 0xc,
    fault = 0xf,
};

/// Bits of scratch_pad below the state in 31:28.
enum StateBit : std::uint32_t {
    state_msix_capable = 1u << 26,
    state_reset_adapter = 1u << 1,   ///< with fault: a controller reset may help
    state_reset_required = 1u << 0,  ///< with fault
};
[[nodiscard]] constexpr State state_of(std::uint32_t scratch_pad) noexcept {
    return static_cast<State>(scratch_pad >> 28);
}
/// In states other than fault: how many commands the firmware takes.
[[nodiscard]] constexpr std::uint32_t max_commands_of(std::uint32_t scratch_pad) noexcept {
    return scratch_pad & 0xffff;
}
[[nodiscard]] constexpr std::uint32_t make_state(State state, std::uint32_t low) noexcept {
    return static_cast<std::uint32_t>(state) << 28 | (low & 0x0fffffff);
}

/// Values of the doorbell; `reset_flags` takes operational firmware back to ready.
enum Doorbell : std::uint32_t {
    doorbell_init_abort = 0x01,
    doorbell_init_ready = 0x02,
    doorbell_init_mfi_mode = 0x04,
    doorbell_clear_handshake = 0x08,
    doorbell_hotplug = 0x10,
    doorbell_stop_adapter = 0x20,
    doorbell_adapter_reset = 0x40,
    doorbell_force_ocr = 0x80,
    doorbell_reset_flags = 0x07,
};

/// What scratch_pad_2 says.
struct Capability {
    unsigned reply_queues = 1;
    std::uint32_t chain_frame_bytes = 1024;
    bool large_io = false;     ///< chain frame sizes count in units of 512 bytes instead of 128
    bool reply_array = false;  ///< RDPQ: reply queues may lie anywhere
    bool sync_cache = false;   ///< the firmware handles SYNCHRONIZE CACHE for volumes
    bool dma64 = false;        ///< its structures may lie above 4 GiB
};
[[nodiscard]] constexpr std::uint32_t encode_capability(const Capability& c, Generation generation) noexcept {
    const std::uint32_t unit = c.large_io ? 512 : 128;
    std::uint32_t word = (c.chain_frame_bytes / unit & 0x1f) << 5;
    word |= generation == Generation::thunderbolt ? (c.reply_queues - 1) & 0x1f : ((c.reply_queues - 1) & 0xff) << 14;
    if (c.large_io) word |= 1u << 22;
    if (c.reply_array) word |= 1u << 23;
    if (c.sync_cache) word |= 1u << 24;
    if (c.dma64) word |= 1u << 25;
    return word;
}
[[nodiscard]] constexpr Capability decode_capability(std::uint32_t word, Generation generation) noexcept {
    Capability c;
    c.large_io = (word >> 22 & 1) != 0;
    c.reply_array = (word >> 23 & 1) != 0;
    c.sync_cache = (word >> 24 & 1) != 0;
    c.dma64 = (word >> 25 & 1) != 0;
    c.reply_queues = (generation == Generation::thunderbolt ? word & 0x1f : word >> 14 & 0xff) + 1;
    const std::uint32_t stated = (word >> 5 & 0x1f) * (c.large_io ? 512u : 128u);
    c.chain_frame_bytes = stated < 1024 ? 1024 : stated;
    return c;
}

enum HostDiag : std::uint32_t {
    host_diag_reset_adapter = 0x04,
    host_diag_write_enable = 0x80,
};
/// Written to write_sequence in this order they set host_diag_write_enable.
inline constexpr std::uint32_t diag_keys[] = {0x0, 0xf, 0x4, 0xb, 0x2, 0x7, 0xd};

// Descriptors.

enum class RequestType : std::uint8_t {
    scsi_io = 0,
    mfa = 1,      ///< the address of an MFI frame; for IOC INIT
    no_lock = 2,  ///< no lock over a region is wanted
    high_priority = 3,
    fp_io = 6,
    ld_io = 7,
};

struct RequestDescriptor {
    std::uint8_t flags = 0;       ///< RequestType in bits 3:1
    std::uint8_t msix_index = 0;  ///< the reply queue to answer in
    le16 smid{};                  ///< number of the request frame, from 1
    le16 lmid{};
    le16 dev_handle{};

    [[nodiscard]] constexpr RequestType type() const noexcept { return static_cast<RequestType>(flags >> 1 & 7); }
};
static_assert(sizeof(RequestDescriptor) == 8 && offsetof(RequestDescriptor, smid) == 2 &&
              offsetof(RequestDescriptor, dev_handle) == 6);
[[nodiscard]] constexpr std::uint8_t request_flags(RequestType type) noexcept {
    return static_cast<std::uint8_t>(static_cast<unsigned>(type) << 1);
}
/// Of type mfa: `address` is a multiple of 256.
[[nodiscard]] constexpr std::uint64_t mfa_descriptor(std::uint64_t address) noexcept {
    return (address & ~std::uint64_t{0xff}) | request_flags(RequestType::mfa);
}
[[nodiscard]] constexpr std::uint64_t mfa_address(std::uint64_t descriptor) noexcept {
    return descriptor & ~std::uint64_t{0xff};
}

enum class ReplyType : std::uint8_t { scsi_io_success = 0x0, unused = 0xf };

struct ReplyDescriptor {
    std::uint8_t flags = 0;  ///< ReplyType in bits 3:0
    std::uint8_t msix_index = 0;
    le16 smid{};
    le32 dependent{};

    [[nodiscard]] constexpr ReplyType type() const noexcept { return static_cast<ReplyType>(flags & 0xf); }
};
static_assert(sizeof(ReplyDescriptor) == 8 && offsetof(ReplyDescriptor, smid) == 2);
/// What hosts put into a slot that holds nothing.
inline constexpr std::uint64_t reply_unused = ~std::uint64_t{0};

// Sizes that drivers derive from what the firmware states.

inline constexpr unsigned io_frame_bytes = 256;
inline constexpr unsigned sges_in_frame = 8;
inline constexpr unsigned max_commands_used = 1008;
inline constexpr std::uint32_t max_transfer_bytes = 1u << 20;  ///< of one request, as the information says it
/// Most commands outstanding, of all kinds.
[[nodiscard]] constexpr unsigned usable_commands(unsigned stated) noexcept {
    const unsigned bounded = stated < max_commands_used ? stated : max_commands_used;
    return bounded == 0 ? 0 : bounded - 1;
}
[[nodiscard]] constexpr unsigned reply_queue_depth(unsigned usable) noexcept {
    return 2 * ((usable + 1 + 15) / 16 * 16);
}
/// Most scatter-gather elements of a request, a power of two.
[[nodiscard]] constexpr unsigned max_sges(std::uint32_t chain_frame_bytes) noexcept {
    unsigned most = 1;
    while (2 * most <= sges_in_frame + chain_frame_bytes / 16 - 2) most *= 2;
    return most;
}
static_assert(max_sges(1024) == 64 && max_sges(4096) == 256);

}  // namespace mqblk::wire::megaraid
