// SPDX-License-Identifier: Apache-2.0
//
// The three blocks as they lie on a member. Version 1.
#include "driver/raid/metadata.h"

#include "base/crc32c.h"
#include "base/endian.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace mqblk::driver::raid {

namespace {

constexpr std::string_view superblock_magic = "mqblkRDA", intent_magic = "mqblkRDI", journal_magic = "mqblkRDJ";
constexpr std::uint32_t format_version = 1;
constexpr std::uint64_t most_member_bytes = std::uint64_t{1} << 60;
/// Of events, epochs and sequence numbers: they grow by one at a time and come nowhere near, and arithmetic with them
/// cannot wrap.
constexpr std::uint64_t most_count = std::uint64_t{1} << 62;

/// Common to the three.
struct WireHead {
    char magic[8];
    le32 version;
    le32 crc;  // of the block with zero here
    std::uint8_t uuid[16];
    le64 epoch;
};
static_assert(sizeof(WireHead) == 40);

enum WireFlag : std::uint8_t { wire_journal = 1, wire_journal_always = 2, wire_dead = 4 };

struct WireSuperblock {
    WireHead head;
    le64 events;                       // 40
    std::uint8_t level;                // 48
    std::uint8_t data;                 // 49
    std::uint8_t parity;               // 50
    std::uint8_t member;               // 51
    std::uint8_t flags;                // 52
    std::uint8_t reserved[3];          // 53
    le32 chunk;                        // 56
    le32 journal_slots;                // 60
    le32 slot_bytes;                   // 64
    le32 reserved2;                    // 68
    le64 stripes;                      // 72
    le64 data_offset;                  // 80
    le64 region_stripes;               // 88
    le64 member_bytes;                 // 96
    std::uint8_t states[max_members];  // 104
    std::uint8_t zero[Geometry::block - 104 - max_members];
};
static_assert(sizeof(WireSuperblock) == Geometry::block);

struct WireIntent {
    WireHead head;
    le64 sequence;
    std::uint8_t bits[Geometry::block - 40 - 8];
};
static_assert(sizeof(WireIntent) == Geometry::block);
static_assert(Geometry::most_regions <= 8 * (sizeof(WireIntent::bits) - 4));  // the last four: how many regions

struct WirePiece {
    le32 member, offset, bytes;
};
struct WireJournal {
    WireHead head;
    le64 sequence;  // 40
    le64 stripe;    // 48
    le32 count;     // 56
    le32 data_crc;  // 60
    WirePiece pieces[max_members];
    std::uint8_t zero[Geometry::block - 64 - sizeof(WirePiece) * max_members];
};
static_assert(sizeof(WireJournal) == Geometry::block);

WireHead make_head(std::string_view magic, const Uuid& uuid, std::uint64_t epoch) noexcept {
    WireHead head{};
    std::memcpy(head.magic, magic.data(), sizeof head.magic);
    head.version = format_version;
    std::memcpy(head.uuid, uuid.data(), uuid.size());
    head.epoch = epoch;
    return head;
}

template <class Wire>
void seal(Wire& wire, Block to) noexcept {
    wire.head.crc = 0;
    wire.head.crc = Crc32c::of(&wire, sizeof wire);
    std::memcpy(to.data(), &wire, sizeof wire);
}

/// False where magic, version or checksum are not what they should be.
template <class Wire>
bool unseal(ConstBlock from, std::string_view magic, Wire& wire) noexcept {
    std::memcpy(&wire, from.data(), sizeof wire);
    if (std::memcmp(wire.head.magic, magic.data(), magic.size()) != 0) return false;
    if (wire.head.version != format_version || wire.head.epoch > most_count) return false;
    const std::uint32_t crc = wire.head.crc;
    wire.head.crc = 0;
    return crc == Crc32c::of(&wire, sizeof wire);
}

void copy_head(const WireHead& head, Uuid& uuid, std::uint64_t& epoch) noexcept {
    std::memcpy(uuid.data(), head.uuid, uuid.size());
    epoch = head.epoch;
}

bool sensible(unsigned level, const Geometry& g) noexcept {
    if (level == 6 ? g.parity != 2 || g.data < 3 : level != 0 || g.parity != 0 || g.data < 2) return false;
    if (g.data > max_data) return false;
    if (!std::has_single_bit(g.chunk) || g.chunk < Geometry::least_chunk) return false;
    if (std::uint64_t{g.data} * g.chunk > Geometry::most_stripe) return false;
    if (g.member_bytes > most_member_bytes || g.data_offset > g.member_bytes) return false;
    if (g.data_offset % Geometry::block != 0 || g.data_offset < Geometry::journal_offset) return false;
    if (g.stripes == 0 || g.stripes > (g.member_bytes - g.data_offset) / g.chunk) return false;
    if (g.region_stripes == 0 || g.region_stripes > most_member_bytes ||
        (g.stripes - 1) / g.region_stripes >= Geometry::most_regions)
        return false;
    if (level == 0) return g.journal_slots == 0 && g.slot_bytes == 0;
    if (g.slot_bytes != Geometry::block + g.members() * g.chunk) return false;
    if (g.journal_slots < 2 || g.journal_slots > 1024) return false;
    return Geometry::journal_offset + std::uint64_t{g.journal_slots} * g.slot_bytes <= g.data_offset;
}

}  // namespace

std::string to_text(const Uuid& uuid) {
    std::string text;
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += fmt::format("{:02x}", uuid[i]);
    }
    return text;
}

void Superblock::encode(Block to) const noexcept {
    WireSuperblock wire{};
    wire.head = make_head(superblock_magic, uuid, epoch);
    wire.events = events;
    wire.level = static_cast<std::uint8_t>(level);
    wire.data = static_cast<std::uint8_t>(geometry.data);
    wire.parity = static_cast<std::uint8_t>(geometry.parity);
    wire.member = static_cast<std::uint8_t>(member);
    wire.flags = static_cast<std::uint8_t>((journal ? wire_journal : 0) | (journal_always ? wire_journal_always : 0) |
                                           (dead ? wire_dead : 0));
    wire.chunk = geometry.chunk;
    wire.journal_slots = geometry.journal_slots;
    wire.slot_bytes = geometry.slot_bytes;
    wire.stripes = geometry.stripes;
    wire.data_offset = geometry.data_offset;
    wire.region_stripes = geometry.region_stripes;
    wire.member_bytes = geometry.member_bytes;
    for (unsigned i = 0; i < geometry.members(); ++i) wire.states[i] = static_cast<std::uint8_t>(states[i]);
    seal(wire, to);
}

bool looks_like_superblock(ConstBlock from) noexcept {
    return std::memcmp(from.data(), superblock_magic.data(), superblock_magic.size()) == 0;
}

std::optional<Superblock> decode_superblock(ConstBlock from) noexcept {
    WireSuperblock wire;
    if (!unseal(from, superblock_magic, wire) || wire.events > most_count) return std::nullopt;
    Superblock result;
    copy_head(wire.head, result.uuid, result.epoch);
    result.events = wire.events;
    result.level = wire.level;
    result.member = wire.member;
    result.journal = (wire.flags & wire_journal) != 0;
    result.journal_always = (wire.flags & wire_journal_always) != 0;
    result.dead = (wire.flags & wire_dead) != 0;
    Geometry& g = result.geometry;
    g.data = wire.data;
    g.parity = wire.parity;
    g.chunk = wire.chunk;
    g.stripes = wire.stripes;
    g.journal_slots = wire.journal_slots;
    g.slot_bytes = wire.slot_bytes;
    g.data_offset = wire.data_offset;
    g.region_stripes = wire.region_stripes;
    g.member_bytes = wire.member_bytes;
    if (!sensible(result.level, g) || result.member >= g.members()) return std::nullopt;
    for (unsigned i = 0; i < g.members(); ++i) {
        if (wire.states[i] > static_cast<std::uint8_t>(MemberState::rebuilding)) return std::nullopt;
        result.states[i] = static_cast<MemberState>(wire.states[i]);
    }
    return result;
}

void IntentBlock::encode(Block to) const noexcept {
    WireIntent wire{};
    wire.head = make_head(intent_magic, uuid, epoch);
    wire.sequence = sequence;
    std::memcpy(wire.bits, bits.data(), bits.size());
    const le32 count = regions;
    std::memcpy(wire.bits + sizeof wire.bits - sizeof count, &count, sizeof count);
    seal(wire, to);
}

std::optional<IntentBlock> decode_intent(ConstBlock from) noexcept {
    WireIntent wire;
    if (!unseal(from, intent_magic, wire) || wire.sequence > most_count) return std::nullopt;
    IntentBlock result;
    copy_head(wire.head, result.uuid, result.epoch);
    result.sequence = wire.sequence;
    le32 count;
    std::memcpy(&count, wire.bits + sizeof wire.bits - sizeof count, sizeof count);
    result.regions = count;
    if (result.regions > Geometry::most_regions) return std::nullopt;
    std::memcpy(result.bits.data(), wire.bits, result.bits.size());
    return result;
}

void JournalHead::encode(Block to) const noexcept {
    WireJournal wire{};
    wire.head = make_head(journal_magic, uuid, epoch);
    wire.sequence = sequence;
    wire.stripe = stripe;
    wire.count = count;
    wire.data_crc = data_crc;
    for (std::uint32_t i = 0; i < count; ++i) {
        wire.pieces[i].member = pieces[i].member;
        wire.pieces[i].offset = pieces[i].offset;
        wire.pieces[i].bytes = pieces[i].bytes;
    }
    seal(wire, to);
}

std::optional<JournalHead> decode_journal(ConstBlock from, const Geometry& geometry) noexcept {
    WireJournal wire;
    if (!unseal(from, journal_magic, wire) || wire.sequence > most_count) return std::nullopt;
    JournalHead result;
    copy_head(wire.head, result.uuid, result.epoch);
    result.sequence = wire.sequence;
    result.stripe = wire.stripe;
    result.count = wire.count;
    result.data_crc = wire.data_crc;
    if (result.count > geometry.members() || result.stripe >= geometry.stripes) return std::nullopt;
    Mask seen = 0;
    for (std::uint32_t i = 0; i < result.count; ++i) {
        const JournalHead::Piece piece{wire.pieces[i].member, wire.pieces[i].offset, wire.pieces[i].bytes};
        if (piece.member >= geometry.members() || (seen & bit(piece.member)) != 0) return std::nullopt;
        seen |= bit(piece.member);
        if (piece.bytes == 0 || piece.bytes % 512 != 0 || piece.offset % 512 != 0) return std::nullopt;
        if (piece.offset >= geometry.chunk || piece.bytes > geometry.chunk - piece.offset) return std::nullopt;
        result.pieces[i] = piece;
    }
    return result;
}

}  // namespace mqblk::driver::raid
