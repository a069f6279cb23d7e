// SPDX-License-Identifier: Apache-2.0
//
// What needs no parity, and reads that do. A read goes straight to its members, without a lock; only where one of them
// is missing or cannot be read are the others read under the stripe's lock and the chunk computed. What could not be
// read at its place is written there again.
#include "driver/raid/raid_queue.h"
#include "memory/segments.h"

namespace mqblk::driver::raid {

/// Reads of RAID-6 with all members it needs; everything of RAID-0.
void RaidQueue::direct(StripeWork& work) noexcept {
    const Geometry& g = geometry();
    const Op op = work.request->op;
    work.config = &adopt();
    begin_step(work, &RaidQueue::direct_ended);
    const std::uint64_t at = g.chunk_offset(work.stripe);
    for (unsigned chunk = 0; chunk < g.data; ++chunk) {
        const Extent extent = extent_of(work, chunk);
        if (extent.bytes == 0) continue;
        const Segments pieces = carries_data(op) ? pieces_of(work, chunk) : Segments{};
        send(work, g.member_of(work.stripe, chunk), op, at + extent.offset, extent.bytes, pieces, work.request->flags);
    }
    end_step(work);
}

void RaidQueue::direct_ended(StripeWork& work) noexcept {
    if (work.failed == 0) return finish(work, Status::ok);
    if (array_->level() == 0) {
        // The first that failed says why.
        for (unsigned member = 0; member < geometry().members(); ++member)
            if ((work.failed & bit(member)) != 0)
                return finish(work, channels_[member] == nullptr ? Status::removed : work.bios[member].bio.status);
    }
    work.avoid |= work.failed;
    if (work.lost != 0) array_->report_failed(work.lost, *work.config);
    get_memory(work);
}

/// On RAID-6 a member that cannot flush has failed; what was written is on the others.
void RaidQueue::flush(StripeWork& work) noexcept {
    work.config = &adopt();
    begin_step(work, &RaidQueue::flush_ended);
    for (unsigned member = 0; member < geometry().members(); ++member)
        if ((work.config->written() & bit(member)) != 0) send(work, member, Op::flush, 0, 0, {}, 0);
    end_step(work);
}

void RaidQueue::flush_ended(StripeWork& work) noexcept {
    if (work.failed == 0) return finish(work, Status::ok);
    if (array_->level() == 0) return finish(work, Status::io_error);
    work.then = nullptr;  // done as soon as they are left out: the keeper flushes all others for that
    await_configuration(work);
}

const Recovery* RaidQueue::recovery(Mask available, Mask lost) noexcept {
    for (const Known& each : known_)
        if (each.recovery && each.available == available && each.lost == lost) return &*each.recovery;
    Known& slot = known_[next_known_++ % known_.size()];
    slot = {available, lost, Recovery::make(geometry().data, available, lost)};
    return slot.recovery ? &*slot.recovery : nullptr;
}

/// With the stripe's lock, inside the gate.
void RaidQueue::recover_read(StripeWork& work) noexcept {
    const Geometry& g = geometry();
    const Mask available = g.places_of(work.stripe, work.config->in_sync & ~work.avoid);
    Mask lost = 0;
    for (unsigned chunk = 0; chunk < g.data; ++chunk)
        if (work.touches(chunk, g.chunk) && (available & bit(chunk)) == 0) lost |= bit(chunk);
    const Recovery* const how = recovery(available, lost);
    if (how == nullptr) return finish(work, Status::medium_error);
    begin_step(work, &RaidQueue::recover_read_ended);
    for (unsigned place = 0; place < g.members(); ++place)
        if ((how->sources() & bit(place)) != 0)
            send_area(work, g.member_of(work.stripe, place), Op::read, area(work, place));
    end_step(work);
}

void RaidQueue::recover_read_ended(StripeWork& work) noexcept {
    const Geometry& g = geometry();
    if (work.failed != 0) {
        work.avoid |= work.failed;
        if (work.lost != 0) array_->report_failed(work.lost, *work.config);
        return recover_read(work);
    }
    const Mask available = g.places_of(work.stripe, work.config->in_sync & ~work.avoid);
    Mask lost = 0;
    for (unsigned chunk = 0; chunk < g.data; ++chunk)
        if (work.touches(chunk, g.chunk) && (available & bit(chunk)) == 0) lost |= bit(chunk);
    std::array<std::byte*, max_members> chunks{};
    for (unsigned place = 0; place < g.members(); ++place) chunks[place] = area(work, place);
    recovery(available, lost)->apply(chunks.data(), work.high - work.low);
    counters.add(Counters::reconstructed_reads);
    for (unsigned chunk = 0; chunk < g.data; ++chunk) {
        const Extent extent = extent_of(work, chunk);
        if (extent.bytes == 0) continue;
        const std::byte* const from = chunks[chunk] + (extent.offset - work.low);
        memory::copy(pieces_of(work, chunk), std::span(from, extent.bytes));
    }
    // Members that are still in the array and only could not read: what they lost is written again.
    begin_step(work, &RaidQueue::repair_ended);
    for (unsigned chunk = 0; chunk < g.data; ++chunk) {
        const unsigned member = g.member_of(work.stripe, chunk);
        if ((lost & bit(chunk)) == 0 || (work.avoid & work.config->in_sync & bit(member)) == 0) continue;
        if ((array_->failures() & bit(member)) != 0) continue;
        counters.add(Counters::repaired_chunks);
        send_area(work, member, Op::write, chunks[chunk]);
    }
    end_step(work);
}

void RaidQueue::repair_ended(StripeWork& work) noexcept {
    if (work.failed != 0) array_->report_failed(work.failed, *work.config);
    finish(work, Status::ok);
}

}  // namespace mqblk::driver::raid
