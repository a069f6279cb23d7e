// SPDX-License-Identifier: Apache-2.0
//
// What a device can take in one request. A driver states its limits once; the block layer cuts every bio so that no
// request exceeds them. The meaning of each follows Linux's queue limits (Documentation/ABI/stable/sysfs-block), so
// that the figures can be compared one to one.
#pragma once

#include <mqblk/error.h>

#include <cstdint>
#include <limits>

namespace mqblk {

struct QueueLimits {
    static constexpr std::uint32_t unlimited = std::numeric_limits<std::uint32_t>::max();

    std::uint32_t logical_block_size = 512;   ///< bytes, a power of two, 512 or more: smallest addressable unit
    std::uint32_t physical_block_size = 512;  ///< bytes: smallest unit written without read-modify-write
    std::uint32_t io_min = 512;               ///< bytes: preferred smallest request (a RAID's chunk)
    std::uint32_t io_opt = 0;                 ///< bytes: preferred request (a RAID's full stripe); 0 = none stated
    std::uint32_t alignment_offset = 0;       ///< bytes from the device's start to the first physical block

    std::uint32_t max_sectors = unlimited;       ///< sectors in one read or write
    std::uint32_t chunk_sectors = 0;             ///< no read or write crosses a multiple of this; 0 = no such line
    std::uint32_t max_segments = unlimited;      ///< memory pieces in one request
    std::uint32_t max_segment_size = unlimited;  ///< bytes in one piece
    std::uint64_t seg_boundary_mask = ~0ull;     ///< no piece crosses an address multiple of mask + 1
    std::uint64_t virt_boundary_mask = 0;        ///< between two pieces, end and start lie on multiples of mask + 1
    std::uint32_t dma_alignment = 0;             ///< mask: address and length of each piece have these bits clear

    std::uint32_t max_discard_sectors = 0;       ///< 0 = no discard
    std::uint32_t discard_granularity = 0;       ///< bytes
    std::uint32_t discard_alignment = 0;         ///< bytes from the device's start to the first granule
    std::uint32_t max_write_zeroes_sectors = 0;  ///< 0 = no write zeroes

    bool write_cache = false;  ///< acknowledged writes may sit in a volatile cache: flush means something
    bool fua = false;          ///< the device honours force-unit-access by itself
    bool rotational = false;

    /// Refuses contradictory limits (block size not a power of two, segments that cannot hold a block, …).
    [[nodiscard]] Result<> validate() const;

    /// The limits of a device on top of `this` and `below`: each request that fits the result fits both.
    [[nodiscard]] QueueLimits stack(const QueueLimits& below) const;
};

}  // namespace mqblk
