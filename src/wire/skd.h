// SPDX-License-Identifier: Apache-2.0
//
// What travels between the sTec S1120 and its driver: registers of BAR 1, mailbox messages, FIT messages with their
// SCSI requests and scatter-gather descriptors, the completion ring with its error entries. Registers and descriptors
// are little endian, SCSI requests and completions big endian; the tag is returned as it came. Pure data and
// arithmetic.
#pragma once

#include "base/endian.h"
#include "wire/scsi.h"

#include <cstddef>
#include <cstdint>

namespace mqblk::wire::skd {

inline constexpr std::uint16_t pci_vendor_id = 0x1b39;
inline constexpr std::uint16_t pci_device_id = 0x0001;
inline constexpr unsigned register_bar = 1;               ///< BAR 0 exists and is never used
inline constexpr unsigned register_bytes = 0x590;         ///< end of the last register
inline constexpr unsigned logical_block_bytes = 512;      ///< drivers take the capacity in these, whatever is reported
inline constexpr unsigned max_transfer_bytes = 1u << 20;  ///< of one request
inline constexpr std::uint64_t all_ones = ~std::uint64_t{0};  ///< what the registers of a card that is gone read as

/// Offsets in BAR 1. 32 bits wide, but for the two that say otherwise.
namespace reg {
enum : unsigned {
    q_command = 0x400,          ///< 64 bits: doorbell, see Doorbell
    control = 0x500,            ///< ControlBit
    status = 0x510,             ///< bits 7:0 DriveState, 15:8 signature, 16 PIO DMA
    int_status_host = 0x520,    ///< Cause; write ones to clear
    int_mask_host = 0x528,      ///< Cause; 1 = masked
    msg_to_device = 0x540,      ///< mailbox message, see MessageType
    msg_from_device = 0x548,    ///< its answer, and messages nobody asked for
    msg_to_device_arg = 0x580,  ///< 64 bits: address of the completion ring, before set_compq_addr
    hw_version = 0x588,
};
}

enum ControlBit : std::uint32_t {
    control_hard_reset = 1u << 0,
    control_soft_reset = 1u << 1,  ///< clears itself
    control_disable_timestamps = 1u << 6,
    control_enable_interrupts = 1u << 7,  ///< together with int_mask_host: both have to let a cause through
};

enum class DriveState : std::uint8_t {
    offline = 0x00,
    init = 0x01,  ///< firmware is ready for the handshake
    ready = 0x02,
    online = 0x03,
    busy = 0x04,
    fault = 0x05,
    degraded = 0x06,
    pcie_link_down = 0x07,
    soft_reset = 0x08,  ///< in progress
    init_fault = 0x09,
    busy_sanitize = 0x0a,
    busy_erase = 0x0b,
    fw_booting = 0x0c,
    need_fw_download = 0xfe,
    missing = 0xff,
};
[[nodiscard]] constexpr DriveState state_of(std::uint32_t status) noexcept {
    return static_cast<DriveState>(status & 0xff);
}

/// Bits of int_status_host and int_mask_host.
enum Cause : std::uint32_t {
    cause_state_change = 1u << 0,
    cause_completion_posted = 1u << 1,
    cause_msg_from_device = 1u << 2,
    cause_q0_full = 1u << 5,  ///< to bit 8 for queue 3
    cause_qcmd_fifo_overrun = 1u << 9,
    cause_bad_exp_rom_read = 1u << 10,
};
inline constexpr std::uint32_t cause_driver = 0x7;         ///< those that a driver enables
inline constexpr std::uint32_t cause_acknowledge = 0x7e7;  ///< those that a driver clears
inline constexpr std::uint32_t cause_reserved = 0x18;
inline constexpr std::uint32_t mask_all = 0xffffffff;
inline constexpr std::uint32_t mask_driver = ~cause_driver;  ///< 0xfffffff8

inline constexpr unsigned msix_vectors = 13;  ///< no more and no fewer
enum Vector : unsigned {
    vector_state_change = 4,
    vector_completion = 5,
    vector_message = 6,
    vector_queue_full = 9,  ///< to 12 for queue 3
};

// Mailbox.

enum class MessageType : std::uint8_t {
    none = 0x00,
    fitfw_init = 0x01,             ///< answer: protocol version in the parameter
    get_cmdq_depth = 0x02,         ///< answer: data = most commands
    set_compq_depth = 0x03,        ///< data = entries
    set_compq_addr = 0x04,         ///< address in msg_to_device_arg
    arm_queue = 0x05,              ///< the card goes online
    cmd_log_host_id = 0x07,        ///< data = the driver's number of the device
    cmd_log_time_stamp_lo = 0x08,  ///< data = seconds since 1970, bits 15:0
    cmd_log_time_stamp_hi = 0x09,  ///< data = bits 31:16
    smart_exceeded = 0x10,         ///< from here on unasked for, from the device
    power_down = 0x11,
    went_offline = 0x12,
    went_online = 0x13,
    fw_restarting = 0x14,
    pm_active = 0x15,
    pm_standby = 0x16,
    pm_sleep = 0x17,
    cmd_progress = 0x18,
};

/// A word of msg_to_device or msg_from_device: type 31:24, parameter 23:16, data 15:0.
[[nodiscard]] constexpr std::uint32_t make_message(MessageType type, std::uint16_t data = 0,
                                                   std::uint8_t parameter = 0) noexcept {
    return static_cast<std::uint32_t>(type) << 24 | static_cast<std::uint32_t>(parameter) << 16 | data;
}
[[nodiscard]] constexpr MessageType message_type(std::uint32_t word) noexcept {
    return static_cast<MessageType>(word >> 24);
}
[[nodiscard]] constexpr std::uint8_t message_parameter(std::uint32_t word) noexcept {
    return static_cast<std::uint8_t>(word >> 16);
}
[[nodiscard]] constexpr std::uint16_t message_data(std::uint32_t word) noexcept {
    return static_cast<std::uint16_t>(word);
}
inline constexpr std::uint8_t protocol_major = 1;
/// Of the answer to fitfw_init.
[[nodiscard]] constexpr std::uint8_t protocol_major_of(std::uint32_t word) noexcept {
    return static_cast<std::uint8_t>(message_parameter(word) >> 4);
}

// Commands.

/// What one 64-bit write to q_command says.
struct Doorbell {
    std::uint64_t address = 0;  ///< of the FIT message, a multiple of 64
    unsigned bytes = 64;        ///< 64, 128, 256 or 512
    unsigned queue = 0;         ///< 0 to 3; drivers use 0
};
inline constexpr std::uint64_t doorbell_reserved = 0x9;  ///< bits that are zero
[[nodiscard]] constexpr std::uint64_t encode(const Doorbell& bell) noexcept {
    const std::uint64_t size = bell.bytes > 256 ? 3 : bell.bytes > 128 ? 2 : bell.bytes > 64 ? 1 : 0;
    return (bell.address & ~std::uint64_t{63}) | size << 4 | std::uint64_t{bell.queue & 3} << 1;
}
[[nodiscard]] constexpr Doorbell decode_doorbell(std::uint64_t value) noexcept {
    return {value & ~std::uint64_t{63}, 64u << (value >> 4 & 3), static_cast<unsigned>(value >> 1 & 3)};
}

inline constexpr unsigned max_requests_per_message = 14;
inline constexpr unsigned max_message_bytes = 512;

enum class ProtocolId : std::uint8_t { fit = 1, ssdi = 2, sofit = 3 };

struct FitHeader {
    std::uint8_t protocol_id = static_cast<std::uint8_t>(ProtocolId::sofit);
    std::uint8_t requests = 0;  ///< 1 to 14
    std::uint8_t reserved[62] = {};
};
static_assert(sizeof(FitHeader) == 64);

enum RequestAttribute : std::uint8_t { attribute_simple = 0, attribute_head_of_queue = 1, attribute_ordered = 2 };

struct ScsiRequest {
    be64 sg_list_address{};  ///< of the first SgDescriptor
    le16 tag{};              ///< returned as it is
    std::uint8_t attribute = attribute_simple;
    std::uint8_t additional_cdb_words = 0;  ///< of 32 bits
    be32 sg_list_bytes{};                   ///< of data
    scsi::Cdb cdb{};
};
static_assert(sizeof(ScsiRequest) == 32 && offsetof(ScsiRequest, tag) == 8 &&
              offsetof(ScsiRequest, sg_list_bytes) == 12 && offsetof(ScsiRequest, cdb) == 16);

struct FitMessage {
    FitHeader header{};
    ScsiRequest request[max_requests_per_message] = {};

    /// What a doorbell names for `requests` of them; the hardware knows 64, 128, 256 and 512.
    [[nodiscard]] static constexpr unsigned bytes(unsigned requests) noexcept { return 64 + 32 * requests; }
};
static_assert(sizeof(FitMessage) == max_message_bytes && offsetof(FitMessage, request) == 64);

enum SgControl : std::uint32_t { sg_not_last = 0x000, sg_last = 0x40e };

/// At a multiple of 32. Data addresses and counts are multiples of 4.
struct SgDescriptor {
    le32 control{};
    le32 bytes{};
    le64 host_address{};
    le64 device_address{};
    le64 next_address{};  ///< of the next descriptor; 0 in the last
};
static_assert(sizeof(SgDescriptor) == 32 && offsetof(SgDescriptor, next_address) == 24);
inline constexpr unsigned sg_alignment = 32;
inline constexpr unsigned dma_alignment = 4;

// Completions. The ring is `depth` CompletionEntry, then as many ErrorEntry. Host and device begin at index 0 with
// cycle 1; whoever wraps to index 0 increments its cycle. An entry is there when its cycle is the one expected.

inline constexpr unsigned completion_depth = 256;

struct CompletionEntry {
    be32 returned_bytes{};
    le16 tag{};
    std::uint8_t status = 0;  ///< scsi::Status
    std::uint8_t cycle = 0;   ///< written last
};
static_assert(sizeof(CompletionEntry) == 8 && offsetof(CompletionEntry, cycle) == 7);

/// Sense data in fixed format and more. Valid when the entry's status is CHECK CONDITION.
struct ErrorEntry {
    scsi::FixedSense sense{};
    std::uint8_t reserved0[2] = {};
    std::uint8_t uec[2] = {};
    std::uint8_t per[8] = {};
    std::uint8_t reserved1[2] = {};
};
static_assert(sizeof(ErrorEntry) == 32 && offsetof(ErrorEntry, uec) == 20 && offsetof(ErrorEntry, per) == 22);

[[nodiscard]] constexpr std::uint64_t completion_offset(unsigned index) noexcept {
    return std::uint64_t{index} * sizeof(CompletionEntry);
}
[[nodiscard]] constexpr std::uint64_t error_offset(unsigned index, unsigned depth = completion_depth) noexcept {
    return std::uint64_t{depth} * sizeof(CompletionEntry) + std::uint64_t{index} * sizeof(ErrorEntry);
}
[[nodiscard]] constexpr std::uint64_t completion_ring_bytes(unsigned depth = completion_depth) noexcept {
    return error_offset(depth, depth);
}
static_assert(completion_ring_bytes() == 10240);

/// Where in the ring one end is.
struct RingPosition {
    unsigned index = 0;
    std::uint8_t cycle = 1;

    constexpr void advance(unsigned depth = completion_depth) noexcept {
        if (++index >= depth) {
            index = 0;
            ++cycle;
        }
    }
};

}  // namespace mqblk::wire::skd
