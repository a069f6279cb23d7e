// SPDX-License-Identifier: Apache-2.0
//
// CRC32C against the vectors of RFC 3720, appendix B.4, a bitwise model, and itself in pieces.
#include "base/crc32c.h"

#include "base/random.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>
#include <vector>

namespace mqblk {
namespace {

std::uint32_t bitwise(const std::vector<std::uint8_t>& bytes) {
    std::uint32_t crc = 0xffffffff;
    for (const std::uint8_t byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    }
    return ~crc;
}

TEST(Crc32c, KnownVectors) {
    std::vector<std::uint8_t> ascending(32), descending(32);
    std::iota(ascending.begin(), ascending.end(), std::uint8_t{0});
    std::iota(descending.rbegin(), descending.rend(), std::uint8_t{0});
    const std::vector<std::uint8_t> zeroes(32, 0), ones(32, 0xff);
    const std::string_view digits = "123456789";
    EXPECT_EQ(Crc32c::of(zeroes.data(), 32), 0x8a9136aau);
    EXPECT_EQ(Crc32c::of(ones.data(), 32), 0x62a8ab43u);
    EXPECT_EQ(Crc32c::of(ascending.data(), 32), 0x46dd794eu);
    EXPECT_EQ(Crc32c::of(descending.data(), 32), 0x113fdb5cu);
    EXPECT_EQ(Crc32c::of(digits.data(), digits.size()), 0xe3069283u);
    EXPECT_EQ(Crc32c::of(nullptr, 0), 0u);
}

TEST(Crc32c, AnyLengthAlignmentAndSplit) {
    SeededRandom random(1);
    std::vector<std::uint8_t> memory(5000);
    for (auto& byte : memory) byte = static_cast<std::uint8_t>(random.next());
    for (int round = 0; round < 300; ++round) {
        const std::size_t start = random.below(64), count = random.below(round < 200 ? 300 : 4900);
        const std::vector<std::uint8_t> bytes(memory.begin() + start, memory.begin() + start + count);
        const std::uint32_t expected = bitwise(bytes);
        ASSERT_EQ(Crc32c::of(memory.data() + start, count), expected) << start << " " << count;

        Crc32c crc;
        auto* at = reinterpret_cast<std::byte*>(memory.data() + start);
        const std::size_t first = random.below(count + 1), second = random.below(count - first + 1);
        const Segment segments[] = {{at, first}, {at + first, second}, {nullptr, 0}};
        crc.update(segments);
        crc.update(at + first + second, count - first - second);
        ASSERT_EQ(crc.value(), expected) << start << " " << count << " cut at " << first << " and " << first + second;
    }
}

}  // namespace
}  // namespace mqblk
