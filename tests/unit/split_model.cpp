// SPDX-License-Identifier: Apache-2.0
#include "unit/split_model.h"

#include <algorithm>

namespace mqblk::test {

std::vector<ModelByte> bytes_of(const std::vector<const Bio*>& bios) {
    std::vector<ModelByte> result;
    std::size_t number = 0;
    for (const Bio* bio : bios) {
        for (const Segment& segment : bio->data) {
            ++number;
            for (std::size_t i = 0; i < segment.bytes; ++i) {
                result.push_back({reinterpret_cast<std::uintptr_t>(segment.data) + i, number});
            }
        }
    }
    return result;
}

namespace {

/// Whether a request may end after `bytes` bytes that do not reach the end of the bio.
bool ends_physically(const QueueLimits& limits, std::uint64_t end) {
    return end >= limits.alignment_offset && (end - limits.alignment_offset) % limits.physical_block_size == 0;
}

}  // namespace

ModelCut longest_request(const QueueLimits& limits, const std::vector<ModelByte>& memory, std::size_t from,
                         std::uint64_t position) {
    const std::uint64_t max_bytes = std::uint64_t{limits.max_sectors} * 512;
    const std::uint64_t chunk = std::uint64_t{limits.chunk_sectors} * 512;
    std::uint64_t piece_limit = limits.max_segment_size;
    while ((piece_limit & limits.dma_alignment) != 0) --piece_limit;

    ModelCut cut;
    std::vector<std::size_t> pieces_after;  // how many pieces the first n+1 bytes need
    std::size_t at = from;
    for (; at < memory.size(); ++at) {
        const std::uint64_t done = at - from;
        if (done == max_bytes) break;
        if (chunk != 0 && done != 0 && (position + done) % chunk == 0) break;
        const ModelByte& byte = memory[at];
        const bool first = cut.pieces.empty();
        const bool new_piece = first || byte.segment != memory[at - 1].segment ||
                               cut.pieces.back().bytes == piece_limit || (byte.address & limits.seg_boundary_mask) == 0;
        if (new_piece) {
            if (!first && limits.virt_boundary_mask != 0) {
                const std::uint64_t grid = limits.virt_boundary_mask + 1;
                if ((memory[at - 1].address + 1) % grid != 0 || byte.address % grid != 0) break;
            }
            if (cut.pieces.size() == limits.max_segments) break;
            cut.pieces.push_back({byte.address, 0});
        }
        ++cut.pieces.back().bytes;
    }

    std::uint64_t bytes = at - from;
    if (at != memory.size()) {
        std::uint64_t physical = bytes;
        while (physical > 0 && !ends_physically(limits, position + physical)) --physical;
        if (physical > 0) bytes = physical;
        while (bytes % limits.logical_block_size != 0) --bytes;
    }
    std::uint64_t excess = (at - from) - bytes;
    while (excess > 0) {
        const std::uint64_t last = std::min(excess, cut.pieces.back().bytes);
        cut.pieces.back().bytes -= last;
        excess -= last;
        if (cut.pieces.back().bytes == 0) cut.pieces.pop_back();
    }
    cut.bytes = bytes;
    return cut;
}

namespace {

std::uint32_t power(Random& random, unsigned low, unsigned high) {
    return std::uint32_t{1} << (low + random.below(high - low + 1));
}

QueueLimits draw_limits(Random& random) {
    const auto chance = [&](unsigned percent) { return random.below(100) < percent; };
    QueueLimits limits;
    limits.logical_block_size = chance(70) ? 512 : power(random, 10, 12);
    limits.physical_block_size = limits.logical_block_size * power(random, 0, 3);
    limits.io_min = limits.physical_block_size;
    const std::uint32_t block_sectors = limits.logical_block_size / 512;
    if (chance(20)) {
        limits.alignment_offset = static_cast<std::uint32_t>(
            random.below(limits.physical_block_size / limits.logical_block_size) * limits.logical_block_size);
    }
    if (chance(50)) limits.max_sectors = static_cast<std::uint32_t>(block_sectors + random.below(40));
    if (chance(40)) limits.chunk_sectors = static_cast<std::uint32_t>((1 + random.below(24)) * block_sectors);
    if (chance(60)) limits.dma_alignment = power(random, 0, 9) - 1;
    if (chance(60)) limits.max_segments = static_cast<std::uint32_t>(1 + random.below(chance(50) ? 8 : 200));
    if (chance(50)) {
        const std::uint32_t unit = limits.dma_alignment + 1;
        limits.max_segment_size = static_cast<std::uint32_t>((1 + random.below(chance(50) ? 8 : 4096)) * unit);
    }
    if (chance(40)) limits.seg_boundary_mask = power(random, 4, 14) - 1;
    if (chance(40)) limits.virt_boundary_mask = power(random, 0, 12) - 1;
    if (chance(80)) {
        limits.discard_granularity = static_cast<std::uint32_t>(random.below(9) * limits.logical_block_size);
        limits.discard_alignment = static_cast<std::uint32_t>(random.below(9) * limits.logical_block_size);
        limits.max_discard_sectors = static_cast<std::uint32_t>(block_sectors + random.below(200));
    }
    if (chance(80)) limits.max_write_zeroes_sectors = static_cast<std::uint32_t>(block_sectors + random.below(200));
    limits.write_cache = chance(50);
    limits.fua = chance(50);
    return limits;
}

}  // namespace

QueueLimits random_limits(Random& random) {
    for (;;) {
        const QueueLimits limits = draw_limits(random);
        if (limits.validate()) return limits;
    }
}

void random_bio(Random& random, const QueueLimits& limits, std::uint64_t max_bytes, OwnedBio& result) {
    const auto chance = [&](unsigned percent) { return random.below(100) < percent; };
    const std::uint64_t unit = std::uint64_t{limits.dma_alignment} + 1;
    const std::uint64_t block = limits.logical_block_size;
    const std::uint64_t bytes = (1 + random.below(std::max<std::uint64_t>(max_bytes / block, 1))) * block;
    constexpr std::size_t max_pieces = 4096;
    const std::uint64_t sizes[] = {unit, 2 * unit, 16 * unit, block, 8 * block, bytes};
    const std::uint64_t usual = sizes[random.below(std::size(sizes))];
    const std::uint64_t grids[] = {limits.virt_boundary_mask + 1, limits.seg_boundary_mask / 2 + 1, 4096};

    result.segments.clear();
    std::uint64_t left = bytes;
    std::uint64_t address = (1 + random.below(1 << 20)) * unit;
    while (left > 0) {
        const std::uint64_t piece = std::max(std::min(left, (1 + random.below(usual)) / unit * unit), unit);
        if (chance(70)) {
            // Somewhere new, often on a line or a unit beside one.
            const std::uint64_t grid = grids[random.below(std::size(grids))];
            address = (1 + random.below(1 << 16)) * 4096;
            if (grid > unit && grid < (1u << 20)) address += grid;
            if (chance(40)) address -= unit;
            if (chance(20)) address += random.below(4096) / unit * unit;
        }
        if (chance(5)) result.segments.push_back({reinterpret_cast<std::byte*>(address + 1), 0});
        const bool rest = result.segments.size() + 1 >= max_pieces - 1;
        const std::uint64_t taken = rest ? left : piece;
        result.segments.push_back({reinterpret_cast<std::byte*>(address), taken});
        address += taken;
        left -= taken;
    }
    if (chance(10)) result.segments.push_back({reinterpret_cast<std::byte*>(address + 1), 0});
    result.bio = Bio{};
    result.bio.op = chance(50) ? Op::read : Op::write;
    result.bio.sector = random.below(1 << 12) * (block / 512);
    result.bio.sectors = bytes / 512;
    result.bio.data = result.segments;
}

}  // namespace mqblk::test
