// SPDX-License-Identifier: Apache-2.0
//
// Cutting and merging. Both rest on one walk over the memory of a bio, which yields the same pieces as
// Request::for_each_segment; any prefix of a piece that fits also fits, so the longest fit can be shortened freely.
// Follows the rules of Linux's blk-merge, with one difference: what fits whole is never cut to a physical block.
#include "block/split.h"

#include <algorithm>

namespace mqblk::block {

namespace {

constexpr std::uint64_t max_device_sectors = ~0ull / sector_bytes;

struct Walked {
    std::uint64_t bytes = 0;
    std::uint32_t segments = 0;
    bool misaligned = false;
};

/// Takes memory from `index`, `offset` on until `max_bytes`, `max_segments` or a gap.
Walked walk(const QueueLimits& limits, Segments data, std::size_t index, std::size_t offset, std::uint64_t max_bytes,
            std::uint32_t max_segments) noexcept {
    const std::uint64_t max_piece = max_piece_bytes(limits);
    const std::uint64_t boundary = limits.seg_boundary_mask;
    Walked result;
    std::uintptr_t end = 0;
    while (result.bytes < max_bytes && index < data.size()) {
        const std::uint64_t room = data[index].bytes - offset;
        if (room == 0) {
            ++index;
            offset = 0;
            continue;
        }
        const auto at = reinterpret_cast<std::uintptr_t>(data[index].data) + offset;
        if (result.segments == max_segments) break;
        if (result.segments != 0 && ((end | at) & limits.virt_boundary_mask) != 0) break;
        std::uint64_t bytes = std::min({room, max_bytes - result.bytes, max_piece});
        const std::uint64_t to_boundary = boundary - (at & boundary);
        if (bytes - 1 > to_boundary) bytes = to_boundary + 1;
        if (((at | bytes) & limits.dma_alignment) != 0) {
            result.misaligned = true;
            break;
        }
        ++result.segments;
        result.bytes += bytes;
        offset += bytes;
        end = at + bytes;
    }
    return result;
}

/// Longest read or write that may start at `sector` as far as the disk is concerned.
std::uint64_t max_data_sectors(const QueueLimits& limits, std::uint64_t sector) noexcept {
    std::uint64_t result = limits.max_sectors;
    if (limits.chunk_sectors != 0)
        result = std::min<std::uint64_t>(result, limits.chunk_sectors - sector % limits.chunk_sectors);
    return result;
}

/// Shortens a cut so that it ends at a physical block, where that leaves anything, else at a logical block.
std::uint64_t round_cut(const QueueLimits& limits, std::uint64_t sector, std::uint64_t sectors) noexcept {
    const std::uint64_t physical = limits.physical_block_size / sector_bytes;
    const std::uint64_t first = limits.alignment_offset / sector_bytes;
    const std::uint64_t end = sector + sectors;
    if (end >= first) {
        const std::uint64_t line = end - (end - first) % physical;
        if (line > sector) return line - sector;
    }
    return sectors - sectors % (limits.logical_block_size / sector_bytes);
}

/// The whole remainder as one piece of memory, within every limit: what nearly every bio is.
bool fits_at_once(const QueueLimits& limits, const Bio& bio, std::uint64_t sector, std::uint64_t left) noexcept {
    const Bio::Progress& from = bio.progress;
    if (from.segment >= bio.data.size() || left > max_data_sectors(limits, sector)) return false;
    const Segment& segment = bio.data[from.segment];
    const std::uint64_t bytes = left * sector_bytes;
    const auto at = reinterpret_cast<std::uintptr_t>(segment.data) + from.segment_offset;
    const std::uint64_t to_boundary = limits.seg_boundary_mask - (at & limits.seg_boundary_mask);
    return bytes <= segment.bytes - from.segment_offset && bytes <= max_piece_bytes(limits) &&
           bytes - 1 <= to_boundary && ((at | bytes) & limits.dma_alignment) == 0;
}

Cut cut_data(const QueueLimits& limits, const Bio& bio, std::uint64_t sector, std::uint64_t left) noexcept {
    if (fits_at_once(limits, bio, sector, left)) return {left, 1, Status::ok};
    const Bio::Progress& from = bio.progress;
    const std::uint64_t most = std::min(left, max_data_sectors(limits, sector));
    const Walked longest =
        walk(limits, bio.data, from.segment, from.segment_offset, most * sector_bytes, limits.max_segments);
    if (longest.misaligned) return {0, 0, Status::invalid};
    if (longest.bytes == left * sector_bytes) return {left, longest.segments, Status::ok};

    const std::uint64_t sectors = round_cut(limits, sector, longest.bytes / sector_bytes);
    if (sectors == 0) return {0, 0, Status::invalid};
    if (sectors * sector_bytes == longest.bytes) return {sectors, longest.segments, Status::ok};
    const Walked shorter =
        walk(limits, bio.data, from.segment, from.segment_offset, sectors * sector_bytes, limits.max_segments);
    return {sectors, shorter.segments, Status::ok};
}

std::uint64_t discard_granule_sectors(const QueueLimits& limits) noexcept {
    return std::max(limits.discard_granularity, limits.logical_block_size) / sector_bytes;
}

std::uint64_t max_discard(const QueueLimits& limits) noexcept {
    return limits.max_discard_sectors - limits.max_discard_sectors % discard_granule_sectors(limits);
}

/// Whole granules at most; where more follows, the next piece starts on a granule.
Cut cut_discard(const QueueLimits& limits, std::uint64_t sector, std::uint64_t left) noexcept {
    const std::uint64_t most = max_discard(limits);
    if (most == 0) return {0, 0, Status::not_supported};
    if (left <= most) return {left, 0, Status::ok};
    const std::uint64_t granule = discard_granule_sectors(limits);
    const std::uint64_t first = limits.discard_alignment / sector_bytes % granule;
    const std::uint64_t past = (sector + most + granule - first) % granule;
    return {most - past, 0, Status::ok};
}

Cut cut_write_zeroes(const QueueLimits& limits, std::uint64_t sector, std::uint64_t left) noexcept {
    const std::uint64_t most = limits.max_write_zeroes_sectors;
    if (most == 0) return {0, 0, Status::not_supported};
    if (left <= most) return {left, 0, Status::ok};
    return {round_cut(limits, sector, most), 0, Status::ok};
}

/// Length and alignment of a bio's memory.
bool memory_matches(const QueueLimits& limits, const Bio& bio) noexcept {
    const std::uint64_t wanted = bio.sectors * sector_bytes;
    std::uint64_t bytes = 0;
    std::uintptr_t bits = 0;
    for (const Segment& segment : bio.data) {
        if (segment.bytes == 0) continue;
        if (segment.bytes > wanted - bytes) return false;
        bytes += segment.bytes;
        bits |= reinterpret_cast<std::uintptr_t>(segment.data) | segment.bytes;
    }
    return bytes == wanted && (bits & limits.dma_alignment) == 0;
}

/// Flushes and forced writes keep a request of their own; zeroing is not merged either, as in Linux.
bool mergeable(Op op, std::uint8_t flags) noexcept {
    return (carries_data(op) || op == Op::discard) && (flags & (bio_fua | bio_preflush | bio_nomerge)) == 0;
}

const Segment* first_piece(const Bio& bio) noexcept {
    for (const Segment& segment : bio.data) {
        if (segment.bytes != 0) return &segment;
    }
    return nullptr;
}

const Segment* last_piece(const Bio& bio) noexcept {
    for (std::size_t i = bio.data.size(); i > 0; --i) {
        if (bio.data[i - 1].bytes != 0) return &bio.data[i - 1];
    }
    return nullptr;
}

bool joins_without_gap(const QueueLimits& limits, const Bio& before, const Bio& after) noexcept {
    if (limits.virt_boundary_mask == 0) return true;
    const Segment* const last = last_piece(before);
    const Segment* const first = first_piece(after);
    if (last == nullptr || first == nullptr) return false;
    const auto end = reinterpret_cast<std::uintptr_t>(last->data) + last->bytes;
    return ((end | reinterpret_cast<std::uintptr_t>(first->data)) & limits.virt_boundary_mask) == 0;
}

/// What both merges share: same kind, size and segments; `start` is where the merged request would begin.
bool may_merge(const QueueLimits& limits, const Extent& extent, const Bio& bio, std::uint64_t start,
               std::uint32_t& segments) noexcept {
    if (extent.op != bio.op || !mergeable(extent.op, extent.flags) || !mergeable(bio.op, bio.flags)) return false;
    const std::uint64_t most = bio.op == Op::discard ? max_discard(limits) : max_data_sectors(limits, start);
    if (extent.sectors > most || bio.sectors > most - extent.sectors) return false;
    if (bio.op == Op::discard) {
        segments = 0;
        return true;
    }
    if (extent.segments >= limits.max_segments) return false;
    const std::uint64_t bytes = bio.sectors * sector_bytes;
    const Walked added = walk(limits, bio.data, 0, 0, bytes, limits.max_segments - extent.segments);
    if (added.bytes != bytes) return false;
    segments = extent.segments + added.segments;
    return true;
}

}  // namespace

Cut next_cut(const QueueLimits& limits, const Bio& bio) noexcept {
    const std::uint64_t left = bio.sectors - bio.progress.issued;
    const std::uint64_t sector = bio.sector + bio.progress.issued;
    if (bio.op == Op::flush || left == 0) return {};
    switch (bio.op) {
        case Op::discard:
            return cut_discard(limits, sector, left);
        case Op::write_zeroes:
            return cut_write_zeroes(limits, sector, left);
        default:
            return cut_data(limits, bio, sector, left);
    }
}

void advance(Bio& bio, std::uint64_t sectors) noexcept {
    Bio::Progress& at = bio.progress;
    at.issued += sectors;
    if (!carries_data(bio.op)) return;
    std::uint64_t bytes = sectors * sector_bytes;
    while (bytes > 0 && at.segment < bio.data.size()) {
        const std::uint64_t room = bio.data[at.segment].bytes - at.segment_offset;
        if (bytes < room) {
            at.segment_offset += bytes;
            return;
        }
        bytes -= room;
        ++at.segment;
        at.segment_offset = 0;
    }
}

Status check(const QueueLimits& limits, std::uint64_t device_sectors, bool read_only, const Bio& bio) noexcept {
    if (bio.op == Op::flush) return Status::ok;
    if (static_cast<unsigned>(bio.op) >= op_count || bio.sectors == 0) return Status::invalid;
    const std::uint64_t block = limits.logical_block_size / sector_bytes;
    if (((bio.sector | bio.sectors) & (block - 1)) != 0) return Status::invalid;
    const std::uint64_t end = std::min(device_sectors, max_device_sectors);
    if (bio.sector > end || bio.sectors > end - bio.sector) return Status::out_of_range;
    if (bio.op == Op::discard && limits.max_discard_sectors == 0) return Status::not_supported;
    if (bio.op == Op::write_zeroes && limits.max_write_zeroes_sectors == 0) return Status::not_supported;
    if (changes_data(bio.op) && read_only) return Status::read_only;
    if (carries_data(bio.op) && !memory_matches(limits, bio)) return Status::invalid;
    return Status::ok;
}

bool may_merge_back(const QueueLimits& limits, const Extent& extent, const Bio& bio, std::uint32_t& segments) noexcept {
    if (extent.sector + extent.sectors != bio.sector) return false;
    if (carries_data(bio.op) && !joins_without_gap(limits, *extent.last, bio)) return false;
    return may_merge(limits, extent, bio, extent.sector, segments);
}

bool may_merge_front(const QueueLimits& limits, const Extent& extent, const Bio& bio,
                     std::uint32_t& segments) noexcept {
    if (bio.sector + bio.sectors != extent.sector) return false;
    if (carries_data(bio.op) && !joins_without_gap(limits, bio, *extent.first)) return false;
    return may_merge(limits, extent, bio, bio.sector, segments);
}

}  // namespace mqblk::block
