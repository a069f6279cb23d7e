// SPDX-License-Identifier: Apache-2.0
//
// Where a bio is cut. One rule for every limit in QueueLimits, always from the front: the piece that comes next is as
// long as the limits allow, rounded down to physical blocks where that leaves anything, else to logical blocks. The
// manner is blk-merge's; the property test is against a byte-level model.
#pragma once

#include <mqblk/bio.h>
#include <mqblk/limits.h>

#include <cstdint>

namespace mqblk::block {

/// The longest memory piece, kept to the alignment: `unlimited` itself is no multiple of anything.
[[nodiscard]] constexpr std::uint64_t max_piece_bytes(const QueueLimits& limits) noexcept {
    return limits.max_segment_size & ~limits.dma_alignment;
}

/// The next piece of a bio that has issued `bio.progress` so far.
struct Cut {
    std::uint64_t sectors = 0;   ///< 0: nothing can be cut; `status` says why
    std::uint32_t segments = 0;  ///< memory pieces after max_segment_size and the boundaries are applied
    Status status = Status::ok;  ///< invalid: a piece violates the alignment, or one block needs too many segments
};

/// Never blocks or allocates. Fast when the whole bio fits. Flushes are not cut.
[[nodiscard]] Cut next_cut(const QueueLimits& limits, const Bio& bio) noexcept;

/// Moves `bio.progress` over `sectors`.
void advance(Bio& bio, std::uint64_t sectors) noexcept;

/// What can be said of a bio before anything is done: block alignment, range, operation offered, write protection, data
/// length equal to sectors, memory alignment. All but a flush must have sectors; a flush has nothing to check.
[[nodiscard]] Status check(const QueueLimits& limits, std::uint64_t device_sectors, bool read_only,
                           const Bio&) noexcept;

/// What a request covers, for the merge decision.
struct Extent {
    Op op;
    std::uint8_t flags;
    std::uint64_t sector, sectors;
    std::uint32_t segments;
    const Bio* last;  ///< its last bio: the gap rule looks at the last segment
    const Bio* first;
};
/// Whether `bio`, whole and uncut, may be appended to the extent (back merge) or put before it (front merge), with all
/// limits kept. On success `segments` is the merged count.
[[nodiscard]] bool may_merge_back(const QueueLimits&, const Extent&, const Bio&, std::uint32_t& segments) noexcept;
[[nodiscard]] bool may_merge_front(const QueueLimits&, const Extent&, const Bio&, std::uint32_t& segments) noexcept;

}  // namespace mqblk::block
