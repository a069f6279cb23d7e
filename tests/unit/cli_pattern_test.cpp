// SPDX-License-Identifier: Apache-2.0
//
// Blocks that say what they are: each way in which storage can lie is told from the others. And where jobs go: in their
// own slices, never twice at one place.
#include "cli/bench/pattern.h"
#include "cli/bench/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace mqblk::cli {
namespace {

constexpr std::size_t block = 512;

struct PatternTest : testing::Test {
    PatternTest() : data(8 * block) { fill_blocks(data, block, {100, 7, 3}); }
    std::vector<std::byte> data;
};

TEST_F(PatternTest, WholeBlocksPass) {
    EXPECT_EQ(check_blocks(data, block, {100, 7, 3}), std::nullopt);
    EXPECT_EQ(check_blocks(data, block, {100, 0, 0}), std::nullopt) << "any run and generation";
}

TEST_F(PatternTest, EveryDamagedBitIsFound) {
    for (std::size_t bit = 0; bit < block * 8; bit += 13) {
        data[block + bit / 8] ^= std::byte{1} << (bit % 8);
        const auto wrong = check_blocks(data, block, {100, 0, 0});
        ASSERT_TRUE(wrong) << "bit " << bit;
        EXPECT_THAT(*wrong, testing::StartsWith("LBA 101: "));
        data[block + bit / 8] ^= std::byte{1} << (bit % 8);
    }
}

TEST_F(PatternTest, TornStaleAndMisplacedDiffer) {
    std::vector<std::byte> newer(8 * block);
    fill_blocks(newer, block, {100, 7, 4});
    std::copy(data.begin() + 4 * block, data.end(), newer.begin() + 4 * block);  // the second half was not written
    EXPECT_EQ(check_blocks(newer, block, {100, 7, 4}), "LBA 104: stale: holds generation 3, expected 4");

    std::copy_n(data.begin(), 256, newer.begin());  // half a block
    EXPECT_THAT(check_blocks(newer, block, {100, 7, 4}).value(), testing::HasSubstr("LBA 100: torn or damaged"));

    EXPECT_EQ(check_blocks(data, block, {200, 7, 3}), "LBA 200: misplaced: holds the block of LBA 100, expected 200");
    EXPECT_EQ(check_blocks(data, block, {100, 8, 3}), "LBA 100: stale: holds data of run 0x7, expected run 0x8");

    const std::vector<std::byte> zeroes(block);
    EXPECT_THAT(check_blocks(zeroes, block, {5, 0, 0}).value(),
                testing::StartsWith("LBA 5: begins with 0x0000000000000000"));
}

TEST(Place, VerifiedJobsShareNothingAndCoverAll) {
    Workload work;
    work.block_bytes = 4096;
    work.jobs = 3;
    work.verify = true;
    work.random = false;
    work.offset_bytes = 8192;
    SeededRandom random(1);
    std::set<std::uint64_t> seen;
    for (unsigned job = 0; job < work.jobs; ++job) {
        Place place(work, 8192 + 100 * 4096, job);
        for (std::uint64_t i = 0; i < place.units(); ++i)
            EXPECT_TRUE(seen.insert(place.byte_of(place.next(random))).second);
    }
    EXPECT_EQ(seen.size(), 100u);
    EXPECT_EQ(*seen.begin(), 8192u);
    EXPECT_EQ(*seen.rbegin(), 8192u + 99 * 4096);
}

TEST(Place, ABusyUnitIsNotGivenOutAgain) {
    Workload work;
    work.block_bytes = 4096;
    work.verify = true;
    Place place(work, 16 * 4096, 0);
    SeededRandom random(2);
    std::set<std::uint64_t> busy;
    for (int i = 0; i < 15; ++i) {
        const auto unit = place.next(random);
        EXPECT_TRUE(busy.insert(unit).second);
        EXPECT_EQ(place.begin(unit, true), 1u);
    }
    const auto first = *busy.begin();
    place.end(first, 1);
    EXPECT_EQ(place.generation(first), 1u);
    EXPECT_EQ(place.begin(first, true), 2u);
}

TEST(Place, RandomOffsetsStayWithinTheRange) {
    Workload work;
    work.block_bytes = 4096;
    work.offset_bytes = 1u << 20;
    work.range_bytes = 10 * 4096;
    Place place(work, 1u << 30, 0);
    SeededRandom random(3);
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(place.byte_of(place.next(random)));
    EXPECT_EQ(seen.size(), 10u);
    EXPECT_EQ(*seen.begin(), 1u << 20);
}

}  // namespace
}  // namespace mqblk::cli
