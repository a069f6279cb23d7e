// SPDX-License-Identifier: Apache-2.0
//
// After a crash. The journal's last entries are written again, in order: each is the whole of a write to its stripe, so
// writing it twice does no harm; what is older than a turn of the ring was on media before the newest began. Without a
// journal, P and Q of all regions that were being written to are computed anew from their data.
#include "base/crc32c.h"
#include "driver/raid/assemble.h"
#include "memory/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace mqblk::driver::raid {

namespace {

struct Entry {
    unsigned member;
    JournalHead head;
};

std::unexpected<Error> no_memory(const std::string& what, const Error& why) {
    return std::unexpected(why.in(what));
}

}  // namespace

Task<Result<std::uint64_t>> replay_journal(Assembled& array, const std::string& what) {
    const Geometry& g = array.superblock.geometry;
    const Config& config = *array.config;
    auto memory = memory::Buffer::allocate(g.slot_bytes);
    if (!memory) co_return no_memory(what, memory.error());
    std::map<std::uint64_t, Entry> entries;
    for (unsigned member = 0; member < g.members(); ++member) {
        if ((config.in_sync & bit(member)) == 0) continue;
        for (std::uint32_t slot = 0; slot < g.journal_slots; ++slot) {
            const std::uint64_t at = g.slot_offset(slot);
            const Status status = co_await array.io->io(member, Op::read, at, memory->data(), Geometry::block, 0);
            if (status != Status::ok) continue;  // a copy is elsewhere
            const auto head = decode_journal(ConstBlock(memory->data(), Geometry::block), g);
            if (!head || head->uuid != array.superblock.uuid || head->epoch != config.epoch) continue;
            if (head->sequence % g.journal_slots != slot || entries.contains(head->sequence)) continue;
            std::byte* const data = memory->data() + Geometry::block;
            const Status read =
                co_await array.io->io(member, Op::read, at + Geometry::block, data, head->data_bytes(), 0);
            if (read != Status::ok || Crc32c::of(data, head->data_bytes()) != head->data_crc) continue;
            entries.emplace(head->sequence, Entry{member, *head});
        }
    }
    if (entries.empty()) co_return std::uint64_t{1};
    const std::uint64_t newest = entries.rbegin()->first;
    for (const auto& [sequence, entry] : entries) {
        if (newest - sequence >= g.journal_slots) continue;  // of an earlier turn
        std::byte* data = memory->data();
        const JournalHead& head = entry.head;
        const Status read = co_await array.io->io(entry.member, Op::read, g.slot_offset(sequence) + Geometry::block,
                                                  data, head.data_bytes(), 0);
        if (read != Status::ok)
            co_return fail(Errc::io, fmt::format("{}: member {}: its journal cannot be read: {}", what, entry.member,
                                                 to_string(read)));
        for (std::uint32_t i = 0; i < head.count; ++i) {
            const JournalHead::Piece& piece = head.pieces[i];
            if ((config.written() & bit(piece.member)) != 0) {
                const Status written = co_await array.io->io(
                    piece.member, Op::write, g.chunk_offset(head.stripe) + piece.offset, data, piece.bytes, 0);
                if (written != Status::ok)
                    co_return fail(Errc::io, fmt::format("{}: member {} cannot be written: {}; start without it, with "
                                                         "member=missing in its place",
                                                         what, piece.member, to_string(written)));
            }
            data += piece.bytes;
        }
    }
    const Mask unflushed = co_await array.io->flush(config.written());
    if (unflushed != 0) co_return fail(Errc::io, fmt::format("{}: a member cannot be flushed", what));
    co_return newest + 1;
}

Task<Intent> read_intent(Assembled& array) {
    const Geometry& g = array.superblock.geometry;
    const Config& config = *array.config;
    Intent result;
    std::optional<IntentBlock> newest;
    auto memory = memory::Buffer::allocate(Geometry::block);
    for (unsigned member = 0; memory && member < g.members(); ++member) {
        if ((config.in_sync & bit(member)) == 0) continue;
        for (const std::uint64_t at : Geometry::intent_offset) {
            const Status status = co_await array.io->io(member, Op::read, at, memory->data(), Geometry::block, 0);
            if (status != Status::ok) continue;
            auto found = decode_intent(ConstBlock(memory->data(), Geometry::block));
            if (!found || found->uuid != array.superblock.uuid || found->regions != g.regions()) continue;
            result.sequence = std::max(result.sequence, found->sequence);
            if (found->epoch != config.epoch) continue;
            if (!newest || found->sequence > newest->sequence) newest = std::move(found);
        }
    }
    for (std::uint32_t region = 0; newest && region < g.regions(); ++region)
        if (newest->test(region)) result.dirty.push_back(region);
    co_return result;
}

Task<Result<>> resync(Assembled& array, const std::vector<std::uint32_t>& regions, const std::string& what) {
    const Geometry& g = array.superblock.geometry;
    auto memory = memory::Buffer::allocate(std::size_t{g.members()} * g.chunk);
    if (!memory) co_return no_memory(what, memory.error());
    const Parity parity(g.data);
    const Mask all = first_bits(g.members());
    std::array<std::byte*, max_members> by_place{};
    for (unsigned place = 0; place < g.members(); ++place)
        by_place[place] = memory->data() + std::size_t{place} * g.chunk;
    for (const std::uint32_t region : regions) {
        const std::uint64_t end = std::min(g.stripes, (region + 1) * g.region_stripes);
        for (std::uint64_t stripe = region * g.region_stripes; stripe < end; ++stripe) {
            MemberMemory by_member{};
            for (unsigned place = 0; place < g.members(); ++place)
                by_member[g.member_of(stripe, place)] = by_place[place];
            const Mask parities = bit(g.member_of(stripe, g.data)) | bit(g.member_of(stripe, g.data + 1));
            const std::uint64_t at = g.chunk_offset(stripe);
            Mask failed = co_await array.io->on_each(all & ~parities, Op::read, at, by_member, g.chunk, 0);
            if (failed == 0) {
                parity.generate(by_place.data(), by_place[g.data], by_place[g.data + 1], g.chunk);
                failed = co_await array.io->on_each(parities, Op::write, at, by_member, g.chunk, 0);
            }
            if (failed != 0)
                co_return fail(Errc::io,
                               fmt::format("{}: the array was in use when it was left, and stripe {} cannot be "
                                           "repaired, as a member does not answer; start without it, with "
                                           "member=missing in its place and force=1",
                                           what, stripe));
        }
    }
    const Mask unflushed = co_await array.io->flush(all);
    if (unflushed != 0) co_return fail(Errc::io, fmt::format("{}: a member cannot be flushed", what));
    co_return Result<>{};
}

}  // namespace mqblk::driver::raid
