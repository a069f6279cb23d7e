// SPDX-License-Identifier: Apache-2.0
//
// NVMe commands and completions as they travel, and the numbers in them: opcodes, status codes, SGL types. Every
// field is little endian. NVM Express Base Specification 1.4: section 4.2 (submission queue entry), 4.4 (SGL), 4.6
// (completion queue entry, status), 5 (admin commands), 6 (NVM commands). Fabrics commands: wire/nvme_fabrics.h.
#pragma once

#include "base/endian.h"

#include <cstddef>
#include <cstdint>

namespace mqblk::wire::nvme {

/// SGL descriptor, section 4.4.
struct Sgl {
    le64 address;  ///< or, for `sgl_in_capsule`, the offset into the capsule's data
    le32 length;   ///< bytes
    std::uint8_t reserved[3] = {};
    std::uint8_t type = 0;  ///< high nibble type, low nibble subtype
};
static_assert(sizeof(Sgl) == 16 && offsetof(Sgl, length) == 8 && offsetof(Sgl, type) == 15);

/// Values of Sgl::type that mqblk's transports use.
inline constexpr std::uint8_t sgl_data_block = 0x00;      ///< memory address (loop, PCIe)
inline constexpr std::uint8_t sgl_in_capsule = 0x01;      ///< data block, offset into the capsule's data
inline constexpr std::uint8_t sgl_transport_data = 0x5a;  ///< transport data block (TCP: C2HData, R2T)

/// Submission queue entry.
struct Command {
    std::uint8_t opcode = 0;
    std::uint8_t flags = 0;  ///< bits 1:0 fused operation, bits 7:6 PSDT
    le16 command_id;
    le32 namespace_id;
    le32 cdw2;
    le32 cdw3;
    le64 metadata;
    Sgl data;
    le32 cdw10;
    le32 cdw11;
    le32 cdw12;
    le32 cdw13;
    le32 cdw14;
    le32 cdw15;
};
static_assert(sizeof(Command) == 64);
static_assert(offsetof(Command, data) == 24 && offsetof(Command, cdw10) == 40);

/// Bits of Command::flags.
inline constexpr std::uint8_t flag_fuse_mask = 0x03;
inline constexpr std::uint8_t flag_fuse_first = 0x01;
inline constexpr std::uint8_t flag_fuse_second = 0x02;
inline constexpr std::uint8_t flag_psdt_mask = 0xc0;
inline constexpr std::uint8_t flag_psdt_sgl = 0x40;  ///< DPTR is an SGL descriptor: always so on fabrics

inline constexpr std::uint32_t nsid_all = 0xffffffff;

/// Admin opcodes.
namespace admin_opcode {
inline constexpr std::uint8_t get_log_page = 0x02;
inline constexpr std::uint8_t identify = 0x06;
inline constexpr std::uint8_t abort = 0x08;
inline constexpr std::uint8_t set_features = 0x09;
inline constexpr std::uint8_t get_features = 0x0a;
inline constexpr std::uint8_t async_event_request = 0x0c;
inline constexpr std::uint8_t keep_alive = 0x18;
inline constexpr std::uint8_t fabrics = 0x7f;  ///< on every queue
}  // namespace admin_opcode

/// NVM command set opcodes.
namespace io_opcode {
inline constexpr std::uint8_t flush = 0x00;
inline constexpr std::uint8_t write = 0x01;
inline constexpr std::uint8_t read = 0x02;
inline constexpr std::uint8_t write_uncorrectable = 0x04;
inline constexpr std::uint8_t compare = 0x05;
inline constexpr std::uint8_t write_zeroes = 0x08;
inline constexpr std::uint8_t dataset_management = 0x09;
inline constexpr std::uint8_t verify = 0x0c;
}  // namespace io_opcode

/// Status type and code, (SCT << 8 | SC), as they stand in a completion's status field shifted right by one.
namespace status {
inline constexpr std::uint16_t success = 0x000;
inline constexpr std::uint16_t invalid_opcode = 0x001;
inline constexpr std::uint16_t invalid_field = 0x002;
inline constexpr std::uint16_t command_id_conflict = 0x003;
inline constexpr std::uint16_t data_transfer_error = 0x004;
inline constexpr std::uint16_t internal_error = 0x006;
inline constexpr std::uint16_t aborted_by_request = 0x007;
inline constexpr std::uint16_t aborted_queue_deleted = 0x008;
inline constexpr std::uint16_t fused_failed = 0x009;
inline constexpr std::uint16_t fused_missing = 0x00a;
inline constexpr std::uint16_t invalid_namespace = 0x00b;
inline constexpr std::uint16_t command_sequence_error = 0x00c;
inline constexpr std::uint16_t sgl_invalid_segment = 0x00d;
inline constexpr std::uint16_t sgl_invalid_count = 0x00e;
inline constexpr std::uint16_t sgl_invalid_data_length = 0x00f;
inline constexpr std::uint16_t sgl_invalid_type = 0x011;
inline constexpr std::uint16_t atomic_write_unit_exceeded = 0x014;
inline constexpr std::uint16_t sgl_invalid_offset = 0x016;
inline constexpr std::uint16_t host_id_inconsistent = 0x018;
inline constexpr std::uint16_t keep_alive_expired = 0x019;
inline constexpr std::uint16_t keep_alive_invalid = 0x01a;
inline constexpr std::uint16_t namespace_write_protected = 0x020;
inline constexpr std::uint16_t command_interrupted = 0x021;
inline constexpr std::uint16_t transient_transport_error = 0x022;
inline constexpr std::uint16_t invalid_io_command_set = 0x02c;
inline constexpr std::uint16_t lba_out_of_range = 0x080;
inline constexpr std::uint16_t capacity_exceeded = 0x081;
inline constexpr std::uint16_t namespace_not_ready = 0x082;
inline constexpr std::uint16_t reservation_conflict = 0x083;
inline constexpr std::uint16_t invalid_queue_id = 0x101;
inline constexpr std::uint16_t invalid_queue_size = 0x102;
inline constexpr std::uint16_t abort_limit_exceeded = 0x103;
inline constexpr std::uint16_t async_event_limit_exceeded = 0x105;
inline constexpr std::uint16_t invalid_log_page = 0x109;
inline constexpr std::uint16_t feature_not_saveable = 0x10d;
inline constexpr std::uint16_t feature_not_changeable = 0x10e;
inline constexpr std::uint16_t feature_not_namespace_specific = 0x10f;
inline constexpr std::uint16_t conflicting_attributes = 0x180;  ///< NVM command set
inline constexpr std::uint16_t invalid_protection_information = 0x181;
inline constexpr std::uint16_t attempted_write_to_read_only = 0x182;
inline constexpr std::uint16_t command_size_limit_exceeded = 0x183;  ///< NVMe 2.0
inline constexpr std::uint16_t connect_format = 0x180;               ///< fabrics: incompatible format
inline constexpr std::uint16_t connect_controller_busy = 0x181;
inline constexpr std::uint16_t connect_invalid_parameters = 0x182;
inline constexpr std::uint16_t connect_restart_discovery = 0x183;
inline constexpr std::uint16_t connect_invalid_host = 0x184;
inline constexpr std::uint16_t fabrics_invalid_queue_type = 0x185;  ///< fabrics: Disconnect on the admin queue, …
inline constexpr std::uint16_t discovery_restart = 0x190;
inline constexpr std::uint16_t authentication_required = 0x191;
inline constexpr std::uint16_t write_fault = 0x280;
inline constexpr std::uint16_t unrecovered_read_error = 0x281;
inline constexpr std::uint16_t compare_failure = 0x285;
inline constexpr std::uint16_t access_denied = 0x286;
inline constexpr std::uint16_t internal_path_error = 0x300;
inline constexpr std::uint16_t ana_persistent_loss = 0x301;
inline constexpr std::uint16_t ana_inaccessible = 0x302;
inline constexpr std::uint16_t ana_transition = 0x303;
inline constexpr std::uint16_t controller_path_error = 0x360;
inline constexpr std::uint16_t host_path_error = 0x370;
inline constexpr std::uint16_t host_aborted_command = 0x371;

inline constexpr std::uint8_t type_media = 2;              ///< SCT: Media and Data Integrity Errors
inline constexpr std::uint8_t type_path = 3;               ///< SCT: Path Related Status
inline constexpr std::uint16_t code_mask = 0x07ff;         ///< SCT and SC
inline constexpr std::uint16_t retry_delay_mask = 0x1800;  ///< CRD
inline constexpr std::uint16_t more = 0x2000;              ///< the error log says more
inline constexpr std::uint16_t do_not_retry = 0x4000;      ///< the same command will fail again

/// The code with do_not_retry.
[[nodiscard]] constexpr std::uint16_t permanent(std::uint16_t code) noexcept {
    return static_cast<std::uint16_t>(code | do_not_retry);
}
}  // namespace status

/// Completion queue entry.
struct Completion {
    le64 result;  ///< DW0 is the low half
    le16 sq_head;
    le16 sq_id;
    le16 command_id;
    le16 status;  ///< bit 0 phase (zero on fabrics), status code from bit 1 on
};
static_assert(sizeof(Completion) == 16);
static_assert(offsetof(Completion, sq_head) == 8 && offsetof(Completion, command_id) == 12);
static_assert(offsetof(Completion, status) == 14);

/// The status of a completion without its phase bit: comparable with status:: after masking with code_mask.
[[nodiscard]] constexpr std::uint16_t status_of(const Completion& completion) noexcept {
    return static_cast<std::uint16_t>(completion.status >> 1);
}
constexpr void set_status(Completion& completion, std::uint16_t value) noexcept {
    completion.status = static_cast<std::uint16_t>(value << 1);
}

// Read, Write, Compare, Verify, Write Zeroes: CDW10-11 first block, CDW12 count (zero-based) and control bits.

inline constexpr std::uint32_t rw_blocks_mask = 0xffff;
inline constexpr std::uint32_t rw_limited_retry = 1u << 31;
inline constexpr std::uint32_t rw_fua = 1u << 30;
inline constexpr std::uint32_t rw_protection_mask = 0xfu << 26;  ///< PRINFO: PRACT and PRCHK
inline constexpr std::uint32_t rw_deallocate = 1u << 25;         ///< Write Zeroes only: DEAC

[[nodiscard]] constexpr std::uint64_t first_block(const Command& command) noexcept {
    return std::uint64_t{command.cdw10} | std::uint64_t{command.cdw11} << 32;
}
/// 1 to 65,536.
[[nodiscard]] constexpr std::uint32_t block_count(const Command& command) noexcept {
    return (command.cdw12 & rw_blocks_mask) + 1;
}
/// `blocks` is 1 to 65,536.
constexpr void set_block_range(Command& command, std::uint64_t first, std::uint32_t blocks,
                               std::uint32_t control = 0) noexcept {
    command.cdw10 = static_cast<std::uint32_t>(first);
    command.cdw11 = static_cast<std::uint32_t>(first >> 32);
    command.cdw12 = ((blocks - 1) & rw_blocks_mask) | control;
}

// Dataset Management: CDW10 bits 7:0 number of ranges (zero-based), CDW11 attributes; data is an array of DsmRange.

inline constexpr std::uint32_t dsm_deallocate = 1u << 2;
inline constexpr std::uint32_t dsm_max_ranges = 256;

struct DsmRange {
    le32 attributes;
    le32 blocks;  ///< not zero-based
    le64 first_block;
};
static_assert(sizeof(DsmRange) == 16);

/// Which way the data of an opcode goes: bit 0 to the controller, bit 1 to the host (section 4.2, figure 104). Fabrics
/// commands carry the same bits in their command type.
[[nodiscard]] constexpr bool goes_to_controller(std::uint8_t opcode_or_type) noexcept {
    return (opcode_or_type & 3) == 1;
}
[[nodiscard]] constexpr bool goes_to_host(std::uint8_t opcode_or_type) noexcept {
    return (opcode_or_type & 3) == 2;
}

}  // namespace mqblk::wire::nvme
