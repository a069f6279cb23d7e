// SPDX-License-Identifier: Apache-2.0
//
// Parameter data of SCSI commands: INQUIRY and its vital product data pages, capacity, mode pages, UNMAP, REPORT LUNS.
// Structures with the standard's offsets, checked at build time. SPC-4 chapters 6.6, 7.5 and 7.8; SBC-3 chapter 5 and
// 6.5.
#pragma once

#include "wire/scsi.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mqblk::wire::scsi {

/// Fills a text field: cut or padded with spaces.
template <std::size_t N>
constexpr void set_text(std::uint8_t (&field)[N], std::string_view text) noexcept {
    for (std::size_t i = 0; i < N; ++i) field[i] = static_cast<std::uint8_t>(i < text.size() ? text[i] : ' ');
}

/// Standard INQUIRY data.
struct InquiryData {
    std::uint8_t peripheral = 0;  ///< qualifier 7:5, device type 4:0 (0 = direct access)
    std::uint8_t removable = 0;   ///< bit 7
    std::uint8_t version = 0x06;  ///< SPC-4
    std::uint8_t format = 0x02;   ///< response data format 2; bit 4 HISUP
    std::uint8_t additional_bytes = 0;
    std::uint8_t flags5 = 0;
    std::uint8_t flags6 = 0;
    std::uint8_t flags7 = 0;  ///< bit 1 CMDQUE
    std::uint8_t vendor[8] = {};
    std::uint8_t product[16] = {};
    std::uint8_t revision[4] = {};
    std::uint8_t vendor_specific[20] = {};
    std::uint8_t reserved[2] = {};
    be16 version_descriptor[8] = {};
};
static_assert(sizeof(InquiryData) == 74 && offsetof(InquiryData, vendor) == 8 && offsetof(InquiryData, product) == 16 &&
              offsetof(InquiryData, revision) == 32 && offsetof(InquiryData, version_descriptor) == 58);
inline constexpr std::uint8_t peripheral_no_unit = 0x7f;  ///< there cannot be a unit at this LUN
inline constexpr std::uint8_t inquiry_command_queuing = 0x02;
inline constexpr std::uint16_t version_sam5 = 0x00a0, version_spc4 = 0x0460, version_sbc3 = 0x04c0;

namespace vpd {
enum : std::uint8_t {
    supported_pages = 0x00,
    unit_serial_number = 0x80,
    device_identification = 0x83,
    block_limits = 0xb0,
    block_characteristics = 0xb1,
    logical_block_provisioning = 0xb2,
};
}

struct VpdHeader {
    std::uint8_t peripheral = 0;
    std::uint8_t page = 0;
    be16 bytes{};  ///< that follow
};
static_assert(sizeof(VpdHeader) == 4);

/// One designation descriptor of page 83h; the identifier follows.
struct Designator {
    std::uint8_t code_set = 0;  ///< 1 binary, 2 ASCII, 3 UTF-8
    std::uint8_t kind = 0;      ///< association 5:4 (0 = logical unit), type 3:0 (1 T10 vendor, 3 NAA)
    std::uint8_t reserved = 0;
    std::uint8_t bytes = 0;
};
static_assert(sizeof(Designator) == 4);
inline constexpr std::uint8_t designator_t10_vendor = 1, designator_naa = 3;

struct BlockLimitsPage {
    VpdHeader header{0, vpd::block_limits, 60};
    std::uint8_t flags = 0;  ///< bit 0 WSNZ: WRITE SAME of 0 blocks is refused
    std::uint8_t max_compare_and_write_blocks = 0;
    be16 optimal_granularity_blocks{};
    be32 max_transfer_blocks{};  ///< 0 = no limit stated
    be32 optimal_transfer_blocks{};
    be32 max_prefetch_blocks{};
    be32 max_unmap_blocks{};
    be32 max_unmap_descriptors{};
    be32 optimal_unmap_granularity_blocks{};
    be32 unmap_alignment{};  ///< bit 31: valid
    be64 max_write_same_blocks{};
    std::uint8_t reserved[20] = {};
};
static_assert(sizeof(BlockLimitsPage) == 64 && offsetof(BlockLimitsPage, max_transfer_blocks) == 8 &&
              offsetof(BlockLimitsPage, max_unmap_blocks) == 20 &&
              offsetof(BlockLimitsPage, max_write_same_blocks) == 36);
inline constexpr std::uint32_t unmap_alignment_valid = 1u << 31;

struct BlockCharacteristicsPage {
    VpdHeader header{0, vpd::block_characteristics, 60};
    be16 rotation_rate{};  ///< 1 = no moving parts, else rounds a minute; 0 = not reported
    std::uint8_t product_type = 0;
    std::uint8_t form_factor = 0;
    std::uint8_t flags = 0;
    std::uint8_t reserved[55] = {};
};
static_assert(sizeof(BlockCharacteristicsPage) == 64 && offsetof(BlockCharacteristicsPage, flags) == 8);
inline constexpr std::uint16_t rotation_none = 1;

struct ProvisioningPage {
    VpdHeader header{0, vpd::logical_block_provisioning, 4};
    std::uint8_t threshold_exponent = 0;
    std::uint8_t flags = 0;              ///< ProvisioningFlag
    std::uint8_t provisioning_type = 0;  ///< 0 full or not stated, 1 resource, 2 thin
    std::uint8_t reserved = 0;
};
static_assert(sizeof(ProvisioningPage) == 8);
enum ProvisioningFlag : std::uint8_t {
    provisioning_unmap = 0x80,          ///< LBPU: UNMAP
    provisioning_write_same_16 = 0x40,  ///< LBPWS
    provisioning_write_same_10 = 0x20,  ///< LBPWS10
    provisioning_reads_zeroes = 0x04,   ///< LBPRZ
};

struct Capacity10 {
    be32 last_lba{};  ///< all ones: too large, ask READ CAPACITY (16)
    be32 block_bytes{};
};
static_assert(sizeof(Capacity10) == 8);

struct Capacity16 {
    be64 last_lba{};
    be32 block_bytes{};
    std::uint8_t protection = 0;
    std::uint8_t exponents = 0;  ///< 3:0 logical blocks per physical block, as a power of two
    be16 lowest_aligned{};       ///< bit 15 LBPME: unmap is supported, bit 14 LBPRZ, 13:0 lowest aligned LBA
    std::uint8_t reserved[16] = {};
};
static_assert(sizeof(Capacity16) == 32 && offsetof(Capacity16, lowest_aligned) == 14);
inline constexpr std::uint16_t capacity_lbpme = 0x8000, capacity_lbprz = 0x4000;

struct ModeHeader6 {
    std::uint8_t bytes = 0;  ///< that follow this one
    std::uint8_t medium_type = 0;
    std::uint8_t device_specific = 0;  ///< ModeDeviceFlag
    std::uint8_t block_descriptor_bytes = 0;
};
static_assert(sizeof(ModeHeader6) == 4);

struct ModeHeader10 {
    be16 bytes{};  ///< that follow this field
    std::uint8_t medium_type = 0;
    std::uint8_t device_specific = 0;
    std::uint8_t long_lba = 0;  ///< bit 0
    std::uint8_t reserved = 0;
    be16 block_descriptor_bytes{};
};
static_assert(sizeof(ModeHeader10) == 8);
enum ModeDeviceFlag : std::uint8_t { mode_write_protected = 0x80, mode_dpo_fua = 0x10 };

struct BlockDescriptor {
    be32 blocks{};  ///< all ones: more than fit
    be32 block_bytes{};
};
static_assert(sizeof(BlockDescriptor) == 8);

namespace mode_page {
enum : std::uint8_t { error_recovery = 0x01, caching = 0x08, control = 0x0a, exceptions = 0x1c, all = 0x3f };
}

struct CachingPage {
    std::uint8_t page = mode_page::caching;
    std::uint8_t bytes = 18;
    std::uint8_t flags = 0;  ///< bit 2 WCE: the write cache is on; bit 0 RCD: the read cache is off
    std::uint8_t retention = 0;
    be16 disable_prefetch{};
    be16 min_prefetch{};
    be16 max_prefetch{};
    be16 max_prefetch_ceiling{};
    std::uint8_t more_flags = 0;
    std::uint8_t cache_segments = 0;
    be16 cache_segment_bytes{};
    std::uint8_t reserved[4] = {};
};
static_assert(sizeof(CachingPage) == 20);
inline constexpr std::uint8_t caching_wce = 0x04;

struct ControlPage {
    std::uint8_t page = mode_page::control;
    std::uint8_t bytes = 10;
    std::uint8_t flags2 = 0;     ///< bit 2 D_SENSE: sense data in descriptor format
    std::uint8_t flags3 = 0x10;  ///< queue algorithm modifier 1: unrestricted reordering
    std::uint8_t flags4 = 0;
    std::uint8_t flags5 = 0;
    std::uint8_t obsolete[2] = {};
    be16 busy_timeout{};
    be16 self_test_seconds{};
};
static_assert(sizeof(ControlPage) == 12);
inline constexpr std::uint8_t control_descriptor_sense = 0x04;

struct UnmapHeader {
    be16 bytes{};             ///< that follow this field
    be16 descriptor_bytes{};  ///< of descriptors
    std::uint8_t reserved[4] = {};
};
static_assert(sizeof(UnmapHeader) == 8);

struct UnmapDescriptor {
    be64 lba{};
    be32 blocks{};
    std::uint8_t reserved[4] = {};
};
static_assert(sizeof(UnmapDescriptor) == 16);

struct LunListHeader {
    be32 bytes{};  ///< that follow the header: 8 for each LUN
    std::uint8_t reserved[4] = {};
};
static_assert(sizeof(LunListHeader) == 8);

}  // namespace mqblk::wire::scsi
