// SPDX-License-Identifier: Apache-2.0
//
// When flushes go out: rules C1 to C3 of block/flush.h, on a device that has a write cache and does not honour FUA.
#include "block_support.h"

#include <deque>

namespace mqblk::test {
namespace {

using std::chrono::seconds;

struct Cached : Bench {
    Cached() : Bench(Bench::shape(32), limits()) { driver->mode = TestDriver::Mode::hold; }
    static QueueLimits limits() {
        QueueLimits made = Bench::default_limits();
        made.write_cache = true;
        return made;
    }
    TestBio& start(Op op, std::uint64_t sector, std::uint8_t flags = 0) {
        TestBio& bio = bios.emplace_back(op, sector, op == Op::flush ? 0 : 8, flags);
        submit(bio);
        return bio;
    }
    /// Ends the oldest request and lets what follows from it happen.
    void end_one(Status status = Status::ok) {
        ASSERT_TRUE(queue().complete_one(status));
        channel->poll();
    }
    /// All that the driver saw: F flush, W write, R read.
    std::string seen() {
        std::string text;
        for (const Seen& each : queue().seen) text += each.op == Op::flush ? 'F' : each.op == Op::read ? 'R' : 'W';
        return text;
    }
    std::deque<TestBio> bios;
};

TEST(BlockFlush, IsHeldBackWhileDataOfASequenceAreOnTheirWayAndThenServesAll) {
    Cached bench;
    TestBio& first = bench.start(Op::write, 0, bio_fua);
    TestBio& second = bench.start(Op::write, 100, bio_fua);
    TestBio& flush = bench.start(Op::flush, 0);
    EXPECT_EQ(bench.seen(), "WW");  // C2
    bench.end_one();
    EXPECT_EQ(bench.seen(), "WW");
    bench.end_one();
    EXPECT_EQ(bench.seen(), "WWF");
    bench.end_one();
    for (const TestBio* bio : {&first, &second, &flush}) EXPECT_EQ(bio->ends, 1u);
    EXPECT_EQ(bench.seen(), "WWF");
    EXPECT_EQ(bench.channel->outstanding(), 0u);
}

TEST(BlockFlush, IsNotHeldBackByOtherWrites) {
    Cached bench;
    bench.start(Op::write, 0);
    bench.start(Op::read, 100);
    bench.start(Op::flush, 0);
    EXPECT_EQ(bench.seen(), "WRF");
    while (bench.channel->outstanding() != 0) bench.end_one();
}

TEST(BlockFlush, DataAfterAPreflushHoldItBackToo) {
    Cached bench;
    bench.start(Op::write, 0, bio_preflush);
    EXPECT_EQ(bench.seen(), "F");
    bench.end_one();
    EXPECT_EQ(bench.seen(), "FW");
    bench.start(Op::flush, 0);
    EXPECT_EQ(bench.seen(), "FW");
    bench.end_one();
    EXPECT_EQ(bench.seen(), "FWF");
    bench.end_one();
    EXPECT_EQ(bench.channel->outstanding(), 0u);
}

TEST(BlockFlush, AStreamOfSuchDataHoldsItBackForFiveSecondsAtMost) {
    Cached bench;
    bench.start(Op::write, 0, bio_fua);
    TestBio& flush = bench.start(Op::flush, 0);
    const Time start = bench.clock.now();
    for (unsigned i = 1; bench.seen().find('F') == std::string::npos; ++i) {
        ASSERT_LE(bench.clock.now() - start, seconds(6));
        bench.clock.advance(std::chrono::milliseconds(500));
        bench.start(Op::write, i * 100, bio_fua);  // there is always one more
        if (bench.seen().find('F') == std::string::npos) bench.end_one();
    }
    EXPECT_GE(bench.clock.now() - start, seconds(5));  // C3
    while (bench.channel->outstanding() != 0) bench.end_one();
    EXPECT_EQ(flush.bio.status, Status::ok);
    for (const TestBio& bio : bench.bios) EXPECT_EQ(bio.ends, 1u);
}

TEST(BlockFlush, OneIsInFlightAndThoseThatComeMeanwhileShareTheNext) {
    Cached bench;
    TestBio& first = bench.start(Op::flush, 0);
    TestBio& second = bench.start(Op::flush, 0);
    TestBio& third = bench.start(Op::write, 0, bio_preflush);
    EXPECT_EQ(bench.seen(), "F");  // C1: the one in flight may have begun before they came
    bench.end_one();
    EXPECT_EQ(first.ends, 1u);
    EXPECT_EQ(second.ends, 0u);
    EXPECT_EQ(bench.seen(), "FF");
    bench.end_one();
    EXPECT_EQ(second.ends, 1u);
    EXPECT_EQ(third.ends, 0u);
    EXPECT_EQ(bench.seen(), "FFW");
    bench.end_one();
    EXPECT_EQ(third.ends, 1u);
}

TEST(BlockFlush, AnErrorEndsASequenceWhereItStandsAndLetsTheOthersGo) {
    Cached bench;
    TestBio& failed = bench.start(Op::write, 0, bio_fua);
    TestBio& flush = bench.start(Op::flush, 0);
    bench.end_one(Status::medium_error);
    EXPECT_EQ(failed.bio.status, Status::medium_error);
    EXPECT_EQ(failed.ends, 1u);
    EXPECT_EQ(bench.seen(), "WF");
    TestBio& after = bench.start(Op::write, 0, bio_preflush | bio_fua);
    bench.end_one(Status::io_error);
    EXPECT_EQ(flush.bio.status, Status::io_error);
    EXPECT_EQ(bench.seen(), "WFF");
    bench.end_one(Status::io_error);
    EXPECT_EQ(after.bio.status, Status::io_error);
    EXPECT_EQ(bench.seen(), "WFF");
    EXPECT_EQ(bench.channel->outstanding(), 0u);
}

TEST(BlockFlush, ClosingInTheMiddleOfASequenceEndsIt) {
    Cached bench;
    for (unsigned i = 0; i < 40; ++i) bench.start(Op::write, i * 8, bio_fua);  // more than there are tags
    bench.start(Op::flush, 0);
    bench.end_one();
    bench.channel.reset();
    for (const TestBio& bio : bench.bios) {
        EXPECT_EQ(bio.ends, 1u);
        EXPECT_EQ(bio.bio.status, Status::aborted);
    }
}

TEST(BlockFlush, DataOfASequencePassTheScheduler) {
    Cached bench;
    ASSERT_TRUE(bench.device->set_attribute("scheduler", "mq-deadline"));
    TestBio urgent(Op::read, 0, 8);
    urgent.bio.priority = Priority::realtime;
    bench.submit(urgent);
    bench.start(Op::write, 100);  // waits in the scheduler for the urgent one
    bench.start(Op::write, 200, bio_fua);
    EXPECT_EQ(bench.seen(), "RW");
    EXPECT_EQ(bench.queue().seen.back().sector, 200u);
    while (bench.channel->outstanding() != 0) bench.end_one();
    EXPECT_EQ(urgent.ends, 1u);
}

}  // namespace
}  // namespace mqblk::test
