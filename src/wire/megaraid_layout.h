// SPDX-License-Identifier: Apache-2.0
//
// Where a volume's blocks are on its disks, both ways, for the levels that have one span: a driver that takes the fast
// path goes from the volume to the disk, a firmware model that keeps the volume as a whole goes back. As the RAID map
// says it: RAID 0 and 1 by strips in turn; 5 left-symmetric, data strip n on arm n modulo the arms; 6 by the place of
// Q, which moves one arm to the left with each row.
#pragma once

#include "wire/megaraid_map.h"

#include <cstdint>
#include <optional>

namespace mqblk::wire::megaraid {

struct Layout {
    std::uint8_t level = 0;  ///< 0, 1, 5 or 6
    unsigned arms = 1;
    unsigned data_arms = 1;  ///< in a row
    unsigned strip_shift = 7;

    [[nodiscard]] constexpr std::uint64_t strip_blocks() const noexcept { return std::uint64_t{1} << strip_shift; }
};

/// The layout of a level over so many disks; nothing if that cannot be.
[[nodiscard]] std::optional<Layout> make_layout(unsigned level, unsigned arms, unsigned strip_shift) noexcept;
/// As a map has it; nothing if it is none of these, or contradicts itself.
[[nodiscard]] std::optional<Layout> layout_of(const LdRaid& raid) noexcept;

struct DiskBlock {
    unsigned arm = 0;  ///< of RAID 1 the first; the same block is on the other
    std::uint64_t block = 0;
};
[[nodiscard]] DiskBlock locate(const Layout& layout, std::uint64_t volume_block) noexcept;
/// Nothing where the disk has parity.
[[nodiscard]] std::optional<std::uint64_t> volume_block_of(const Layout& layout, unsigned arm,
                                                           std::uint64_t disk_block) noexcept;
/// Blocks of one disk of a volume of `blocks`: whole strips.
[[nodiscard]] std::uint64_t disk_blocks(const Layout& layout, std::uint64_t blocks) noexcept;

/// Whether a request may take the fast path: within one strip, and the map allows it in that direction.
[[nodiscard]] bool fits_fast_path(const LdRaid& raid, std::uint64_t block, std::uint64_t blocks, bool read) noexcept;

}  // namespace mqblk::wire::megaraid
