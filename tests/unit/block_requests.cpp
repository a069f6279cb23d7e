// SPDX-License-Identifier: Apache-2.0
//
// Bios and requests: cutting, merging, flush sequences, statistics.
#include "block_support.h"

#include <deque>

namespace mqblk::test {
namespace {

QueueLimits small_limits() {
    QueueLimits limits = Bench::default_limits();
    limits.max_sectors = 8;
    return limits;
}

TEST(BlockRequests, ALongBioIsCutAndEndsOnce) {
    for (const auto mode : {TestDriver::Mode::inline_done, TestDriver::Mode::next_poll}) {
        Bench bench(Bench::shape(3), small_limits());  // fewer tags than pieces
        bench.driver->mode = mode;
        TestBio bio(Op::write, 16, 60);
        bench.submit(bio);
        bench.drain();
        EXPECT_EQ(bio.ends, 1u);
        EXPECT_EQ(bio.bio.status, Status::ok);
        std::uint64_t next = 16;
        for (const Seen& seen : bench.queue().seen) {
            EXPECT_EQ(seen.sector, next);
            EXPECT_LE(seen.sectors, 8u);
            next += seen.sectors;
        }
        EXPECT_EQ(next, 76u);
        EXPECT_EQ(block::statistics(*bench.device).splits, bench.queue().seen.size());
        EXPECT_EQ(block::statistics(*bench.device).of(block::OpGroup::write).ios, 1u);
    }
}

TEST(BlockRequests, TheFirstErrorOfItsPiecesIsTheBios) {
    Bench bench(Bench::shape(32), small_limits());
    bench.driver->mode = TestDriver::Mode::next_poll;
    bench.driver->result = [](const block::Request& request) {
        if (request.sector == 24) return Status::medium_error;
        return request.sector == 40 ? Status::no_space : Status::ok;
    };
    TestBio bio(Op::read, 0, 64), after(Op::read, 100, 8);
    bench.submit(bio);
    bench.submit(after);
    bench.drain();
    EXPECT_EQ(bio.ends, 1u);
    EXPECT_EQ(bio.bio.status, Status::medium_error);
    EXPECT_EQ(after.bio.status, Status::ok);
    EXPECT_EQ(block::statistics(*bench.device).of(block::OpGroup::read).errors, 1u);
}

TEST(BlockRequests, APieceThatFailsStopsTheCutting) {
    Bench bench(Bench::shape(1), small_limits());
    bench.driver->mode = TestDriver::Mode::hold;
    TestBio bio(Op::read, 0, 64);
    bench.submit(bio);
    bench.queue().complete_one(Status::io_error);
    bench.drain();
    EXPECT_EQ(bio.ends, 1u);
    EXPECT_EQ(bio.bio.status, Status::io_error);
    EXPECT_EQ(bench.queue().seen.size(), 1u);
}

TEST(BlockRequests, NeighboursInThePlugBecomeOneRequest) {
    Bench bench;
    bench.channel->plug();
    TestBio b(Op::write, 8, 8), c(Op::write, 16, 8), a(Op::write, 0, 8), far(Op::write, 100, 8);
    for (TestBio* bio : {&b, &c, &a, &far}) bench.submit(*bio);
    EXPECT_TRUE(bench.queue().seen.empty());
    bench.channel->unplug();
    ASSERT_EQ(bench.queue().seen.size(), 2u);
    EXPECT_EQ(bench.queue().seen[0].sector, 0u);
    EXPECT_EQ(bench.queue().seen[0].sectors, 24u);
    EXPECT_EQ(bench.queue().seen[0].segments, 3u);
    EXPECT_EQ(bench.queue().seen[1].sector, 100u);
    bench.drain();
    for (const TestBio* bio : {&b, &c, &a, &far}) EXPECT_EQ(bio->ends, 1u);
    EXPECT_EQ(block::statistics(*bench.device).of(block::OpGroup::write).merges, 2u);
    EXPECT_EQ(block::statistics(*bench.device).of(block::OpGroup::write).ios, 4u);
    EXPECT_EQ(block::statistics(*bench.device).requests, 2u);
}

TEST(BlockRequests, TheDataOfMergedBiosIsFoundInOrder) {
    Bench bench;
    std::vector<std::byte> written;
    bench.driver->result = [&](const block::Request& request) {
        request.for_each_segment(
            [&](std::byte* at, std::size_t bytes) { written.insert(written.end(), at, at + bytes); });
        return Status::ok;
    };
    bench.channel->plug();
    TestBio b(Op::write, 1, 1), a(Op::write, 0, 1), c(Op::write, 2, 2);
    std::ranges::fill(a.memory, std::byte{0xa});
    std::ranges::fill(b.memory, std::byte{0xb});
    std::ranges::fill(c.memory, std::byte{0xc});
    for (TestBio* bio : {&b, &a, &c}) bench.submit(*bio);
    bench.channel->unplug();
    ASSERT_EQ(written.size(), 2048u);
    EXPECT_EQ(written[0], std::byte{0xa});
    EXPECT_EQ(written[512], std::byte{0xb});
    EXPECT_EQ(written[1024], std::byte{0xc});
    EXPECT_EQ(written[2047], std::byte{0xc});
    bench.drain();
}

TEST(BlockRequests, NotMerged) {
    struct Case {
        const char* what;
        const char* nomerges;
        Op first, second;
        std::uint8_t flags;
        std::uint64_t second_sector;
    };
    for (const Case& row : {Case{"forbidden by attribute", "2", Op::write, Op::write, 0, 8},
                            Case{"other direction", "0", Op::write, Op::read, 0, 8},
                            Case{"its own wish", "0", Op::write, Op::write, bio_nomerge, 8},
                            Case{"FUA", "0", Op::write, Op::write, bio_fua, 8},
                            Case{"a hole between", "0", Op::write, Op::write, 0, 9}}) {
        Bench bench;
        ASSERT_TRUE(bench.device->set_attribute("nomerges", row.nomerges));
        bench.channel->plug();
        TestBio first(row.first, 0, 8), second(row.second, row.second_sector, 8, row.flags);
        bench.submit(first);
        bench.submit(second);
        bench.channel->unplug();
        bench.drain();
        EXPECT_EQ(bench.queue().seen.size(), 2u) << row.what;
        EXPECT_EQ(first.ends + second.ends, 2u) << row.what;
    }
}

TEST(BlockRequests, AFullPlugAndTheEndOfAPassSendIt) {
    Bench bench;
    bench.channel->plug();
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 33; ++i) bench.submit(bios.emplace_back(Op::read, i * 100, 8));
    EXPECT_EQ(bench.queue().seen.size(), 32u);
    bench.channel->poll();
    EXPECT_EQ(bench.queue().seen.size(), 33u);
    bench.drain();
    bench.channel->unplug();
    for (const TestBio& bio : bios) EXPECT_EQ(bio.ends, 1u);
}

struct FlushCase {
    const char* what;
    bool write_cache, fua;
    Op op;
    std::uint8_t flags;
    const char* expected;  ///< F flush, W write, U write with FUA, R read
};

TEST(BlockRequests, FlushSequences) {
    const FlushCase table[] = {
        {"flush, write-through", false, false, Op::flush, 0, ""},
        {"flush", true, false, Op::flush, 0, "F"},
        {"preflush, write-through", false, false, Op::write, bio_preflush, "W"},
        {"preflush", true, false, Op::write, bio_preflush, "FW"},
        {"FUA, write-through", false, true, Op::write, bio_fua, "W"},
        {"FUA honoured", true, true, Op::write, bio_fua, "U"},
        {"FUA not honoured", true, false, Op::write, bio_fua, "WF"},
        {"both, honoured", true, true, Op::write, bio_fua | bio_preflush, "FU"},
        {"both, not honoured", true, false, Op::write, bio_fua | bio_preflush, "FWF"},
        {"FUA read", true, false, Op::read, bio_fua, "R"},
        {"plain", true, false, Op::write, 0, "W"},
    };
    for (const auto mode : {TestDriver::Mode::inline_done, TestDriver::Mode::next_poll}) {
        for (const FlushCase& row : table) {
            QueueLimits limits = Bench::default_limits();
            limits.write_cache = row.write_cache;
            limits.fua = row.fua;
            Bench bench(Bench::shape(32), limits);
            bench.driver->mode = mode;
            TestBio bio(row.op, 0, row.op == Op::flush ? 0 : 8, row.flags);
            bench.submit(bio);
            EXPECT_EQ(bio.ends, 0u);
            bench.drain();
            std::string seen;
            for (const Seen& each : bench.queue().seen)
                seen += each.op == Op::flush ? 'F' : each.op == Op::read ? 'R' : each.flags != 0 ? 'U' : 'W';
            EXPECT_EQ(seen, row.expected) << row.what;
            EXPECT_EQ(bio.ends, 1u) << row.what;
            EXPECT_EQ(bio.bio.status, Status::ok) << row.what;
        }
    }
}

TEST(BlockRequests, AFailedStageEndsTheSequence) {
    for (unsigned failing = 0; failing < 3; ++failing) {
        QueueLimits limits = Bench::default_limits();
        limits.write_cache = true;
        Bench bench(Bench::shape(32), limits);
        bench.driver->mode = TestDriver::Mode::next_poll;
        unsigned step = 0;
        bench.driver->result = [&](const block::Request&) { return step++ == failing ? Status::io_error : Status::ok; };
        TestBio bio(Op::write, 0, 8, bio_fua | bio_preflush);
        bench.submit(bio);
        bench.drain();
        EXPECT_EQ(bio.ends, 1u);
        EXPECT_EQ(bio.bio.status, Status::io_error);
        EXPECT_EQ(bench.queue().seen.size(), failing + 1);
    }
}

TEST(BlockRequests, OneFlushInFlightAndTheNextIsShared) {
    QueueLimits limits = Bench::default_limits();
    limits.write_cache = true;
    Bench bench(Bench::shape(32), limits);
    bench.driver->mode = TestDriver::Mode::hold;
    TestBio first(Op::flush, 0, 0), second(Op::flush, 0, 0), third(Op::flush, 0, 0);
    bench.submit(first);
    bench.submit(second);
    bench.submit(third);
    EXPECT_EQ(bench.queue().held(), 1u);
    bench.queue().complete_one();
    bench.channel->poll();
    EXPECT_EQ(first.ends, 1u);
    EXPECT_EQ(second.ends, 0u);
    EXPECT_EQ(bench.queue().held(), 1u);
    bench.queue().complete_one();
    bench.drain();
    EXPECT_EQ(bench.queue().seen.size(), 2u);
    EXPECT_EQ(second.ends + third.ends, 2u);
}

TEST(BlockRequests, StatisticsAddUpOverChannelsOpenAndClosed) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::hold;
    TestBio read(Op::read, 0, 8), write(Op::write, 100, 16), bad(Op::discard, 200, 8), waiting(Op::read, 300, 8);
    bench.submit(read);
    bench.clock.advance(std::chrono::microseconds(100));
    bench.queue().complete_one();
    bench.channel->poll();
    bench.channel.reset();
    bench.channel = bench.open();
    for (TestBio* bio : {&write, &bad, &waiting}) bench.submit(*bio);
    bench.queue().complete_one();
    bench.queue().complete_one(Status::io_error);
    bench.channel->poll();
    const block::Statistics total = block::statistics(*bench.device);
    EXPECT_EQ(total.of(block::OpGroup::read).ios, 1u);
    EXPECT_EQ(total.of(block::OpGroup::read).bytes, 4096u);
    EXPECT_EQ(total.of(block::OpGroup::read).latency.max(), 100'000u);
    EXPECT_EQ(total.of(block::OpGroup::write).bytes, 8192u);
    EXPECT_EQ(total.of(block::OpGroup::discard).errors, 1u);
    EXPECT_EQ(total.of(block::OpGroup::discard).bytes, 0u);
    EXPECT_EQ(total.in_flight, 1u);
    EXPECT_EQ(total.requests, 4u);
    bench.queue().complete_one();
    bench.drain();
}

}  // namespace
}  // namespace mqblk::test
