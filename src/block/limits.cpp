// SPDX-License-Identifier: Apache-2.0
//
// Queue limits: which sets of them make sense, and what remains when one device stands on another. Stacking is exact:
// each request that fits the result fits both. Where no useful request fits both, validate() refuses the result.
// Follows blk-settings' rules for the same names.
#include <mqblk/limits.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace mqblk {

namespace {

constexpr std::uint64_t limit_sector_bytes = 512;

constexpr bool is_mask(std::uint64_t mask) {
    return (mask & (mask + 1)) == 0;
}

std::unexpected<Error> refuse(std::string message) {
    return fail(Errc::invalid_argument, std::move(message));
}

Result<> validate_sizes(const QueueLimits& q) {
    if (!std::has_single_bit(q.logical_block_size) || q.logical_block_size < limit_sector_bytes) {
        return refuse(fmt::format("logical_block_size={}: must be a power of two, 512 or more", q.logical_block_size));
    }
    if (!std::has_single_bit(q.physical_block_size) || q.physical_block_size < q.logical_block_size) {
        return refuse(fmt::format("physical_block_size={}: must be a power of two and at least logical_block_size={}",
                                  q.physical_block_size, q.logical_block_size));
    }
    if (q.io_min < q.physical_block_size || q.io_min % q.logical_block_size != 0) {
        return refuse(
            fmt::format("io_min={}: must be at least physical_block_size={} and a multiple of "
                        "logical_block_size={}",
                        q.io_min, q.physical_block_size, q.logical_block_size));
    }
    if (q.io_opt % q.logical_block_size != 0) {
        return refuse(
            fmt::format("io_opt={}: must be a multiple of logical_block_size={}", q.io_opt, q.logical_block_size));
    }
    if (q.alignment_offset >= q.physical_block_size || q.alignment_offset % q.logical_block_size != 0) {
        return refuse(
            fmt::format("alignment_offset={}: must be below physical_block_size={} and a multiple of "
                        "logical_block_size={}",
                        q.alignment_offset, q.physical_block_size, q.logical_block_size));
    }
    if (q.max_sectors * limit_sector_bytes < q.logical_block_size) {
        return refuse(fmt::format("max_sectors={}: must hold one block of logical_block_size={}", q.max_sectors,
                                  q.logical_block_size));
    }
    if (q.chunk_sectors * limit_sector_bytes % q.logical_block_size != 0) {
        return refuse(fmt::format("chunk_sectors={}: must be whole blocks of logical_block_size={}", q.chunk_sectors,
                                  q.logical_block_size));
    }
    return {};
}

Result<> validate_segments(const QueueLimits& q) {
    if (!is_mask(q.dma_alignment) || q.dma_alignment >= q.logical_block_size) {
        return refuse(fmt::format("dma_alignment={:#x}: must be a power of two minus one, below logical_block_size={}",
                                  q.dma_alignment, q.logical_block_size));
    }
    if (!is_mask(q.seg_boundary_mask) || q.seg_boundary_mask < q.dma_alignment) {
        return refuse(
            fmt::format("seg_boundary_mask={:#x}: must be a power of two minus one, and not below "
                        "dma_alignment={:#x}",
                        q.seg_boundary_mask, q.dma_alignment));
    }
    if (!is_mask(q.virt_boundary_mask)) {
        return refuse(fmt::format("virt_boundary_mask={:#x}: must be a power of two minus one", q.virt_boundary_mask));
    }
    if (q.max_segment_size != QueueLimits::unlimited && (q.max_segment_size & q.dma_alignment) != 0) {
        return refuse(fmt::format("max_segment_size={}: must be a multiple of dma_alignment+1={}", q.max_segment_size,
                                  q.dma_alignment + 1));
    }
    if (std::uint64_t{q.max_segments} * q.max_segment_size < q.logical_block_size) {
        return refuse(
            fmt::format("max_segments={} of max_segment_size={}: cannot hold one block of "
                        "logical_block_size={}",
                        q.max_segments, q.max_segment_size, q.logical_block_size));
    }
    return {};
}

Result<> validate_ranges(const QueueLimits& q) {
    if (q.discard_granularity % q.logical_block_size != 0 || q.discard_alignment % q.logical_block_size != 0) {
        return refuse(
            fmt::format("discard_granularity={} discard_alignment={}: must be multiples of "
                        "logical_block_size={}",
                        q.discard_granularity, q.discard_alignment, q.logical_block_size));
    }
    const std::uint64_t granule = std::max(q.discard_granularity, q.logical_block_size);
    if (q.max_discard_sectors != 0 && q.max_discard_sectors * limit_sector_bytes < granule) {
        return refuse(fmt::format("max_discard_sectors={}: must hold one granule of {} bytes, or be 0 for no discard",
                                  q.max_discard_sectors, granule));
    }
    if (q.max_write_zeroes_sectors != 0 && q.max_write_zeroes_sectors * limit_sector_bytes < q.logical_block_size) {
        return refuse(
            fmt::format("max_write_zeroes_sectors={}: must hold one block of logical_block_size={}, or be 0 "
                        "for no write zeroes",
                        q.max_write_zeroes_sectors, q.logical_block_size));
    }
    return {};
}

/// Least common multiple where 0 means "none stated"; 0 if it does not fit 32 bits.
std::uint32_t common_multiple(std::uint32_t a, std::uint32_t b) {
    if (a == 0 || b == 0) return a | b;
    const std::uint64_t result = std::lcm(std::uint64_t{a}, std::uint64_t{b});
    return result > QueueLimits::unlimited ? 0 : static_cast<std::uint32_t>(result);
}

/// A grid of `size` bytes that starts at `offset`.
struct Grid {
    std::uint32_t size, offset;
};

/// The offset of the common grid of size `size`: the coarser one's where its lines lie on the finer one's, else 0.
std::uint32_t common_offset(Grid a, Grid b, std::uint32_t size) {
    if (a.size < b.size) std::swap(a, b);
    if (size == 0) return 0;
    const bool meet = b.size == 0 || (a.offset % b.size) == (b.offset % b.size);
    return meet ? a.offset % size : 0;
}

void stack_discard(QueueLimits& top, const QueueLimits& a, const QueueLimits& b) {
    const std::uint32_t size = common_multiple(a.discard_granularity, b.discard_granularity);
    const std::uint32_t granularity = size == 0 ? std::max(a.discard_granularity, b.discard_granularity)
                                                : common_multiple(size, top.logical_block_size);
    top.discard_alignment = common_offset({a.discard_granularity, a.discard_alignment},
                                          {b.discard_granularity, b.discard_alignment}, granularity);
    top.discard_alignment -= top.discard_alignment % top.logical_block_size;
    top.discard_granularity = granularity;
    top.max_discard_sectors = std::min(a.max_discard_sectors, b.max_discard_sectors);
    const std::uint64_t granule = std::max(granularity, top.logical_block_size);
    if (top.max_discard_sectors * limit_sector_bytes < granule) top.max_discard_sectors = 0;
    if (top.max_discard_sectors == 0) top.discard_granularity = top.discard_alignment = 0;
}

}  // namespace

Result<> QueueLimits::validate() const {
    if (auto sizes = validate_sizes(*this); !sizes) return sizes;
    if (auto segments = validate_segments(*this); !segments) return segments;
    return validate_ranges(*this);
}

QueueLimits QueueLimits::stack(const QueueLimits& below) const {
    QueueLimits top;
    top.logical_block_size = std::max(logical_block_size, below.logical_block_size);
    top.physical_block_size = std::max({physical_block_size, below.physical_block_size, top.logical_block_size});
    top.io_min = std::max({io_min, below.io_min, top.physical_block_size});
    top.io_opt = common_multiple(io_opt, below.io_opt);
    if (top.io_opt % top.logical_block_size != 0) top.io_opt = 0;
    top.alignment_offset = common_offset({physical_block_size, alignment_offset},
                                         {below.physical_block_size, below.alignment_offset}, top.physical_block_size);
    if (top.alignment_offset % top.logical_block_size != 0) top.alignment_offset = 0;

    top.max_sectors = std::min(max_sectors, below.max_sectors);
    top.chunk_sectors = std::gcd(chunk_sectors, below.chunk_sectors);
    top.max_segments = std::min(max_segments, below.max_segments);
    top.seg_boundary_mask = std::min(seg_boundary_mask, below.seg_boundary_mask);
    top.virt_boundary_mask = std::max(virt_boundary_mask, below.virt_boundary_mask);
    top.dma_alignment = std::max(dma_alignment, below.dma_alignment);
    top.max_segment_size = std::min(max_segment_size, below.max_segment_size);
    if (top.max_segment_size != unlimited) top.max_segment_size &= ~top.dma_alignment;

    stack_discard(top, *this, below);
    top.max_write_zeroes_sectors = std::min(max_write_zeroes_sectors, below.max_write_zeroes_sectors);
    if (top.max_write_zeroes_sectors * limit_sector_bytes < top.logical_block_size) top.max_write_zeroes_sectors = 0;

    // A device without a cache honours FUA by nature.
    top.write_cache = write_cache || below.write_cache;
    const bool both = fua && below.fua;
    top.fua = both || (top.write_cache && (fua || !write_cache) && (below.fua || !below.write_cache));
    top.rotational = rotational || below.rotational;
    return top;
}

}  // namespace mqblk
