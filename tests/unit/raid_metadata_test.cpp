// SPDX-License-Identifier: Apache-2.0
//
// The three blocks byte for byte, and what is refused; where chunks lie.
#include "base/crc32c.h"
#include "base/random.h"
#include "driver/raid/metadata.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

namespace mqblk::driver::raid {
namespace {

using Bytes = std::array<std::byte, Geometry::block>;

Superblock sample() {
    Superblock s;
    for (unsigned i = 0; i < 16; ++i) s.uuid[i] = static_cast<std::uint8_t>(0xa0 + i);
    s.events = 0x1122334455667788;
    s.epoch = 5;
    s.member = 3;
    s.geometry = Geometry::plan(8, 2, 128u << 10, 1u << 30);
    s.journal = true;
    s.states[2] = MemberState::failed;
    s.states[9] = MemberState::rebuilding;
    return s;
}

std::string hex(const Bytes& bytes, std::size_t from, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
        constexpr char digits[] = "0123456789abcdef";
        const auto value = static_cast<unsigned>(bytes[from + i]);
        text += {digits[value >> 4], digits[value & 15]};
    }
    return text;
}

/// Seals a block again whose content was changed.
void reseal(Bytes& bytes) {
    std::memset(bytes.data() + 12, 0, 4);
    const std::uint32_t crc = Crc32c::of(bytes.data(), bytes.size());
    for (int i = 0; i < 4; ++i) bytes[12 + static_cast<unsigned>(i)] = static_cast<std::byte>(crc >> 8 * i);
}

TEST(RaidMetadata, SuperblockBytes) {
    Bytes bytes;
    sample().encode(bytes);
    EXPECT_EQ(hex(bytes, 0, 12), "6d71626c6b52444101000000");                           // mqblkRDA, version 1
    EXPECT_EQ(hex(bytes, 16, 24), "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf0500000000000000");  // UUID, epoch
    EXPECT_EQ(hex(bytes, 40, 16), "88776655443322110608020301000000");  // events, level, data, parity, member, flags
    EXPECT_EQ(hex(bytes, 56, 16), "000002000c0000000010140000000000");  // chunk, slots, bytes of each
    EXPECT_EQ(hex(bytes, 80, 8), "0000000100000000");                   // where data begin: 16 MiB
    EXPECT_EQ(hex(bytes, 104, 10), "00000100000000000002");             // states
    EXPECT_TRUE(looks_like_superblock(bytes));
}

TEST(RaidMetadata, SuperblockRoundTrip) {
    Bytes bytes, again;
    const Superblock before = sample();
    before.encode(bytes);
    const auto after = decode_superblock(bytes);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->uuid, before.uuid);
    EXPECT_EQ(after->events, before.events);
    EXPECT_EQ(after->geometry.stripes, before.geometry.stripes);
    EXPECT_EQ(after->members_in(MemberState::rebuilding), bit(9));
    EXPECT_TRUE(after->journal);
    EXPECT_FALSE(after->dead);
    after->encode(again);
    EXPECT_EQ(bytes, again);
    EXPECT_EQ(to_text(before.uuid), "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
}

TEST(RaidMetadata, EveryFlippedBitIsSeen) {
    Bytes bytes;
    sample().encode(bytes);
    for (std::size_t i = 0; i < 200; ++i) {
        bytes[i] ^= std::byte{0x10};
        EXPECT_FALSE(decode_superblock(bytes)) << i;
        bytes[i] ^= std::byte{0x10};
    }
    EXPECT_TRUE(decode_superblock(bytes));
}

TEST(RaidMetadata, WhatContradictsItselfIsRefused) {
    struct Case {
        std::size_t at;
        std::uint8_t value;
    };
    // Level, data, parity, member, chunk (no power of two, too large), slots, slot size, stripes, data offset, region,
    // member size, a state; counts that would wrap; all with a right checksum.
    for (const Case each : {Case{39, 0x41},
                            {47, 0x41},
                            {95, 0x80},
                            {48, 5},
                            {48, 0},
                            {49, 2},
                            {49, 33},
                            {50, 1},
                            {51, 10},
                            {57, 1},
                            {59, 1},
                            {60, 0},
                            {63, 1},
                            {65, 1},
                            {79, 1},
                            {80, 1},
                            {87, 0x80},
                            {103, 0x20},
                            {105, 3}}) {
        Bytes bytes;
        sample().encode(bytes);
        bytes[each.at] = std::byte{each.value};
        reseal(bytes);
        EXPECT_FALSE(decode_superblock(bytes)) << each.at << " = " << unsigned{each.value};
    }
}

TEST(RaidMetadata, IntentRoundTrip) {
    IntentBlock block;
    block.uuid[0] = 1;
    block.epoch = 7;
    block.sequence = 9;
    block.regions = Geometry::most_regions;
    block.set(0, true);
    block.set(12345, true);
    block.set(Geometry::most_regions - 1, true);
    block.set(0, false);
    Bytes bytes;
    block.encode(bytes);
    EXPECT_EQ(hex(bytes, 0, 8), "6d71626c6b524449");
    const auto after = decode_intent(bytes);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->sequence, 9u);
    EXPECT_EQ(after->regions, Geometry::most_regions);
    for (std::uint32_t i = 0; i < Geometry::most_regions; ++i)
        ASSERT_EQ(after->test(i), i == 12345 || i == Geometry::most_regions - 1) << i;
    bytes[100] ^= std::byte{1};
    EXPECT_FALSE(decode_intent(bytes));
    block.sequence = std::uint64_t{1} << 63;
    block.encode(bytes);
    EXPECT_FALSE(decode_intent(bytes)) << "it would wrap";
}

TEST(RaidMetadata, JournalPiecesLieWithinTheArray) {
    const Geometry g = sample().geometry;
    JournalHead head;
    head.stripe = g.stripes - 1;
    head.count = 2;
    head.pieces[0] = {0, 512, 1024};
    head.pieces[1] = {9, 0, g.chunk};
    Bytes bytes;
    head.encode(bytes);
    const auto good = decode_journal(bytes, g);
    ASSERT_TRUE(good);
    EXPECT_EQ(good->data_bytes(), 1024 + g.chunk);
    const auto refused = [&](auto change) {
        JournalHead wrong = head;
        change(wrong);
        wrong.encode(bytes);
        return !decode_journal(bytes, g);
    };
    EXPECT_TRUE(refused([](JournalHead& h) { h.sequence = std::uint64_t{1} << 63; }));
    EXPECT_TRUE(refused([](JournalHead& h) { h.sequence = ~std::uint64_t{0}; }));
    EXPECT_TRUE(refused([&](JournalHead& h) { h.stripe = g.stripes; }));
    EXPECT_TRUE(refused([](JournalHead& h) { h.pieces[1].member = 10; }));
    EXPECT_TRUE(refused([](JournalHead& h) { h.pieces[1].member = 0; }));
    EXPECT_TRUE(refused([](JournalHead& h) { h.pieces[0].bytes = 0; }));
    EXPECT_TRUE(refused([](JournalHead& h) { h.pieces[0].bytes = 100; }));
    EXPECT_TRUE(refused([&](JournalHead& h) { h.pieces[1].offset = 512; }));
    EXPECT_TRUE(refused([&](JournalHead& h) { h.pieces[0].offset = g.chunk; }));
    EXPECT_TRUE(refused([](JournalHead& h) { h.pieces[0].bytes = 0xfffffe00; }));
}

TEST(RaidGeometry, EachStripeHasEachPlaceOnce) {
    for (unsigned data = 3; data <= max_data; ++data) {
        const Geometry g = Geometry::plan(data, 2, 4096, 64u << 20);
        std::set<unsigned> p_members;
        for (std::uint64_t stripe = 0; stripe < g.members(); ++stripe) {
            std::set<unsigned> used;
            for (unsigned place = 0; place < g.members(); ++place) {
                const unsigned member = g.member_of(stripe, place);
                ASSERT_LT(member, g.members());
                ASSERT_EQ(g.place_of(stripe, member), place);
                used.insert(member);
            }
            ASSERT_EQ(used.size(), g.members());
            p_members.insert(g.member_of(stripe, data));
        }
        EXPECT_EQ(p_members.size(), g.members()) << "P takes turns";
    }
}

TEST(RaidGeometry, RegionsLargerThanTheArrayAreOne) {
    Geometry g = sample().geometry;
    g.region_stripes = std::uint64_t{1} << 60;
    EXPECT_EQ(g.regions(), 1u);
    g.region_stripes = ~std::uint64_t{0};
    EXPECT_EQ(g.regions(), 1u);
}

TEST(RaidGeometry, WhatIsPlannedIsAccepted) {
    SeededRandom random(1);
    for (int i = 0; i < 3000; ++i) {
        Superblock s;
        s.level = random.below(2) == 0 ? 0 : 6;
        const unsigned data = 3 + static_cast<unsigned>(random.below(30));
        const std::uint32_t chunk = 4096u << random.below(7);
        if (std::uint64_t{data} * chunk > Geometry::most_stripe) continue;
        const std::uint64_t bytes = (std::uint64_t{1} << (14 + random.below(34))) + 4096 * random.below(1000);
        s.geometry = Geometry::plan(data, s.level == 6 ? 2 : 0, chunk, bytes);
        if (s.geometry.stripes == 0) continue;
        ASSERT_LE(s.geometry.regions(), Geometry::most_regions);
        ASSERT_LE(s.geometry.chunk_offset(s.geometry.stripes), bytes);
        Bytes block;
        s.encode(block);
        ASSERT_TRUE(decode_superblock(block)) << data << " x " << chunk << " of " << bytes;
    }
}

}  // namespace
}  // namespace mqblk::driver::raid
