// SPDX-License-Identifier: Apache-2.0
//
// MFI frames: how a driver talks to the firmware of a MegaRAID controller beside I/O. The frame is 64 bytes and more;
// its scatter-gather list takes one of three forms, by its flags. On Fusion controllers a frame travels in a request
// of function passthrough (wire/megaraid_mpi.h), but for INIT, which has a descriptor of its own. Little endian.
#pragma once

#include "base/endian.h"
#include "wire/scsi.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mqblk::wire::megaraid {

enum class MfiCommand : std::uint8_t {
    init = 0x00,
    ld_read = 0x01,
    ld_write = 0x02,
    ld_scsi_io = 0x03,
    pd_scsi_io = 0x04,
    dcmd = 0x05,
    abort = 0x06,
    smp = 0x07,
    stp = 0x08,
    invalid = 0xff,
};

enum class MfiStatus : std::uint8_t {
    ok = 0x00,
    invalid_cmd = 0x01,
    invalid_dcmd = 0x02,
    invalid_parameter = 0x03,
    invalid_sequence_number = 0x04,
    abort_not_possible = 0x05,
    device_not_found = 0x0c,
    flush_failed = 0x15,
    ld_init_in_progress = 0x18,
    memory_not_available = 0x20,
    not_found = 0x23,
    scsi_done_with_error = 0x2d,  ///< the SCSI status says what
    scsi_io_failed = 0x2e,
    wrong_state = 0x32,
    ld_offline = 0x33,
    config_seq_mismatch = 0x67,
    pending = 0xff,  ///< the firmware has not answered yet
};

enum MfiFlag : std::uint16_t {
    mfi_dont_post = 0x0001,  ///< the driver watches the status
    mfi_sgl64 = 0x0002,
    mfi_sense64 = 0x0004,
    mfi_write = 0x0008,  ///< host to firmware
    mfi_read = 0x0010,
    mfi_ieee = 0x0020,
};

inline constexpr unsigned mfi_frame_bytes = 64;

struct MfiHeader {
    std::uint8_t command = 0;
    std::uint8_t sense_bytes = 0;
    std::uint8_t status = 0;  ///< MfiStatus, by the firmware; the host presets `pending`
    std::uint8_t scsi_status = 0;
    std::uint8_t target_id = 0;
    std::uint8_t lun = 0;
    std::uint8_t cdb_bytes = 0;
    std::uint8_t sges = 0;
    le32 context{};
    le32 pad{};
    le16 flags{};
    le16 timeout{};  ///< seconds
    le32 data_bytes{};
};
static_assert(sizeof(MfiHeader) == 24 && offsetof(MfiHeader, status) == 2 && offsetof(MfiHeader, sges) == 7 &&
              offsetof(MfiHeader, context) == 8 && offsetof(MfiHeader, flags) == 0x10 &&
              offsetof(MfiHeader, data_bytes) == 0x14);
inline constexpr unsigned mfi_status_offset = offsetof(MfiHeader, status);

/// What a driver says of itself in INIT.
enum DriverOperation : std::uint32_t {
    driver_fp_remote_lun = 1u << 0,
    driver_additional_msix = 1u << 1,  ///< knows the supplemental reply index registers
    driver_fp_write_back = 1u << 2,
    driver_max_255_lds = 1u << 3,
    driver_n_drive_r1_balance = 1u << 4,
    driver_core_affinity = 1u << 5,
    driver_security_protocol = 1u << 6,
    driver_ext_queue_depth = 1u << 7,
    driver_ext_io_size = 1u << 8,  ///< chain frames of more than 1 KiB
    driver_fp_region_lock_bypass = 1u << 10,
    driver_queue_throttling = 1u << 11,
    driver_pd_map_target_id = 1u << 12,
    driver_64bit_mode = 1u << 13,
};

struct InitFrame {
    std::uint8_t command = 0;
    std::uint8_t reserved0 = 0;
    std::uint8_t status = 0;
    std::uint8_t reserved1 = 0;
    le32 driver_operations{};
    le32 context{};
    le32 pad{};
    le16 flags{};
    le16 reply_queue_mask{};
    le32 data_bytes{};
    le64 queue_info_new{};  ///< address of the IocInit request
    le64 queue_info_old{};
    std::uint8_t reserved2[8] = {};
    le64 system_info{};
    std::uint8_t reserved3[8] = {};
};
static_assert(sizeof(InitFrame) == mfi_frame_bytes && offsetof(InitFrame, driver_operations) == 4 &&
              offsetof(InitFrame, queue_info_new) == 0x18 && offsetof(InitFrame, system_info) == 0x30);

/// The mailbox of a DCMD, as bytes.
struct Mailbox {
    std::uint8_t bytes[12] = {};

    [[nodiscard]] constexpr std::uint16_t half(unsigned index) const noexcept {
        return static_cast<std::uint16_t>(bytes[2 * index] | bytes[2 * index + 1] << 8);
    }
    [[nodiscard]] constexpr std::uint32_t word(unsigned index) const noexcept {
        return half(2 * index) | static_cast<std::uint32_t>(half(2 * index + 1)) << 16;
    }
    constexpr void set_half(unsigned index, std::uint16_t value) noexcept {
        bytes[2 * index] = static_cast<std::uint8_t>(value);
        bytes[2 * index + 1] = static_cast<std::uint8_t>(value >> 8);
    }
    constexpr void set_word(unsigned index, std::uint32_t value) noexcept {
        set_half(2 * index, static_cast<std::uint16_t>(value));
        set_half(2 * index + 1, static_cast<std::uint16_t>(value >> 16));
    }
};
static_assert(sizeof(Mailbox) == 12);

struct DcmdFrame {
    MfiHeader header{};
    le32 opcode{};
    Mailbox mailbox{};
    std::uint8_t sgl[24] = {};
};
static_assert(sizeof(DcmdFrame) == mfi_frame_bytes && offsetof(DcmdFrame, opcode) == 0x18 &&
              offsetof(DcmdFrame, mailbox) == 0x1c && offsetof(DcmdFrame, sgl) == 0x28);

struct ScsiFrame {  ///< ld_scsi_io and pd_scsi_io
    MfiHeader header{};
    le64 sense{};
    scsi::Cdb cdb{};
    std::uint8_t sgl[16] = {};
};
static_assert(sizeof(ScsiFrame) == mfi_frame_bytes && offsetof(ScsiFrame, cdb) == 0x20 &&
              offsetof(ScsiFrame, sgl) == 0x30);

struct LdIoFrame {  ///< ld_read and ld_write; header.data_bytes counts blocks
    MfiHeader header{};
    le64 sense{};
    le64 lba{};
    std::uint8_t sgl[24] = {};
};
static_assert(sizeof(LdIoFrame) == mfi_frame_bytes && offsetof(LdIoFrame, lba) == 0x20);

struct AbortFrame {
    MfiHeader header{};
    le32 abort_context{};
    le32 pad{};
    le64 abort_frame{};  ///< address of the frame to abort
    std::uint8_t reserved[24] = {};
};
static_assert(sizeof(AbortFrame) == mfi_frame_bytes && offsetof(AbortFrame, abort_context) == 0x18 &&
              offsetof(AbortFrame, abort_frame) == 0x20);

// The scatter-gather list of a frame.

struct MfiSge32 {
    le32 address{};
    le32 bytes{};
};
struct MfiSge64 {
    le64 address{};
    le32 bytes{};
};
struct MfiSgeIeee {
    le64 address{};
    le32 bytes{};
    le32 flags{};
};
static_assert(sizeof(MfiSge32) == 8 && sizeof(MfiSge64) == 12 && sizeof(MfiSgeIeee) == 16);

struct MfiRange {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
};

/// Bytes of one element, by the frame's flags.
[[nodiscard]] constexpr std::size_t mfi_sge_bytes(std::uint16_t flags) noexcept {
    return (flags & mfi_ieee) != 0    ? sizeof(MfiSgeIeee)
           : (flags & mfi_sgl64) != 0 ? sizeof(MfiSge64)
                                      : sizeof(MfiSge32);
}
/// Element `index` of a list. Nothing if `sgl` has no room for it.
[[nodiscard]] std::optional<MfiRange> decode_mfi_sge(std::span<const std::byte> sgl, std::uint16_t flags,
                                                     std::size_t index) noexcept;

// DCMD.

namespace dcmd {
enum : std::uint32_t {
    ctrl_get_info = 0x01010000,
    ctrl_event_get_info = 0x01040100,
    ctrl_event_get = 0x01040300,
    ctrl_event_wait = 0x01040500,
    ctrl_shutdown = 0x01050000,
    hibernate_shutdown = 0x01060000,
    ctrl_cache_flush = 0x01101000,
    ctrl_set_crash_dump_params = 0x01190100,
    ctrl_device_list_get = 0x01190600,
    ctrl_snapdump_get_properties = 0x01200100,
    pd_list_query = 0x02010100,
    pd_get_info = 0x02020000,
    system_pd_map_get_info = 0x0200e102,
    drv_get_target_prop = 0x0200e103,
    ld_get_list = 0x03010000,
    ld_list_query = 0x03010100,
    ld_get_properties = 0x03030000,
    ld_map_get_info = 0x0300e101,
};
}

/// Mailbox byte 0 of pd_list_query.
enum class PdQuery : std::uint8_t { all = 0, exposed_to_host = 5 };
/// Mailbox byte 0 of ld_list_query.
enum class LdQuery : std::uint8_t { all = 0, exposed_to_host = 1, used_target_ids = 2 };
inline constexpr std::uint8_t flush_controller = 1, flush_disks = 2;  ///< mailbox byte 0 of ctrl_cache_flush
inline constexpr std::uint8_t map_pend = 1;  ///< mailbox byte 1 of ld_map_get_info, 0 of system_pd_map_get_info

}  // namespace mqblk::wire::megaraid
