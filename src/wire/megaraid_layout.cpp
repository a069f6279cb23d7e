// SPDX-License-Identifier: Apache-2.0
#include "wire/megaraid_layout.h"

namespace mqblk::wire::megaraid {

namespace {

constexpr unsigned max_strip_shift = 20;

/// RAID 6: the arm of Q in a row; the data follow it to the right.
constexpr unsigned q_arm(const Layout& layout, std::uint64_t row) noexcept {
    return layout.arms - 1 - static_cast<unsigned>(row % layout.arms);
}

}  // namespace

std::optional<Layout> make_layout(unsigned level, unsigned arms, unsigned strip_shift) noexcept {
    if (arms == 0 || arms > max_row_size || strip_shift > max_strip_shift) return std::nullopt;
    Layout layout{static_cast<std::uint8_t>(level), arms, arms, strip_shift};
    switch (level) {
        case 0:
            return layout;
        case 1:
            if (arms != 2) return std::nullopt;
            layout.data_arms = 1;
            return layout;
        case 5:
            if (arms < 3) return std::nullopt;
            layout.data_arms = arms - 1;
            return layout;
        case 6:
            if (arms < 4) return std::nullopt;
            layout.data_arms = arms - 2;
            return layout;
        default:
            return std::nullopt;
    }
}

std::optional<Layout> layout_of(const LdRaid& raid) noexcept {
    if (raid.spans != 1) return std::nullopt;
    const auto layout = make_layout(raid.level, raid.row_size, raid.strip_shift);
    if (!layout || layout->data_arms != raid.row_data_size) return std::nullopt;
    return layout;
}

DiskBlock locate(const Layout& layout, std::uint64_t volume_block) noexcept {
    const std::uint64_t strip = volume_block >> layout.strip_shift;
    const std::uint64_t row = strip / layout.data_arms;
    const auto column = static_cast<unsigned>(strip % layout.data_arms);
    const std::uint64_t block = row << layout.strip_shift | (volume_block & (layout.strip_blocks() - 1));
    switch (layout.level) {
        case 5:
            return {static_cast<unsigned>(strip % layout.arms), block};
        case 6:
            return {(q_arm(layout, row) + 1 + column) % layout.arms, block};
        default:
            return {column, block};
    }
}

std::optional<std::uint64_t> volume_block_of(const Layout& layout, unsigned arm, std::uint64_t disk_block) noexcept {
    if (arm >= layout.arms) return std::nullopt;
    const std::uint64_t row = disk_block >> layout.strip_shift;
    unsigned column = arm;
    switch (layout.level) {
        case 1:
            column = 0;
            break;
        case 5:
            // Column c of the row is strip row * data_arms + c, on that arm modulo the arms.
            column = static_cast<unsigned>((arm + layout.arms - row % layout.arms * layout.data_arms % layout.arms) %
                                           layout.arms);
            break;
        case 6:
            column = (arm + layout.arms - q_arm(layout, row) - 1 + layout.arms) % layout.arms;
            break;
        default:
            break;
    }
    if (column >= layout.data_arms) return std::nullopt;
    if (row > (~std::uint64_t{0} >> layout.strip_shift) / layout.data_arms - 1) return std::nullopt;
    return (row * layout.data_arms + column) << layout.strip_shift | (disk_block & (layout.strip_blocks() - 1));
}

std::uint64_t disk_blocks(const Layout& layout, std::uint64_t blocks) noexcept {
    const std::uint64_t row_blocks = layout.data_arms * layout.strip_blocks();
    return (blocks / row_blocks + (blocks % row_blocks != 0 ? 1 : 0)) << layout.strip_shift;
}

bool fits_fast_path(const LdRaid& raid, std::uint64_t block, std::uint64_t blocks, bool read) noexcept {
    const std::uint32_t needed = ld_fast_path | (read ? ld_fp_read : ld_fp_write);
    if ((raid.capability & needed) != needed || blocks == 0 || raid.strip_shift > max_strip_shift) return false;
    if (block >= raid.blocks || blocks > raid.blocks - block) return false;
    return block >> raid.strip_shift == (block + blocks - 1) >> raid.strip_shift;
}

}  // namespace mqblk::wire::megaraid
