// SPDX-License-Identifier: Apache-2.0
//
// The RAID map: which volume has which target id, how it lies on which disks, and by which handles disks are reached;
// and the map of disks without a volume. With them a driver goes to a disk itself (fast path). Two forms: for 64
// volumes, and for 256. Little endian, but for the numbers that are returned as they came.
#pragma once

#include "base/endian.h"
#include "wire/megaraid_info.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mqblk::wire::megaraid {

inline constexpr unsigned max_spans = 8;
inline constexpr unsigned max_row_size = 32;
inline constexpr unsigned max_arrays_legacy = 128;
inline constexpr unsigned max_arrays = 256;
inline constexpr std::uint16_t handle_invalid = 0xffff;
inline constexpr std::uint16_t pd_invalid = 0xffff;
inline constexpr std::uint8_t ld_invalid = 0xff;  ///< in a target id's place

struct DeviceHandles {
    le16 current{handle_invalid};
    std::uint8_t valid = 0;  ///< how many of `handle`
    std::uint8_t interface = 0;
    le16 handle[2] = {handle_invalid, handle_invalid};
};
static_assert(sizeof(DeviceHandles) == 8);

struct ArrayInfo {
    le16 pd[max_row_size] = {};  ///< device id of each arm
};
static_assert(sizeof(ArrayInfo) == 64);

enum LdCapability : std::uint32_t {
    ld_fast_path = 1u << 0,
    ld_fp_write = 1u << 20,
    ld_fp_read = 1u << 21,
    ld_fp_write_across = 1u << 22,
    ld_fp_read_across = 1u << 23,
    ld_fp_other = 1u << 24,  ///< commands that are no READ or WRITE: a volume of one disk
    ld_task_management = 1u << 25,
};

struct LdRaid {
    le32 capability{};  ///< LdCapability
    le32 reserved0{};
    le64 blocks{};
    std::uint8_t spans = 0;
    std::uint8_t level = 0;
    std::uint8_t strip_shift = 0;  ///< 2^n blocks
    std::uint8_t row_size = 0;     ///< arms
    std::uint8_t row_data_size = 0;
    std::uint8_t write_mode = 0;
    std::uint8_t primary_level = 0;
    std::uint8_t secondary_level = 0;
    le16 target_id{};
    std::uint8_t state = 0;          ///< LdState
    std::uint8_t lock_on_write = 0;  ///< RegionLock
    std::uint8_t mod_factor = 0;     ///< entries used of LdSpanMap::data_arm
    std::uint8_t lock_on_read = 0;
    le16 sequence{};
    le32 flags{};
    std::uint8_t lun[8] = {};
    std::uint8_t fp_timeout = 0;  ///< seconds
    std::uint8_t reserved1[83] = {};
};
static_assert(sizeof(LdRaid) == 128 && offsetof(LdRaid, blocks) == 8 && offsetof(LdRaid, level) == 17 &&
              offsetof(LdRaid, target_id) == 24 && offsetof(LdRaid, mod_factor) == 28 &&
              offsetof(LdRaid, sequence) == 30 && offsetof(LdRaid, lun) == 36 && offsetof(LdRaid, fp_timeout) == 44);

struct Quad {
    le64 first_row{}, last_row{}, offset_in_span{};
    le32 row_step{};
    le32 reserved{};
};
struct SpanBlock {
    le64 rows{};
    le64 start_block{};
    le64 blocks{};
    le16 array{};
    std::uint8_t row_size = 0;
    std::uint8_t row_data_size = 0;
    le32 reserved0{};
    le32 quads{};
    le32 reserved1{};
    Quad quad[max_spans] = {};
};
static_assert(sizeof(Quad) == 32 && sizeof(SpanBlock) == 296 && offsetof(SpanBlock, array) == 24 &&
              offsetof(SpanBlock, quad) == 40);

struct LdSpanMap {
    LdRaid raid{};
    std::uint8_t data_arm[max_row_size] = {};
    SpanBlock span[max_spans] = {};
};
static_assert(sizeof(LdSpanMap) == 2528 && offsetof(LdSpanMap, span) == 160);

/// For 64 volumes; as many LdSpanMap follow as there are.
struct MapLegacy {
    le32 bytes{};  ///< of all
    le32 version[5] = {};
    le32 volumes{};
    le32 reserved0{};
    std::uint8_t target_to_ld[2 * max_volumes_legacy] = {};
    std::uint8_t fp_timeout = 0;
    std::uint8_t reserved1[7] = {};
    ArrayInfo array[max_arrays_legacy] = {};
    DeviceHandles device[max_physical_disks] = {};
};
static_assert(sizeof(MapLegacy) == 10408 && offsetof(MapLegacy, target_to_ld) == 32 &&
              offsetof(MapLegacy, fp_timeout) == 160 && offsetof(MapLegacy, array) == 168 &&
              offsetof(MapLegacy, device) == 8360);
[[nodiscard]] constexpr std::uint32_t legacy_map_bytes(unsigned volumes) noexcept {
    return static_cast<std::uint32_t>(sizeof(MapLegacy) + volumes * sizeof(LdSpanMap));
}

/// For 256 volumes; 256 LdSpanMap follow.
struct MapExtended {
    le32 bytes{};
    le32 version[5] = {};
    std::uint8_t fp_timeout = 0;
    std::uint8_t reserved0[7] = {};
    le16 volumes{};
    le16 arrays{};
    le16 spans{};
    le16 reserved1{};
    DeviceHandles device[max_physical_disks] = {};
    std::uint8_t target_to_ld[max_volumes] = {};
    ArrayInfo array[max_arrays] = {};
};
static_assert(sizeof(MapExtended) == 18728 && offsetof(MapExtended, volumes) == 32 &&
              offsetof(MapExtended, device) == 40 && offsetof(MapExtended, target_to_ld) == 2088 &&
              offsetof(MapExtended, array) == 2344);
inline constexpr std::uint32_t extended_map_bytes = sizeof(MapExtended) + max_volumes * sizeof(LdSpanMap);
static_assert(extended_map_bytes == 665896);

/// Either form, in place. Indexes within it are not checked; at() is bounded.
struct MapView {
    std::span<const DeviceHandles> device;       ///< by device id
    std::span<const std::uint8_t> target_to_ld;  ///< by target id
    std::span<const ArrayInfo> array;
    std::span<const LdSpanMap> volume;
    std::uint8_t fp_timeout = 0;

    /// The volume of a target id; null if there is none.
    [[nodiscard]] const LdSpanMap* find(unsigned target_id) const noexcept {
        if (target_id >= target_to_ld.size()) return nullptr;
        const unsigned ld = target_to_ld[target_id];
        return ld < volume.size() ? &volume[ld] : nullptr;
    }
    /// The handle of an arm of a volume's span; handle_invalid if there is none.
    [[nodiscard]] std::uint16_t handle(const LdSpanMap& ld, unsigned span, unsigned arm) const noexcept {
        if (span >= max_spans || arm >= max_row_size || ld.span[span].array >= array.size()) return handle_invalid;
        const unsigned pd = array[ld.span[span].array].pd[arm];
        return pd < device.size() ? device[pd].current.value() : handle_invalid;
    }
};
/// Nothing if it is cut off, or its size and number of volumes do not belong together.
[[nodiscard]] std::optional<MapView> decode_legacy_map(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] std::optional<MapView> decode_extended_map(std::span<const std::byte> bytes) noexcept;

/// What a driver sends along when it pends ld_map_get_info: the sequence number that it has of each volume.
struct LdTargetSync {
    std::uint8_t target_id = 0;
    std::uint8_t reserved = 0;
    le16 sequence{};
};
static_assert(sizeof(LdTargetSync) == 4);

/// Answer to system_pd_map_get_info: ListHeader, and one of these for each device id.
struct PdSequence {
    le16 sequence{};
    le16 handle{handle_invalid};
    std::uint8_t capability = 0;  ///< bit 0: task management
    std::uint8_t reserved = 0;
    le16 target_id{};
};
static_assert(sizeof(PdSequence) == 8 && offsetof(PdSequence, capability) == 4);
inline constexpr std::uint8_t pd_task_management = 1;
inline constexpr std::uint16_t pd_target_offset = 255;  ///< RaidContext::target_id of disk n is this and n
[[nodiscard]] constexpr std::uint32_t pd_map_bytes(unsigned disks) noexcept {
    return static_cast<std::uint32_t>(sizeof(ListHeader) + disks * sizeof(PdSequence));
}
[[nodiscard]] std::optional<std::span<const PdSequence>> decode_pd_map(std::span<const std::byte> bytes) noexcept;

}  // namespace mqblk::wire::megaraid
