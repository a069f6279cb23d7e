// SPDX-License-Identifier: Apache-2.0
//
// Where everything lies. A member: two superblocks, two write-intent blocks, the journal, then its chunks. A stripe is
// a chunk of each member at the same place. RAID-6 turns P and Q by one member with each stripe; data chunks follow Q
// (left-symmetric, as Linux's md has it). All sizes in bytes.
#pragma once

#include "driver/raid/parity.h"

#include <algorithm>
#include <cstdint>

namespace mqblk::driver::raid {

struct Geometry {
    static constexpr std::uint32_t block = 4096;  ///< all that describes the array is written in such blocks
    static constexpr std::uint64_t superblock_offset[2] = {0, block};
    static constexpr std::uint64_t intent_offset[2] = {2 * std::uint64_t{block}, 3 * std::uint64_t{block}};
    static constexpr std::uint64_t journal_offset = 4 * std::uint64_t{block};
    static constexpr std::uint32_t least_chunk = 4096;
    static constexpr std::uint64_t most_stripe = 8u << 20;  ///< data in a stripe
    static constexpr std::uint32_t most_regions = 32352;    ///< what a write-intent block has bits for

    unsigned data = 0;    ///< chunks of data in a stripe
    unsigned parity = 0;  ///< 2 or none
    std::uint32_t chunk = 0;
    std::uint64_t stripes = 0;
    std::uint32_t journal_slots = 0;
    std::uint32_t slot_bytes = 0;
    std::uint64_t data_offset = 0;
    std::uint64_t region_stripes = 0;  ///< stripes that share a bit of the write-intent block
    std::uint64_t member_bytes = 0;    ///< what is used of each member

    [[nodiscard]] unsigned members() const noexcept { return data + parity; }
    [[nodiscard]] std::uint32_t stripe_bytes() const noexcept { return data * chunk; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return stripes * stripe_bytes(); }
    [[nodiscard]] std::uint32_t regions() const noexcept {
        return static_cast<std::uint32_t>((stripes - 1) / region_stripes + 1);
    }

    /// Which member has the chunk with this place in the code (Parity), in `stripe`.
    [[nodiscard]] unsigned member_of(std::uint64_t stripe, unsigned place) const noexcept {
        if (parity == 0) return place;
        const unsigned all = members();
        const unsigned p = all - 1 - static_cast<unsigned>(stripe % all);
        const unsigned after_p = place >= data ? place - data : place + 2;
        return (p + after_p) % all;
    }
    /// The reverse.
    [[nodiscard]] unsigned place_of(std::uint64_t stripe, unsigned member) const noexcept {
        if (parity == 0) return member;
        const unsigned all = members();
        const unsigned p = all - 1 - static_cast<unsigned>(stripe % all);
        const unsigned after_p = (member + all - p) % all;
        return after_p < 2 ? data + after_p : after_p - 2;
    }
    /// The places in `stripe` that a set of members has.
    [[nodiscard]] Mask places_of(std::uint64_t stripe, Mask members_set) const noexcept {
        Mask result = 0;
        for (unsigned member = 0; member < members(); ++member)
            if ((members_set & bit(member)) != 0) result |= bit(place_of(stripe, member));
        return result;
    }
    /// Where a member has its chunk of `stripe`.
    [[nodiscard]] std::uint64_t chunk_offset(std::uint64_t stripe) const noexcept {
        return data_offset + stripe * chunk;
    }
    [[nodiscard]] std::uint64_t slot_offset(std::uint64_t sequence) const noexcept {
        return journal_offset + sequence % journal_slots * slot_bytes;
    }

    /// The layout of a new array on members of `member_bytes`; `stripes` is 0 where they are too small for one.
    [[nodiscard]] static Geometry plan(unsigned data, unsigned parity, std::uint32_t chunk,
                                       std::uint64_t member_bytes) noexcept {
        Geometry g;
        g.data = data;
        g.parity = parity;
        g.chunk = chunk;
        g.member_bytes = member_bytes;
        std::uint64_t journal = 0;
        if (parity != 0) {
            // An entry holds a whole stripe at most. A 64th of a member, 2 to 16 entries.
            g.slot_bytes = block + g.members() * chunk;
            g.journal_slots =
                static_cast<std::uint32_t>(std::clamp<std::uint64_t>(member_bytes / 64 / g.slot_bytes, 2, 16));
            journal = std::uint64_t{g.slot_bytes} * g.journal_slots;
        }
        const std::uint64_t unit = std::max<std::uint64_t>(chunk, member_bytes >= (64u << 20) ? 1u << 20 : block);
        g.data_offset = (journal_offset + journal + unit - 1) / unit * unit;
        g.stripes = member_bytes > g.data_offset ? (member_bytes - g.data_offset) / chunk : 0;
        g.region_stripes =
            std::max<std::uint64_t>({1, (g.stripes + most_regions - 1) / most_regions, std::uint64_t{1 << 20} / chunk});
        return g;
    }
};

}  // namespace mqblk::driver::raid
