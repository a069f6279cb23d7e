// SPDX-License-Identifier: Apache-2.0
//
// Blocks that say what they are: each logical block that `bench --verify` writes carries its address, the run and the
// generation it was written in, and a checksum over all of it, so that torn, stale and misplaced data are told apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mqblk::cli {

/// What one logical block should carry. A block's first 40 bytes hold these, little-endian; see pattern.cpp.
struct BlockStamp {
    std::uint64_t lba = 0;         ///< in logical blocks of its device
    std::uint64_t run = 0;         ///< the run's seed
    std::uint64_t generation = 0;  ///< counts the writes to this place; 0: any
};

/// Fills `data`, whole blocks of `block_bytes` each from `first.lba` on.
void fill_blocks(std::span<std::byte> data, std::size_t block_bytes, BlockStamp first) noexcept;

/// The first block of `data` that is not what fill_blocks wrote, as a sentence that names its LBA and both values.
/// With generation 0 any run and generation will do, as long as the block is whole and in its place.
[[nodiscard]] std::optional<std::string> check_blocks(std::span<const std::byte> data, std::size_t block_bytes,
                                                      BlockStamp first);

/// Pseudo-random bytes that do not compress, for unverified writes.
void fill_random(std::span<std::byte> data, std::uint64_t seed) noexcept;

}  // namespace mqblk::cli
