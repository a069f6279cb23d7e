// SPDX-License-Identifier: Apache-2.0
//
// What an array writes about itself, byte for byte: superblocks, write-intent blocks, heads of journal entries; each
// one block of 4,096 bytes, little endian, with a CRC32C over all of it. Members come from anywhere: decoding checks
// every value before anybody uses it, and what it returns is consistent in itself.
#pragma once

#include "driver/raid/geometry.h"

#include <mqblk/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace mqblk::driver::raid {

using Block = std::span<std::byte, Geometry::block>;
using ConstBlock = std::span<const std::byte, Geometry::block>;
using Uuid = std::array<std::uint8_t, 16>;

[[nodiscard]] std::string to_text(const Uuid&);

enum class MemberState : std::uint8_t { in_sync, failed, rebuilding };

/// The same on every member but for `member`; the one with most events holds.
struct Superblock {
    Uuid uuid{};
    std::uint64_t events = 0;  ///< grows with each change of what stands here
    std::uint64_t epoch = 0;   ///< grows when the array goes over from write-intent bits to the journal, or back
    unsigned level = 6;        ///< 0 or 6
    unsigned member = 0;       ///< whose superblock this is
    Geometry geometry;
    bool journal = false;         ///< writes go through the journal; else write-intent bits are set first
    bool journal_always = false;  ///< even with all members
    bool dead = false;            ///< more members were lost than it can do without
    std::array<MemberState, max_members> states{};

    void encode(Block) const noexcept;
    [[nodiscard]] Mask members_in(MemberState state) const noexcept {
        Mask result = 0;
        for (unsigned i = 0; i < geometry.members(); ++i)
            if (states[i] == state) result |= bit(i);
        return result;
    }
};

/// Whether a block claims to be a superblock, whatever else is wrong with it.
[[nodiscard]] bool looks_like_superblock(ConstBlock) noexcept;
/// Nothing where it is none, or damaged, or contradicts itself.
[[nodiscard]] std::optional<Superblock> decode_superblock(ConstBlock) noexcept;

/// Which regions may hold stripes whose parity does not fit, while no journal is in use.
struct IntentBlock {
    Uuid uuid{};
    std::uint64_t epoch = 0;
    std::uint64_t sequence = 0;  ///< the greatest holds; it lies in slot sequence % 2
    std::uint32_t regions = 0;
    std::array<std::uint8_t, Geometry::most_regions / 8> bits{};

    [[nodiscard]] bool test(std::uint32_t region) const noexcept { return (bits[region / 8] >> region % 8 & 1) != 0; }
    void set(std::uint32_t region, bool on) noexcept {
        const auto mask = static_cast<std::uint8_t>(1u << region % 8);
        bits[region / 8] = static_cast<std::uint8_t>(on ? bits[region / 8] | mask : bits[region / 8] & ~mask);
    }
    void encode(Block) const noexcept;
};
[[nodiscard]] std::optional<IntentBlock> decode_intent(ConstBlock) noexcept;

/// The head of a journal entry: what one write puts where, all within one stripe; the data follow in order.
struct JournalHead {
    struct Piece {
        std::uint32_t member = 0;
        std::uint32_t offset = 0;  ///< within the chunk
        std::uint32_t bytes = 0;
    };
    Uuid uuid{};
    std::uint64_t epoch = 0;
    std::uint64_t sequence = 0;
    std::uint64_t stripe = 0;
    std::uint32_t count = 0;
    std::uint32_t data_crc = 0;  ///< CRC32C of all data that follow
    std::array<Piece, max_members> pieces{};

    [[nodiscard]] std::uint32_t data_bytes() const noexcept {
        std::uint32_t sum = 0;
        for (std::uint32_t i = 0; i < count; ++i) sum += pieces[i].bytes;
        return sum;
    }
    void encode(Block) const noexcept;
};
/// Its pieces lie within the array that `geometry` describes, and their data within a slot.
[[nodiscard]] std::optional<JournalHead> decode_journal(ConstBlock, const Geometry& geometry) noexcept;

}  // namespace mqblk::driver::raid
