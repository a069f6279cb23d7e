// SPDX-License-Identifier: Apache-2.0
//
// Log pages, features and asynchronous events. NVMe 1.4: sections 5.14 (Get Log Page), 5.21 (Set Features), 5.2
// (Asynchronous Event Request). The discovery log is in wire/nvme_fabrics.h.
#pragma once

#include "wire/nvme.h"

#include <array>

namespace mqblk::wire::nvme {

namespace log_id {
inline constexpr std::uint8_t error = 0x01;
inline constexpr std::uint8_t smart = 0x02;
inline constexpr std::uint8_t firmware = 0x03;
inline constexpr std::uint8_t changed_namespaces = 0x04;
inline constexpr std::uint8_t effects = 0x05;
inline constexpr std::uint8_t ana = 0x0c;
inline constexpr std::uint8_t cross_reset = 0x1e;  ///< NVMe 2.3; wire/nvme_cross_reset.h
inline constexpr std::uint8_t discovery = 0x70;
}  // namespace log_id

// Get Log Page: CDW10 = LID 7:0, LSP 11:8, RAE 15, NUMDL 31:16; CDW11 = NUMDU 15:0; CDW12-13 = offset; CDW14 CSI 31:24.

inline constexpr std::uint32_t log_retain_event = 1u << 15;
inline constexpr std::uint32_t log_ana_groups_only = 1u << 8;  ///< LSP bit 0 of the ANA log

[[nodiscard]] constexpr std::uint8_t log_page_of(const Command& command) noexcept {
    return static_cast<std::uint8_t>(command.cdw10 & 0xff);
}
/// 4 bytes to 16 GiB.
[[nodiscard]] constexpr std::uint64_t log_bytes_of(const Command& command) noexcept {
    return ((std::uint64_t{command.cdw11 & 0xffffu} << 16 | command.cdw10 >> 16) + 1) * 4;
}
[[nodiscard]] constexpr std::uint64_t log_offset_of(const Command& command) noexcept {
    return std::uint64_t{command.cdw12} | std::uint64_t{command.cdw13} << 32;
}
/// `bytes` and `offset` are multiples of 4; `flags` from above.
constexpr void set_log_request(Command& command, std::uint8_t page, std::uint64_t offset, std::uint64_t bytes,
                               std::uint32_t flags = 0) noexcept {
    const auto dwords = static_cast<std::uint32_t>(bytes / 4 - 1);
    command.cdw10 = std::uint32_t{page} | flags | dwords << 16;
    command.cdw11 = dwords >> 16;
    command.cdw12 = static_cast<std::uint32_t>(offset);
    command.cdw13 = static_cast<std::uint32_t>(offset >> 32);
}

/// Error information, LID 01h: newest first.
struct ErrorLogEntry {
    le64 count;  ///< 0: no entry
    le16 sq_id;
    le16 command_id;
    le16 status;  ///< as in a completion
    le16 parameter_location;
    le64 lba;
    le32 namespace_id;
    std::uint8_t vendor_page = 0;
    std::uint8_t transport_type = 0;
    std::uint8_t reserved30[2] = {};
    le64 command_specific;
    le16 transport_specific;
    std::uint8_t reserved42[22] = {};
};
static_assert(sizeof(ErrorLogEntry) == 64);
static_assert(offsetof(ErrorLogEntry, lba) == 16 && offsetof(ErrorLogEntry, namespace_id) == 24);

/// A 128-bit counter, low half first.
struct Counter128 {
    le64 low, high;
};

/// SMART / health information, LID 02h.
struct SmartLog {
    std::uint8_t critical_warning = 0;
    le16 temperature_kelvin;
    std::uint8_t available_spare = 0, spare_threshold = 0, percentage_used = 0, endurance_warning = 0;
    std::uint8_t reserved7[25] = {};
    Counter128 data_units_read, data_units_written;  ///< 1,000 × 512 bytes
    Counter128 host_reads, host_writes;              ///< commands
    Counter128 busy_minutes, power_cycles, power_on_hours, unsafe_shutdowns, media_errors, error_log_entries;
    le32 warning_temperature_minutes, critical_temperature_minutes;
    le16 temperature_sensor[8];
    std::uint8_t reserved216[296] = {};
};
static_assert(sizeof(SmartLog) == 512);
static_assert(offsetof(SmartLog, data_units_read) == 32 && offsetof(SmartLog, host_reads) == 64);
static_assert(offsetof(SmartLog, error_log_entries) == 176 && offsetof(SmartLog, temperature_sensor) == 200);

/// Firmware slots, LID 03h.
struct FirmwareLog {
    std::uint8_t active = 0;  ///< bits 2:0 running slot, 6:4 next
    std::uint8_t reserved1[7] = {};
    std::array<char, 8> revision[7] = {};
    std::uint8_t reserved64[448] = {};
};
static_assert(sizeof(FirmwareLog) == 512 && offsetof(FirmwareLog, revision) == 8);

/// Changed namespaces, LID 04h: ascending, zero-terminated; more than fit: the first is nsid_all, the others zero.
inline constexpr std::size_t changed_namespaces_max = 1024;
using ChangedNamespacesLog = std::array<le32, changed_namespaces_max>;
static_assert(sizeof(ChangedNamespacesLog) == 4096);

/// Commands supported and effects, LID 05h.
struct EffectsLog {
    std::array<le32, 256> admin{};
    std::array<le32, 256> io{};
    std::uint8_t reserved2048[2048] = {};
};
static_assert(sizeof(EffectsLog) == 4096);
namespace effect {
inline constexpr std::uint32_t supported = 1, changes_data = 2, changes_capabilities = 4, changes_inventory = 8,
                               changes_controller = 16;
}

/// Asymmetric namespace access, LID 0Ch: header, then groups, each followed by its namespace identifiers.
struct AnaHeader {
    le64 change_count;
    le16 groups;
    std::uint8_t reserved10[6] = {};
};
static_assert(sizeof(AnaHeader) == 16);
struct AnaGroup {
    le32 group_id;
    le32 namespaces;
    le64 change_count;
    std::uint8_t state = 0;  ///< low nibble
    std::uint8_t reserved17[15] = {};
};
static_assert(sizeof(AnaGroup) == 32 && offsetof(AnaGroup, state) == 16);
namespace ana_state {
inline constexpr std::uint8_t optimized = 1, non_optimized = 2, inaccessible = 3, persistent_loss = 4, change = 15;
}

// Features: CDW10 = FID 7:0, Get: SEL 10:8, Set: SV 31; CDW11 value.
namespace feature_id {
inline constexpr std::uint8_t arbitration = 0x01;
inline constexpr std::uint8_t power_management = 0x02;
inline constexpr std::uint8_t temperature_threshold = 0x04;
inline constexpr std::uint8_t error_recovery = 0x05;
inline constexpr std::uint8_t volatile_write_cache = 0x06;
inline constexpr std::uint8_t number_of_queues = 0x07;
inline constexpr std::uint8_t write_atomicity = 0x0a;
inline constexpr std::uint8_t async_event_config = 0x0b;
inline constexpr std::uint8_t timestamp = 0x0e;
inline constexpr std::uint8_t keep_alive_timer = 0x0f;
inline constexpr std::uint8_t host_behavior = 0x16;
inline constexpr std::uint8_t command_set_profile = 0x19;
inline constexpr std::uint8_t host_id = 0x81;
inline constexpr std::uint8_t write_protect = 0x84;
}  // namespace feature_id

inline constexpr std::uint32_t feature_save = 1u << 31;
[[nodiscard]] constexpr std::uint8_t feature_of(const Command& command) noexcept {
    return static_cast<std::uint8_t>(command.cdw10 & 0xff);
}
/// Get Features SEL: 0 current, 1 default, 2 saved, 3 supported capabilities.
[[nodiscard]] constexpr std::uint8_t feature_select_of(const Command& command) noexcept {
    return static_cast<std::uint8_t>(command.cdw10 >> 8 & 7);
}
inline constexpr std::size_t timestamp_bytes = 8;
inline constexpr std::size_t host_behavior_bytes = 512;
inline constexpr std::size_t host_id_bytes = 16;

/// Number of queues, as Set Features asks and its result answers: zero-based, submission 15:0, completion 31:16.
[[nodiscard]] constexpr std::uint32_t queue_counts(std::uint32_t submission, std::uint32_t completion) noexcept {
    return (submission - 1) | (completion - 1) << 16;
}

// Asynchronous events: DW0 = type 2:0, information 15:8, log page 23:16.
namespace event_type {
inline constexpr std::uint32_t error = 0, smart = 1, notice = 2;
}
namespace notice {
inline constexpr std::uint32_t namespace_attributes = 0x00, firmware = 0x01, ana = 0x03, discovery_change = 0xf0,
                               cross_reset = 0xf4;
}
[[nodiscard]] constexpr std::uint32_t event_result(std::uint32_t type, std::uint32_t information,
                                                   std::uint32_t log_page) noexcept {
    return type | information << 8 | log_page << 16;
}
[[nodiscard]] constexpr std::uint32_t event_type_of(std::uint32_t result) noexcept {
    return result & 7;
}
[[nodiscard]] constexpr std::uint32_t event_information_of(std::uint32_t result) noexcept {
    return result >> 8 & 0xff;
}
[[nodiscard]] constexpr std::uint8_t event_log_of(std::uint32_t result) noexcept {
    return static_cast<std::uint8_t>(result >> 16 & 0xff);
}

}  // namespace mqblk::wire::nvme
