// SPDX-License-Identifier: Apache-2.0
//
// What the firmware of a MegaRAID controller tells in its DCMDs: controller information, lists of disks and volumes,
// properties of one of them, events. And how lists are read: an element is given only where the bytes are, a list that
// says it is longer than its buffer is none. Little endian.
#pragma once

#include "base/endian.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mqblk::wire::megaraid {

inline constexpr unsigned max_physical_disks = 256;
inline constexpr unsigned max_volumes_legacy = 64;
inline constexpr unsigned max_volumes = 256;

enum ControllerProperty : std::uint32_t {  ///< of ControllerInfo::on_off_properties
    property_disable_online_reset = 1u << 10,
    property_enable_jbod = 1u << 13,
};
enum AdapterOperation2 : std::uint32_t {
    operation2_protection = 1u << 0,
    operation2_jbod = 1u << 11,
    operation2_uneven_spans = 1u << 20,
    operation2_multipath = 1u << 23,
};
enum AdapterOperation3 : std::uint32_t {
    operation3_max_ext_lds = 1u << 5,  ///< 256 volumes and the map for them
    operation3_crash_dump = 1u << 6,
    operation3_security_on_jbod = 1u << 18,
    operation3_jbod_sequence_numbers = 1u << 24,
};

struct ControllerInfo {
    le16 vendor_id{}, device_id{}, subsystem_vendor_id{}, subsystem_device_id{};
    std::uint8_t reserved0[24] = {};
    std::uint8_t host_interface = 0;  ///< bit 1 PCIe, 4 SR-IOV
    std::uint8_t reserved1[71] = {};
    std::uint8_t device_interface = 0;
    std::uint8_t reserved2[71] = {};
    std::uint8_t images[1164] = {};
    std::uint8_t max_arms = 0;
    std::uint8_t max_spans = 0;
    std::uint8_t max_arrays = 0;
    std::uint8_t max_lds = 0;
    char product_name[80] = {};
    char serial[32] = {};
    le32 hardware_present{};
    le32 firmware_time{};
    le16 max_concurrent_commands{};
    le16 max_sge_count{};
    le32 max_request_sectors{};
    le16 lds_present{}, lds_degraded{}, lds_offline{};
    le16 pds_present{}, disks_present{}, disks_predicted_failure{}, disks_failed{};
    le16 nvram_kib{};
    le16 memory_mib{};  ///< 0: no cache
    le16 flash_mib{};
    le16 correctable_errors{}, uncorrectable_errors{};
    std::uint8_t cluster_permitted = 0, cluster_active = 0;
    le16 max_strips_per_io{};
    le32 raid_levels{};
    le32 adapter_operations{};
    le32 ld_operations{};
    std::uint8_t min_strip_shift = 0;  ///< 2^n blocks of 512 bytes
    std::uint8_t max_strip_shift = 0;
    std::uint8_t reserved3[2] = {};
    le32 pd_operations{};
    le32 pd_mix{};
    std::uint8_t reserved4[12] = {};
    std::uint8_t properties[32] = {};
    le32 on_off_properties{};  ///< ControllerProperty
    std::uint8_t properties2[28] = {};
    char package_version[96] = {};
    std::uint8_t reserved5[224] = {};
    le16 max_pds{};
    std::uint8_t reserved6[34] = {};
    le32 adapter_operations2{};
    std::uint8_t driver_version[32] = {};
    std::uint8_t reserved7[30] = {};
    std::uint8_t requestor_id = 0;
    std::uint8_t reserved8 = 0;
    le32 adapter_operations3{};
    std::uint8_t reserved9[20] = {};
};
static_assert(sizeof(ControllerInfo) == 0x800 && offsetof(ControllerInfo, host_interface) == 0x20 &&
              offsetof(ControllerInfo, max_lds) == 0x53f && offsetof(ControllerInfo, product_name) == 0x540 &&
              offsetof(ControllerInfo, serial) == 0x590 && offsetof(ControllerInfo, max_concurrent_commands) == 0x5b8 &&
              offsetof(ControllerInfo, max_request_sectors) == 0x5bc && offsetof(ControllerInfo, memory_mib) == 0x5d0 &&
              offsetof(ControllerInfo, max_strips_per_io) == 0x5da &&
              offsetof(ControllerInfo, min_strip_shift) == 0x5e8 && offsetof(ControllerInfo, properties) == 0x600 &&
              offsetof(ControllerInfo, on_off_properties) == 0x620 &&
              offsetof(ControllerInfo, package_version) == 0x640 && offsetof(ControllerInfo, max_pds) == 0x780 &&
              offsetof(ControllerInfo, adapter_operations2) == 0x7a4 &&
              offsetof(ControllerInfo, requestor_id) == 0x7e6 &&
              offsetof(ControllerInfo, adapter_operations3) == 0x7e8);

// Lists.

struct ListHeader {
    le32 bytes{};  ///< of all that is there, this included
    le32 count{};
};
static_assert(sizeof(ListHeader) == 8);

struct PdAddress {
    le16 device_id{};
    le16 enclosure_id{};
    std::uint8_t enclosure_index = 0;
    std::uint8_t slot = 0;
    std::uint8_t scsi_type = 0;  ///< 0: a disk
    std::uint8_t ports = 0;
    le64 sas_address[2] = {};
};
static_assert(sizeof(PdAddress) == 24 && offsetof(PdAddress, sas_address) == 8);

struct LdListHeader {
    le32 count{};
    le32 reserved{};
};
struct LdEntry {
    std::uint8_t target_id = 0;
    std::uint8_t reserved0 = 0;
    le16 sequence{};
    std::uint8_t state = 0;  ///< LdState
    std::uint8_t reserved1[3] = {};
    le64 blocks{};
};
static_assert(sizeof(LdListHeader) == 8 && sizeof(LdEntry) == 16 && offsetof(LdEntry, blocks) == 8);
enum class LdState : std::uint8_t { offline = 0, partially_degraded = 1, degraded = 2, optimal = 3 };

inline constexpr unsigned target_ids_offset = 11;  ///< in the answer to ld_list_query: ListHeader, 3 bytes, an id each
/// Bytes of that list with room for `volumes`.
[[nodiscard]] constexpr std::uint32_t target_list_bytes(unsigned volumes) noexcept {
    return (target_ids_offset + volumes + 3) / 4 * 4;
}

/// The elements of each list, in place. Nothing if it is cut off or says more than there can be.
[[nodiscard]] std::optional<std::span<const PdAddress>> decode_pd_list(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] std::optional<std::span<const LdEntry>> decode_ld_list(std::span<const std::byte> bytes,
                                                                     unsigned most) noexcept;
[[nodiscard]] std::optional<std::span<const std::uint8_t>> decode_target_list(std::span<const std::byte> bytes,
                                                                              unsigned most) noexcept;

// One disk or volume.

enum class PdState : std::uint16_t { unconfigured_good = 0x00, failed = 0x11, online = 0x18, system = 0x40 };
enum class PdInterface : std::uint8_t { unknown = 0, sas = 2, sata = 3, nvme = 5 };

/// Bits, of what a disk's own metadata says.
enum PdConfiguration : std::uint16_t { pd_in_volume = 0x0002, pd_foreign = 0x0010 };

struct PdInfo {
    le16 device_id{};
    le16 sequence{};
    std::uint8_t inquiry[96] = {};
    std::uint8_t vpd_page_83[64] = {};
    std::uint8_t not_supported = 0;
    std::uint8_t scsi_type = 0;
    std::uint8_t ports = 0;
    std::uint8_t speed = 0;
    std::uint8_t error_counts[16] = {};
    le16 state{};  ///< PdState
    std::uint8_t disabled_for_removal = 0;
    std::uint8_t link_speed = 0;
    le16 configuration{};  ///< PdConfiguration
    std::uint8_t reserved0[42] = {};
    le64 raw_blocks{}, uncoerced_blocks{}, coerced_blocks{};
    le16 enclosure_id{};
    std::uint8_t enclosure_index = 0;
    std::uint8_t slot = 0;
    std::uint8_t reserved1[110] = {};
    std::uint8_t media_type = 0;  ///< 1: solid state
    std::uint8_t reserved2[30] = {};
    std::uint8_t interface = 0;  ///< PdInterface
    std::uint8_t temperature = 0;
    std::uint8_t emulated_block = 0;
    le16 block_bytes{};
    std::uint8_t reserved3[106] = {};
};
static_assert(sizeof(PdInfo) == 512 && offsetof(PdInfo, scsi_type) == 0xa5 && offsetof(PdInfo, state) == 0xb8 &&
              offsetof(PdInfo, configuration) == 0xbc && offsetof(PdInfo, raw_blocks) == 0xe8 &&
              offsetof(PdInfo, enclosure_id) == 0x100 && offsetof(PdInfo, media_type) == 0x172 &&
              offsetof(PdInfo, interface) == 0x191 && offsetof(PdInfo, block_bytes) == 0x194);

struct TargetProperties {  ///< mailbox byte 0: 1 for a volume; half 1: its id
    le32 max_io_kib{};
    le32 queue_depth{};
    le32 sector_bytes{};
    std::uint8_t reset_timeout_s = 0;
    std::uint8_t reserved[499] = {};
};
static_assert(sizeof(TargetProperties) == 512 && offsetof(TargetProperties, reset_timeout_s) == 12);

// Events.

namespace event {
enum : std::uint32_t {
    config_cleared = 0x0004,
    ld_state_change = 0x0051,
    pd_inserted = 0x005b,
    pd_removed = 0x0070,
    ld_created = 0x008a,
    ld_deleted = 0x008b,
    ld_offline = 0x00fc,
    property_changed = 0x012f,
    host_bus_scan = 0x0152,
};
}
enum EventLocale : std::uint16_t { locale_ld = 0x01, locale_pd = 0x02, locale_controller = 0x20, locale_all = 0xffff };
enum class EventClass : std::int8_t { debug = -2, progress = -1, info = 0, warning = 1, critical = 2 };
enum class EventArgument : std::uint8_t { none = 0, ld = 2, pd = 10 };

/// As the mailbox and each event have it: locale 15:0, class 31:24.
[[nodiscard]] constexpr std::uint32_t class_locale(EventClass kind, std::uint16_t locale) noexcept {
    return static_cast<std::uint32_t>(static_cast<std::uint8_t>(kind)) << 24 | locale;
}
/// Whether who asked for `wanted` is told of an event of `happened`.
[[nodiscard]] constexpr bool wants_event(std::uint32_t wanted, std::uint32_t happened) noexcept {
    return static_cast<std::int8_t>(happened >> 24) >= static_cast<std::int8_t>(wanted >> 24) &&
           (wanted & happened & 0xffff) != 0;
}

struct EventLogInfo {
    le32 newest{}, oldest{}, clear{}, shutdown{}, boot{};  ///< sequence numbers
};
static_assert(sizeof(EventLogInfo) == 20);

struct Event {
    le32 sequence{};
    le32 time{};
    le32 code{};
    le32 class_locale{};
    std::uint8_t argument_type = 0;  ///< EventArgument
    std::uint8_t reserved[15] = {};
    std::uint8_t arguments[96] = {};  ///< ld: le16 target id; pd: le16 device id, enclosure index, slot
    char description[128] = {};
};
static_assert(sizeof(Event) == 256 && offsetof(Event, argument_type) == 0x10 && offsetof(Event, arguments) == 0x20 &&
              offsetof(Event, description) == 0x80);

struct EventList {  ///< answer to ctrl_event_get: `count` events follow
    le32 count{};
    le32 reserved{};
};
static_assert(sizeof(EventList) == 8);

}  // namespace mqblk::wire::megaraid
