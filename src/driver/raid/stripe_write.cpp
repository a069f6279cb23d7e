// SPDX-License-Identifier: Apache-2.0
//
// A write of a RAID-6 stripe, or of a part of it: what is read before, what goes to the journal, what goes to the
// members. Whichever way reads least is taken: read-modify-write (the data replaced, P and Q), reconstruct-write (the
// data that stay) or, where a member that must be read is missing, recovery of the stripe from those that are left.
#include "base/crc32c.h"
#include "driver/raid/raid_queue.h"
#include "memory/segments.h"

#include <bit>
#include <cassert>

namespace mqblk::driver::raid {

/// With the stripe's lock, inside the gate, each time that it gets there.
void RaidQueue::begin_write(StripeWork& work) noexcept {
    if (work.config->journal ? take_entry(work) : mark_region(work)) plan_write(work);
}

/// False: it waits, outside the gate.
bool RaidQueue::mark_region(StripeWork& work) noexcept {
    const std::uint32_t generation = array_->regions.generation();
    if (work.region >= 0 && work.region_generation == generation) return true;
    const auto region = static_cast<std::uint32_t>(work.stripe / geometry().region_stripes);
    if (array_->regions.begin(region)) {
        work.region = region;
        work.region_generation = generation;
        return true;
    }
    leave_gate(work);
    work.wait = StripeWork::Wait::region;
    array_->want_region(region, work.waiter);
    return false;
}

bool RaidQueue::take_entry(StripeWork& work) noexcept {
    if (work.journal >= 0) return true;
    // It may be told before take() has returned, so it is outside by then.
    leave_gate(work);
    work.wait = StripeWork::Wait::journal;
    const auto sequence = array_->journal.take(work.waiter);
    if (!sequence) return false;
    work.journal = static_cast<std::int64_t>(*sequence);
    enter_gate(work);
    return false;
}

void RaidQueue::plan_write(StripeWork& work) noexcept {
    using Method = StripeWork::Method;
    const Geometry& g = geometry();
    const Mask readable = g.places_of(work.stripe, work.config->in_sync & ~work.avoid);
    const Mask writable = g.places_of(work.stripe, work.config->written());
    const Mask parity = bit(g.data) | bit(g.data + 1);
    const std::uint64_t columns = work.high - work.low;
    std::uint64_t modify_cost = std::popcount(writable & parity) * columns, reconstruct_cost = 0;
    bool may_modify = (writable & parity & ~readable) == 0, may_reconstruct = true;
    for (unsigned chunk = 0; chunk < g.data; ++chunk) {
        const Extent extent = extent_of(work, chunk);
        const bool is_readable = (readable & bit(chunk)) != 0;
        if (extent.bytes != 0) {
            may_modify &= is_readable;
            modify_cost += extent.bytes;
        }
        if (extent.bytes != columns) {
            may_reconstruct &= is_readable;
            reconstruct_cost += columns;
        }
    }
    if (is_whole(work)) {
        work.method = Method::whole;
    } else if ((writable & parity) == 0) {
        work.method = Method::plain;
    } else if (may_modify && (!may_reconstruct || modify_cost <= reconstruct_cost)) {
        work.method = Method::modify;
    } else if (may_reconstruct) {
        work.method = Method::reconstruct;
    } else {
        work.method = Method::recover;
        Mask lost = first_bits(g.data) & ~readable;
        if (recovery(readable, lost) == nullptr) return finish(work, Status::io_error);
    }
    read_before(work);
}

void RaidQueue::read_before(StripeWork& work) noexcept {
    using Method = StripeWork::Method;
    const Geometry& g = geometry();
    const Mask readable = g.places_of(work.stripe, work.config->in_sync & ~work.avoid);
    const Mask writable = g.places_of(work.stripe, work.config->written());
    begin_step(work, &RaidQueue::read_before_ended);
    const auto read_place = [&](unsigned place) {
        send_area(work, g.member_of(work.stripe, place), Op::read, area(work, place));
    };
    if (work.method == Method::recover) {
        const Mask sources = recovery(readable, first_bits(g.data) & ~readable)->sources();
        for (unsigned place = 0; place < g.members(); ++place)
            if ((sources & bit(place)) != 0) read_place(place);
    }
    for (unsigned chunk = 0; chunk < g.data; ++chunk) {
        const Extent extent = extent_of(work, chunk);
        if (work.method == Method::reconstruct && extent.bytes != work.high - work.low) read_place(chunk);
        if (work.method != Method::modify || extent.bytes == 0) continue;
        const unsigned member = g.member_of(work.stripe, chunk);
        MemberBio& each = work.bios[member];
        each.piece = {area(work, chunk) + (extent.offset - work.low), extent.bytes};
        send(work, member, Op::read, g.chunk_offset(work.stripe) + extent.offset, extent.bytes, {&each.piece, 1}, 0);
    }
    if (work.method == Method::modify) {
        for (const unsigned place : {g.data, g.data + 1})
            if ((writable & bit(place)) != 0) read_place(place);
    }
    end_step(work);
}

void RaidQueue::read_before_ended(StripeWork& work) noexcept {
    using Method = StripeWork::Method;
    if (work.failed != 0) {
        work.avoid |= work.failed;
        if (work.lost != 0) array_->report_failed(work.lost, *work.config);
        return plan_write(work);
    }
    switch (work.method) {
        case Method::whole:
            counters.add(Counters::full_stripe_writes);
            break;
        case Method::modify:
            counters.add(Counters::read_modify_writes);
            break;
        case Method::reconstruct:
        case Method::recover:
            counters.add(Counters::reconstruct_writes);
            break;
        default:
            break;
    }
    compute(work);
    if (work.config->journal) return write_journal(work);
    write_members(work);
}

/// What the write puts where, and all of it, on so many members that any two more may be lost at once with the power.
void RaidQueue::write_journal(StripeWork& work) noexcept {
    const Geometry& g = geometry();
    const Mask writable = work.config->written();
    JournalHead head;
    head.uuid = array_->uuid();
    head.epoch = work.config->epoch;
    head.sequence = static_cast<std::uint64_t>(work.journal);
    head.stripe = work.stripe;
    Segment* list = work.journal_pieces;
    std::uint32_t count = 1;
    for (unsigned place = 0; place < g.members(); ++place) {
        const unsigned member = g.member_of(work.stripe, place);
        if ((writable & bit(member)) == 0) continue;
        const Extent extent = place < g.data ? extent_of(work, place) : Extent{work.low, work.high - work.low};
        if (extent.bytes == 0) continue;
        head.pieces[head.count++] = {member, extent.offset, extent.bytes};
        if (place < g.data) {
            for (const Segment& piece : pieces_of(work, place)) list[count++] = piece;
        } else {
            list[count++] = {area(work, place), extent.bytes};
        }
    }
    Crc32c crc;
    crc.update(Segments(list + 1, count - 1));
    head.data_crc = crc.value();
    std::byte* const block = work.memory.data + memory_bytes(work) - Geometry::block;
    head.encode(Block(block, Geometry::block));
    list[0] = {block, Geometry::block};

    counters.add(Counters::journaled_writes);
    begin_step(work, &RaidQueue::journal_ended);
    const unsigned missing = g.members() - static_cast<unsigned>(std::popcount(work.config->in_sync));
    unsigned copies = 3 - std::min(missing, 2u);
    const std::uint64_t at = g.slot_offset(head.sequence), bytes = Geometry::block + head.data_bytes();
    for (unsigned i = 0; i < g.members() && copies > 0; ++i) {
        const auto member = static_cast<unsigned>((head.sequence + i) % g.members());
        if ((work.config->in_sync & bit(member)) == 0) continue;
        --copies;
        send(work, member, Op::write, at, bytes, Segments(list, count), bio_fua);
    }
    end_step(work);
}

void RaidQueue::journal_ended(StripeWork& work) noexcept {
    // Nothing was written in place yet: it begins again with whoever is left.
    if (work.failed != 0) return await_configuration(work);
    write_members(work);
}

void RaidQueue::write_members(StripeWork& work) noexcept {
    const Geometry& g = geometry();
    const std::uint8_t flags = work.config->journal ? bio_fua : 0;
    const std::uint64_t at = g.chunk_offset(work.stripe);
    begin_step(work, &RaidQueue::write_ended);
    for (unsigned place = 0; place < g.members(); ++place) {
        const unsigned member = g.member_of(work.stripe, place);
        if ((work.config->written() & bit(member)) == 0) continue;
        if (place < g.data) {
            const Extent extent = extent_of(work, place);
            if (extent.bytes != 0)
                send(work, member, Op::write, at + extent.offset, extent.bytes, pieces_of(work, place), flags);
        } else {
            MemberBio& each = work.bios[member];
            each.piece = {area(work, place), work.high - work.low};
            send(work, member, Op::write, at + work.low, each.piece.bytes, {&each.piece, 1}, flags);
        }
    }
    end_step(work);
}

void RaidQueue::write_ended(StripeWork& work) noexcept {
    if (work.failed == 0) return finish(work, Status::ok);
    work.then = nullptr;  // the stripe is as it should be on all others
    await_configuration(work);
}

}  // namespace mqblk::driver::raid
