// SPDX-License-Identifier: Apache-2.0
//
// P and Q of a write, from what was read before and the caller's memory, which is used where it lies unless it is so
// unaligned that a copy is faster.
#include "driver/raid/raid_queue.h"
#include "memory/segments.h"

#include <algorithm>

namespace mqblk::driver::raid {

void RaidQueue::compute(StripeWork& work) noexcept {
    using Method = StripeWork::Method;
    const Geometry& g = geometry();
    const Mask writable = g.places_of(work.stripe, work.config->written());
    std::byte* const p = (writable & bit(g.data)) != 0 ? area(work, g.data) : nullptr;
    std::byte* const q = (writable & bit(g.data + 1)) != 0 ? area(work, g.data + 1) : nullptr;
    if (p == nullptr && q == nullptr) return;
    switch (work.method) {
        case Method::whole:
            return compute_whole(work, p, q);
        case Method::modify:
            return compute_modify(work, p, q);
        case Method::reconstruct:
        case Method::recover:
            return compute_reconstruct(work, p, q);
        default:
            return;
    }
}

/// Runs of columns for which each chunk is one piece of memory.
void RaidQueue::compute_whole(StripeWork& work, std::byte* p, std::byte* q) noexcept {
    const Geometry& g = geometry();
    if (!work.compact) return compute_reconstruct(work, p, q);
    std::array<const Segment*, max_data> piece;
    std::array<const std::byte*, max_data> from;
    std::array<std::size_t, max_data> left;
    for (unsigned chunk = 0; chunk < g.data; ++chunk) {
        piece[chunk] = work.pieces + work.first_piece[chunk];
        from[chunk] = piece[chunk]->data;
        left[chunk] = piece[chunk]->bytes;
    }
    for (std::size_t done = 0; done < g.chunk;) {
        std::size_t run = g.chunk - done;
        for (unsigned chunk = 0; chunk < g.data; ++chunk) run = std::min(run, left[chunk]);
        array_->parity().generate(from.data(), p == nullptr ? p : p + done, q == nullptr ? q : q + done, run);
        done += run;
        if (done == g.chunk) return;
        for (unsigned chunk = 0; chunk < g.data; ++chunk) {
            from[chunk] += run;
            left[chunk] -= run;
            if (left[chunk] != 0) continue;
            ++piece[chunk];
            from[chunk] = piece[chunk]->data;
            left[chunk] = piece[chunk]->bytes;
        }
    }
}

/// P and Q lose what the data were and gain what they become.
void RaidQueue::compute_modify(StripeWork& work, std::byte* p, std::byte* q) noexcept {
    const Geometry& g = geometry();
    for (unsigned chunk = 0; chunk < g.data; ++chunk) {
        const Extent extent = extent_of(work, chunk);
        if (extent.bytes == 0) continue;
        std::size_t at = extent.offset - work.low;
        const auto change = [&](const std::byte* by, std::size_t bytes) {
            array_->parity().update(chunk, by, p == nullptr ? p : p + at, q == nullptr ? q : q + at, bytes);
        };
        change(area(work, chunk) + at, extent.bytes);
        for (const Segment& piece : pieces_of(work, chunk)) {
            change(piece.data, piece.bytes);
            at += piece.bytes;
        }
    }
}

/// All data of these columns together: what was read or recovered, and over it what is written.
void RaidQueue::compute_reconstruct(StripeWork& work, std::byte* p, std::byte* q) noexcept {
    const Geometry& g = geometry();
    std::array<std::byte*, max_members> chunks{};
    for (unsigned place = 0; place < g.members(); ++place) chunks[place] = area(work, place);
    if (work.method == StripeWork::Method::recover) {
        const Mask readable = g.places_of(work.stripe, work.config->in_sync & ~work.avoid);
        recovery(readable, first_bits(g.data) & ~readable)->apply(chunks.data(), work.high - work.low);
    }
    for (unsigned chunk = 0; chunk < g.data; ++chunk) {
        const Extent extent = extent_of(work, chunk);
        if (extent.bytes == 0) continue;
        memory::copy(std::span(chunks[chunk] + (extent.offset - work.low), extent.bytes), pieces_of(work, chunk));
    }
    array_->parity().generate(chunks.data(), p, q, work.high - work.low);
}

}  // namespace mqblk::driver::raid
