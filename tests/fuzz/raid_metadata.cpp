// SPDX-License-Identifier: Apache-2.0
//
// Whatever a member holds: what is decoded is consistent, and encodes to what decodes to the same. The first byte says
// which block it is and whether its checksum is made right.
#include "base/crc32c.h"
#include "driver/raid/metadata.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace mqblk::driver::raid;
    if (size < 1) return 0;
    std::array<std::byte, Geometry::block> block{}, again{};
    std::memcpy(block.data(), data + 1, std::min(size - 1, block.size()));
    const unsigned kind = data[0] % 3;
    if ((data[0] & 0x80) != 0) {
        constexpr const char* magics[] = {"mqblkRDA\x01\0\0", "mqblkRDI\x01\0\0", "mqblkRDJ\x01\0\0"};
        std::memcpy(block.data(), magics[kind], 12);
        std::memset(block.data() + 12, 0, 4);
        const std::uint32_t crc = mqblk::Crc32c::of(block.data(), block.size());
        for (unsigned i = 0; i < 4; ++i) block[12 + i] = static_cast<std::byte>(crc >> 8 * i);
    }
    if (kind == 0) {
        const auto found = decode_superblock(block);
        if (!found) return 0;
        const Geometry& g = found->geometry;
        if (g.chunk_offset(g.stripes) > g.member_bytes || g.regions() > Geometry::most_regions) std::abort();
        for (unsigned place = 0; place < g.members(); ++place)
            if (g.place_of(g.stripes - 1, g.member_of(g.stripes - 1, place)) != place) std::abort();
        found->encode(again);
        if (!decode_superblock(again)) std::abort();
    } else if (kind == 1) {
        const auto found = decode_intent(block);
        if (found) found->encode(again);
        if (found && !decode_intent(again)) std::abort();
    } else {
        const Geometry g = Geometry::plan(8, 2, 4096, 16u << 20);
        const auto found = decode_journal(block, g);
        if (!found) return 0;
        if (found->data_bytes() > g.slot_bytes - Geometry::block) std::abort();
        found->encode(again);
        if (!decode_journal(again, g)) std::abort();
    }
    return 0;
}
