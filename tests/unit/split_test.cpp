// SPDX-License-Identifier: Apache-2.0
//
// Properties of cutting and merging, against the byte-level model, from fixed seeds.
#include "block/split.h"

#include "block/request.h"
#include "unit/split_model.h"

#include <gtest/gtest.h>

namespace mqblk::block {
namespace {

using test::bytes_of;
using test::longest_request;
using test::ModelByte;
using test::ModelCut;
using test::ModelPiece;
using test::OwnedBio;
using test::random_bio;
using test::random_limits;

constexpr std::uint64_t fast_seeds = 4000;
constexpr std::uint64_t max_bio_bytes = 12 * 1024;

std::vector<ModelPiece> pieces_of(const Request& request) {
    std::vector<ModelPiece> result;
    request.for_each_segment(
        [&](std::byte* at, std::size_t bytes) { result.push_back({reinterpret_cast<std::uintptr_t>(at), bytes}); });
    return result;
}

Request request_for(const QueueLimits& limits, const Bio& bio, const Cut& cut) {
    Request request;
    request.op = bio.op;
    request.sectors = cut.sectors;
    request.segments = cut.segments;
    request.data = {&bio, bio.progress.segment, bio.progress.segment_offset};
    request.limit_segments(limits);
    return request;
}

/// Cuts the whole bio and compares every cut with the model. Returns how many requests it became.
unsigned cut_and_compare(const QueueLimits& limits, Bio& bio) {
    const std::vector<ModelByte> memory = bytes_of({&bio});
    std::size_t done = 0;
    unsigned requests = 0;
    while (done < memory.size()) {
        const ModelCut expected = longest_request(limits, memory, done, (bio.sector + bio.progress.issued) * 512);
        const Cut cut = next_cut(limits, bio);
        if (expected.bytes == 0) {
            EXPECT_EQ(cut.status, Status::invalid);
            EXPECT_EQ(cut.sectors, 0u);
            return requests;
        }
        EXPECT_EQ(cut.status, Status::ok);
        EXPECT_EQ(cut.sectors * 512, expected.bytes);
        EXPECT_EQ(cut.segments, expected.pieces.size());
        EXPECT_EQ(pieces_of(request_for(limits, bio, cut)), expected.pieces);
        if (testing::Test::HasFailure()) return requests;
        advance(bio, cut.sectors);
        done += expected.bytes;
        EXPECT_EQ(bio.progress.issued * 512, done);
        ++requests;
    }
    EXPECT_EQ(next_cut(limits, bio).sectors, 0u);
    return requests;
}

TEST(Split, CutsAreExactMaximalAndWithinEveryLimit) {
    unsigned uncut = 0, cut = 0, refused = 0;
    OwnedBio owned;
    for (std::uint64_t seed = 0; seed < fast_seeds; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed);
        const QueueLimits limits = random_limits(random);
        random_bio(random, limits, max_bio_bytes, owned);
        ASSERT_EQ(check(limits, ~0ull, false, owned.bio), Status::ok);
        const unsigned requests = cut_and_compare(limits, owned.bio);
        if (HasFailure()) return;
        if (owned.bio.progress.issued < owned.bio.sectors) {
            ++refused;
        } else {
            ++(requests == 1 ? uncut : cut);
        }
    }
    // The generator reaches all three outcomes often enough to mean something.
    EXPECT_GT(uncut, fast_seeds / 20);
    EXPECT_GT(cut, fast_seeds / 5);
    EXPECT_GT(refused, fast_seeds / 50);
}

TEST(Split, LargeListsOfTinyPieces) {
    OwnedBio owned;
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed + 1'000'000);
        QueueLimits limits;
        limits.max_segments = static_cast<std::uint32_t>(512 + random.below(4096));
        limits.max_sectors = static_cast<std::uint32_t>(1 + random.below(1024));
        random_bio(random, limits, 256 * 1024, owned);
        cut_and_compare(limits, owned.bio);
        if (HasFailure()) return;
    }
}

TEST(Split, MisalignedMemoryCannotBeCut) {
    alignas(512) std::byte memory[2048];
    QueueLimits limits;
    limits.dma_alignment = 3;
    const std::vector<std::vector<Segment>> lists = {
        {{memory + 2, 1024}},
        {{memory, 512}, {memory + 513, 512}},
        {{memory, 510}, {memory + 512, 514}},
    };
    for (const auto& list : lists) {
        Bio bio;
        bio.sectors = 2;
        bio.data = list;
        const Cut cut = next_cut(limits, bio);
        EXPECT_EQ(cut.status, Status::invalid);
        EXPECT_EQ(cut.sectors, 0u);
        EXPECT_EQ(check(limits, 100, false, bio), Status::invalid);
    }
}

TEST(Split, MergesExactlyWhereTheWholeFits) {
    unsigned merged = 0;
    OwnedBio first, second;
    for (std::uint64_t seed = 0; seed < fast_seeds; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed + 2'000'000);
        const QueueLimits limits = random_limits(random);
        random_bio(random, limits, 8 * 1024, first);
        random_bio(random, limits, 8 * 1024, second);
        second.bio.op = first.bio.op;
        second.bio.sector = first.bio.sector + first.bio.sectors;
        const Cut cut_first = next_cut(limits, first.bio);
        const Cut cut_second = next_cut(limits, second.bio);
        const auto memory = bytes_of({&first.bio, &second.bio});
        const ModelCut whole = longest_request(limits, memory, 0, first.bio.sector * 512);
        const bool fits = whole.bytes == memory.size();
        const auto extent = [](const Bio& bio, std::uint32_t segments) {
            return Extent{bio.op, bio.flags, bio.sector, bio.sectors, segments, &bio, &bio};
        };
        std::uint32_t segments = 0;
        if (cut_first.sectors == first.bio.sectors) {
            ASSERT_EQ(may_merge_back(limits, extent(first.bio, cut_first.segments), second.bio, segments), fits);
            ASSERT_TRUE(!fits || segments == whole.pieces.size());
        }
        if (cut_second.sectors == second.bio.sectors) {
            ASSERT_EQ(may_merge_front(limits, extent(second.bio, cut_second.segments), first.bio, segments), fits);
            ASSERT_TRUE(!fits || segments == whole.pieces.size());
        }
        if (fits) {
            ++merged;
            first.bio.progress.next = &second.bio;
            Request request = request_for(limits, first.bio, {whole.bytes / 512, segments, Status::ok});
            ASSERT_EQ(pieces_of(request), whole.pieces);
        }
    }
    EXPECT_GT(merged, fast_seeds / 20);
}

TEST(Split, MergeRefusesOtherKinds) {
    std::byte memory[1024];
    const Segment low[] = {{memory, 512}}, high[] = {{memory + 512, 512}};
    QueueLimits limits;
    limits.max_discard_sectors = limits.max_write_zeroes_sectors = 64;
    const auto tried = [&](Op op, std::uint8_t flags, Op other_op, std::uint8_t other_flags, std::uint64_t gap) {
        Bio first, second;
        first.op = op;
        first.flags = flags;
        second.op = other_op;
        second.flags = other_flags;
        first.sectors = second.sectors = 1;
        second.sector = 1 + gap;
        first.data = low;
        second.data = high;
        const std::uint32_t pieces = carries_data(op) ? 1 : 0;
        std::uint32_t segments = 0;
        const Extent extent{op, flags, 0, 1, pieces, &first, &first};
        return may_merge_back(limits, extent, second, segments);
    };
    EXPECT_TRUE(tried(Op::write, 0, Op::write, 0, 0));
    EXPECT_TRUE(tried(Op::write, 0, Op::write, bio_polled, 0));
    EXPECT_TRUE(tried(Op::discard, 0, Op::discard, 0, 0));
    EXPECT_FALSE(tried(Op::write, 0, Op::write, 0, 1));
    EXPECT_FALSE(tried(Op::write, 0, Op::read, 0, 0));
    EXPECT_FALSE(tried(Op::flush, 0, Op::flush, 0, 0));
    EXPECT_FALSE(tried(Op::write_zeroes, 0, Op::write_zeroes, 0, 0));
    for (const std::uint8_t flag : {bio_fua, bio_preflush, bio_nomerge}) {
        EXPECT_FALSE(tried(Op::write, flag, Op::write, flag, 0)) << int{flag};
        EXPECT_FALSE(tried(Op::write, 0, Op::write, flag, 0)) << int{flag};
    }
}

TEST(Split, RangesWithoutDataFollowGranulesAndMaxima) {
    for (std::uint64_t seed = 0; seed < 5000; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed + 3'000'000);
        const QueueLimits limits = random_limits(random);
        const std::uint64_t block = limits.logical_block_size / 512;
        Bio bio;
        bio.op = random.below(2) == 0 ? Op::discard : Op::write_zeroes;
        bio.sector = random.below(1000) * block;
        bio.sectors = (1 + random.below(1000)) * block;
        const std::uint64_t most = bio.op == Op::discard ? limits.max_discard_sectors : limits.max_write_zeroes_sectors;
        if (most == 0) {
            ASSERT_EQ(check(limits, ~0ull, false, bio), Status::not_supported);
            ASSERT_EQ(next_cut(limits, bio).status, Status::not_supported);
            continue;
        }
        const std::uint64_t granule = std::max<std::uint64_t>(limits.discard_granularity / 512, block);
        while (bio.progress.issued < bio.sectors) {
            const Cut cut = next_cut(limits, bio);
            ASSERT_EQ(cut.status, Status::ok);
            ASSERT_EQ(cut.segments, 0u);
            ASSERT_GT(cut.sectors, 0u);
            ASSERT_LE(cut.sectors, most);
            ASSERT_EQ(cut.sectors % block, 0u);
            const std::uint64_t start = bio.sector + bio.progress.issued;
            const std::uint64_t end = start + cut.sectors;
            ASSERT_LE(end, bio.sector + bio.sectors);
            if (end < bio.sector + bio.sectors && bio.op == Op::discard) {
                ASSERT_EQ((end + granule * 64 - limits.discard_alignment / 512) % granule, 0u);
                ASSERT_GT(cut.sectors + granule, most - most % granule);  // no granule more would fit
            } else if (end < bio.sector + bio.sectors) {
                ASSERT_GT(cut.sectors + limits.physical_block_size / 512, most);
            }
            advance(bio, cut.sectors);
        }
    }
}

/// What fits a stack fits both of its layers whole.
TEST(Limits, StackedRequestsFitBothLayers) {
    unsigned compared = 0;
    OwnedBio owned;
    for (std::uint64_t seed = 0; seed < fast_seeds; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed + 4'000'000);
        const QueueLimits upper = random_limits(random), lower = random_limits(random);
        const QueueLimits both = upper.stack(lower);
        if (!both.validate()) continue;
        random_bio(random, both, 12 * 1024, owned);
        for (;;) {
            const Cut cut = next_cut(both, owned.bio);
            if (cut.sectors == 0) break;
            std::vector<Segment> pieces;
            request_for(both, owned.bio, cut).for_each_segment([&](std::byte* at, std::size_t bytes) {
                pieces.push_back({at, bytes});
            });
            for (const QueueLimits* layer : {&upper, &lower}) {
                Bio part;
                part.op = owned.bio.op;
                part.sector = owned.bio.sector + owned.bio.progress.issued;
                part.sectors = cut.sectors;
                part.data = pieces;
                ASSERT_EQ(check(*layer, ~0ull, false, part), Status::ok);
                ASSERT_EQ(next_cut(*layer, part).sectors, cut.sectors);
                ASSERT_EQ(next_cut(*layer, part).segments, cut.segments);
                ++compared;
            }
            advance(owned.bio, cut.sectors);
        }
        for (const Op op : {Op::discard, Op::write_zeroes}) {
            Bio range;
            range.op = op;
            range.sector = random.below(100) * (both.logical_block_size / 512);
            range.sectors = 1000 * (both.logical_block_size / 512);
            if (check(both, ~0ull, false, range) != Status::ok) continue;
            range.sectors = next_cut(both, range).sectors;
            ASSERT_EQ(next_cut(upper, range).sectors, range.sectors) << to_string(op);
            ASSERT_EQ(next_cut(lower, range).sectors, range.sectors) << to_string(op);
        }
    }
    EXPECT_GT(compared, fast_seeds);
}

TEST(Limits, StackTakesTheStricterOfEach) {
    QueueLimits upper, lower;
    upper.io_opt = 3 * 4096;
    lower.io_opt = 2 * 4096;
    lower.physical_block_size = lower.io_min = 4096;
    upper.write_cache = false;
    lower.write_cache = lower.fua = true;
    const QueueLimits both = upper.stack(lower);
    EXPECT_EQ(both.io_opt, 6u * 4096);
    EXPECT_EQ(both.physical_block_size, 4096u);
    EXPECT_TRUE(both.write_cache);
    EXPECT_TRUE(both.fua) << "the upper device has no cache, so it honours FUA by nature";
    lower.fua = false;
    EXPECT_FALSE(upper.stack(lower).fua);
    EXPECT_EQ(both.max_discard_sectors, 0u);
}

TEST(Limits, ValidateNamesWhatIsWrong) {
    EXPECT_TRUE(QueueLimits{}.validate());
    struct Case {
        const char* word;
        void (*spoil)(QueueLimits&);
    };
    const Case cases[] = {
        {"logical_block_size=513", [](QueueLimits& q) { q.logical_block_size = 513; }},
        {"logical_block_size=256", [](QueueLimits& q) { q.logical_block_size = 256; }},
        {"physical_block_size=512", [](QueueLimits& q) { q.logical_block_size = 4096; }},
        {"io_min=512", [](QueueLimits& q) { q.physical_block_size = 4096; }},
        {"io_opt=100", [](QueueLimits& q) { q.io_opt = 100; }},
        {"alignment_offset=512", [](QueueLimits& q) { q.alignment_offset = 512; }},
        {"max_sectors=0", [](QueueLimits& q) { q.max_sectors = 0; }},
        {"chunk_sectors=9",
         [](QueueLimits& q) {
             q.logical_block_size = q.physical_block_size = q.io_min = 4096;
             q.chunk_sectors = 9;
         }},
        {"dma_alignment=0x5", [](QueueLimits& q) { q.dma_alignment = 5; }},
        {"dma_alignment=0x3ff", [](QueueLimits& q) { q.dma_alignment = 1023; }},
        {"seg_boundary_mask=0x1000", [](QueueLimits& q) { q.seg_boundary_mask = 4096; }},
        {"virt_boundary_mask=0x1001", [](QueueLimits& q) { q.virt_boundary_mask = 4097; }},
        {"max_segments=0", [](QueueLimits& q) { q.max_segments = 0; }},
        {"max_segment_size=255",
         [](QueueLimits& q) {
             q.max_segment_size = 255;
             q.max_segments = 2;
         }},
        {"max_segment_size=6",
         [](QueueLimits& q) {
             q.max_segment_size = 6;
             q.dma_alignment = 3;
         }},
        {"discard_granularity=100", [](QueueLimits& q) { q.discard_granularity = 100; }},
        {"max_discard_sectors=1",
         [](QueueLimits& q) {
             q.discard_granularity = 1024;
             q.max_discard_sectors = 1;
         }},
        {"max_write_zeroes_sectors=1",
         [](QueueLimits& q) {
             q.logical_block_size = q.physical_block_size = q.io_min = 4096;
             q.max_write_zeroes_sectors = 1;
         }},
    };
    for (const Case& c : cases) {
        QueueLimits limits;
        c.spoil(limits);
        const auto result = limits.validate();
        ASSERT_FALSE(result) << c.word;
        EXPECT_EQ(result.error().code(), Errc::invalid_argument);
        EXPECT_NE(result.error().message().find(c.word), std::string::npos) << result.error().message();
    }
}

TEST(Split, CheckSaysWhatIsWrong) {
    alignas(512) std::byte memory[8192];
    QueueLimits limits;
    limits.logical_block_size = limits.physical_block_size = limits.io_min = 4096;
    limits.dma_alignment = 3;
    limits.max_write_zeroes_sectors = 8;
    const auto checked = [&](Op op, std::uint64_t sector, std::uint64_t sectors, std::vector<Segment> data,
                             bool read_only = false) {
        Bio bio;
        bio.op = op;
        bio.sector = sector;
        bio.sectors = sectors;
        bio.data = data;
        return check(limits, 80, read_only, bio);
    };
    const std::vector<Segment> block{{memory, 4096}};
    EXPECT_EQ(checked(Op::read, 72, 8, block), Status::ok);
    EXPECT_EQ(checked(Op::read, 0, 8, {{memory, 4}, {memory + 8, 0}, {memory + 16, 4092}}), Status::ok);
    EXPECT_EQ(checked(Op::read, 4, 8, block), Status::invalid);
    EXPECT_EQ(checked(Op::read, 0, 4, block), Status::invalid);
    EXPECT_EQ(checked(Op::read, 0, 0, {}), Status::invalid);
    EXPECT_EQ(checked(Op::read, 0, 16, block), Status::invalid) << "too little memory";
    EXPECT_EQ(checked(Op::read, 0, 8, {{memory, 8192}}), Status::invalid) << "too much memory";
    EXPECT_EQ(checked(Op::read, 0, 8, {{memory, ~3ull}, {memory, 4100}}), Status::invalid) << "length wraps";
    EXPECT_EQ(checked(Op::read, 0, 8, {{memory + 2, 4096}}), Status::invalid) << "odd address";
    EXPECT_EQ(checked(Op::read, 0, 8, {{memory, 2}, {memory + 4, 4094}}), Status::invalid) << "odd length";
    EXPECT_EQ(checked(Op::read, 80, 8, block), Status::out_of_range);
    EXPECT_EQ(checked(Op::read, 72, 16, block), Status::out_of_range);
    EXPECT_EQ(checked(Op::read, ~7ull, 8, block), Status::out_of_range);
    EXPECT_EQ(checked(Op::read, 8, ~7ull, block), Status::out_of_range);
    EXPECT_EQ(checked(Op::discard, 0, 8, {}), Status::not_supported);
    EXPECT_EQ(checked(Op::write_zeroes, 0, 8, {}), Status::ok);
    EXPECT_EQ(checked(Op::write_zeroes, 0, 8, {}, true), Status::read_only);
    EXPECT_EQ(checked(Op::write, 0, 8, block, true), Status::read_only);
    EXPECT_EQ(checked(Op::read, 0, 8, block, true), Status::ok);
    EXPECT_EQ(checked(Op::flush, 0, 0, {}, true), Status::ok);
    EXPECT_EQ(checked(static_cast<Op>(99), 0, 8, {}), Status::invalid);
}

}  // namespace
}  // namespace mqblk::block
