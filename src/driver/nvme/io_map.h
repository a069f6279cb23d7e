// SPDX-License-Identifier: Apache-2.0
//
// A block request as an NVM command, and how command identifiers are made of tags. NVMe 1.4, section 6.
#pragma once

#include "block/request.h"
#include "driver/nvme/queue_pair.h"

#include <bit>
#include <cstdint>

namespace mqblk::driver::nvme {

/// What the I/O path needs to know of a namespace. Constant while a disk refers to it.
struct NamespaceIo {
    std::uint32_t nsid = 0;
    std::uint8_t sector_shift = 0;  ///< log2 of sectors per logical block
};

/// Fills the command (all but identifier and data pointer) and, except for a read or write, its data.
void build_command(const block::Request&, const NamespaceIo&, Capsule&) noexcept;

/// Command identifiers: the tag in the low bits, as many bits of the request's generation as are left above. With up to
/// 4,096 tags that is Linux's split of 12 and 4 bits; a target must return all 16.
class CommandIds {
  public:
    explicit CommandIds(unsigned depth) noexcept
        : tag_bits_(depth <= 4096 ? 12 : static_cast<unsigned>(std::bit_width(depth - 1))) {}

    [[nodiscard]] std::uint16_t make(std::uint32_t tag, std::uint16_t generation) const noexcept {
        return static_cast<std::uint16_t>(tag | static_cast<std::uint32_t>(generation) << tag_bits_);
    }
    [[nodiscard]] std::uint32_t tag(std::uint16_t id) const noexcept { return id & ((1u << tag_bits_) - 1); }
    [[nodiscard]] std::uint16_t generation(std::uint16_t id) const noexcept {
        return static_cast<std::uint16_t>(static_cast<std::uint32_t>(id) >> tag_bits_);
    }
    [[nodiscard]] std::uint16_t generation_mask() const noexcept {
        return static_cast<std::uint16_t>((1u << (16 - tag_bits_)) - 1);
    }

  private:
    unsigned tag_bits_;
};

}  // namespace mqblk::driver::nvme
