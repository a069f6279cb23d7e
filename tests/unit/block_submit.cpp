// SPDX-License-Identifier: Apache-2.0
#include "block_support.h"

namespace mqblk::test {
namespace {

TEST(BlockSubmit, EndsOnceFromPollAndNeverFromSubmit) {
    Bench bench;
    TestBio bio(Op::read, 8, 8);
    bench.submit(bio);
    EXPECT_EQ(bio.ends, 0u);
    EXPECT_EQ(bench.channel->outstanding(), 1u);
    EXPECT_EQ(bench.channel->poll(), 1u);
    EXPECT_EQ(bio.ends, 1u);
    EXPECT_EQ(bio.bio.status, Status::ok);
    EXPECT_EQ(bench.channel->outstanding(), 0u);
    EXPECT_EQ(bench.channel->poll(), 0u);
    ASSERT_EQ(bench.queue().seen.size(), 1u);
    EXPECT_TRUE(bench.queue().seen[0].last);
}

TEST(BlockSubmit, WaitRunsTheReactorUntilOneEnds) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::next_poll;
    TestBio bio(Op::write, 0, 1);
    bench.submit(bio);
    EXPECT_EQ(bench.queue().core().in_flight(), 1u);
    EXPECT_EQ(bench.channel->wait(), 1u);
    EXPECT_EQ(bio.ends, 1u);
    EXPECT_EQ(bench.queue().core().in_flight(), 0u);
    EXPECT_EQ(bench.channel->wait(), 0u);  // nothing outstanding
}

TEST(BlockSubmit, TheReactorAloneDeliversCompletions) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::next_poll;
    TestBio bio(Op::read, 0, 8);
    bench.submit(bio);
    for (int i = 0; i < 4; ++i) bench.reactor.run_once(Reactor::Sleep::no);
    EXPECT_EQ(bio.ends, 1u);
    // An idle lane leaves the reactor alone.
    bench.reactor.run_once(Reactor::Sleep::yes);
    EXPECT_EQ(bench.reactor.sleeps, 1u);
}

struct Refusal {
    const char* what;
    Op op;
    std::uint64_t sector, sectors;
    Status status;
};

TEST(BlockSubmit, BadBiosEndWithAStatusAndReachNoDriver) {
    QueueLimits limits;
    limits.logical_block_size = limits.physical_block_size = 4096;
    limits.io_min = 4096;
    const Refusal table[] = {
        {"sector not on a block", Op::read, 4, 8, Status::invalid},
        {"length not of blocks", Op::write, 0, 4, Status::invalid},
        {"beyond the end", Op::read, 1 << 20, 8, Status::out_of_range},
        {"over the end", Op::read, (1 << 20) - 8, 16, Status::out_of_range},
        {"sector near 2^64", Op::read, ~0ull - 7, 8, Status::out_of_range},
        {"no discard", Op::discard, 0, 8, Status::not_supported},
    };
    for (const Refusal& row : table) {
        Bench bench(Bench::shape(32), limits);
        TestBio bio(row.op, row.sector, row.sectors);
        bench.submit(bio);
        EXPECT_EQ(bio.ends, 0u) << row.what;
        bench.drain();
        EXPECT_EQ(bio.ends, 1u) << row.what;
        EXPECT_EQ(to_string(bio.bio.status), to_string(row.status)) << row.what;
        EXPECT_TRUE(bench.queue().seen.empty()) << row.what;
    }
}

TEST(BlockSubmit, ResubmittingFromTheCallbackGoesOutAsOneBatch) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::next_poll;
    struct Again {
        TestBio bio{Op::read, 0, 8};
        Channel* channel;
        int left = 3;
    };
    Again ring[4];
    for (Again& each : ring) {
        each.channel = bench.channel.get();
        each.bio.bio.context = &each;
        each.bio.bio.done = [](Bio& bio) noexcept {
            auto& self = *static_cast<Again*>(bio.context);
            if (--self.left > 0) self.channel->submit(bio);
        };
        bench.submit(each.bio);
    }
    bench.queue().seen.clear();
    bench.queue().commits = 0;
    bench.channel->poll();
    ASSERT_EQ(bench.queue().seen.size(), 4u);
    for (const Seen& seen : bench.queue().seen) EXPECT_FALSE(seen.last);
    EXPECT_EQ(bench.queue().commits, 1u);
    bench.drain();
    for (const Again& each : ring) EXPECT_EQ(each.left, 0);
}

TEST(BlockSubmit, DisksOfOneDriverShareTheThreadsQueue) {
    Bench bench;
    const auto other = bench.add_disk();
    const auto channel = bench.open(*other);
    EXPECT_EQ(bench.driver->opened, (std::vector<unsigned>{0}));
    TestBio first(Op::read, 0, 8), second(Op::read, 0, 8);
    bench.submit(first);
    channel->submit(second.bio);
    EXPECT_EQ(bench.channel->poll(), 1u);  // its own only
    EXPECT_EQ(first.ends, 1u);
    EXPECT_EQ(second.ends, 0u);
    EXPECT_EQ(channel->poll(), 1u);
    EXPECT_EQ(second.ends, 1u);
}

TEST(BlockSubmit, AClosedQueueIsOpenedAgain) {
    Bench bench(Bench::shape(8, 3));
    bench.channel.reset();
    EXPECT_EQ(bench.driver->queues[0], nullptr);
    bench.channel = bench.open();
    EXPECT_EQ(bench.driver->opened, (std::vector<unsigned>{0, 0}));
    TestBio bio(Op::read, 0, 8);
    bench.submit(bio);
    bench.drain();
    EXPECT_EQ(bio.ends, 1u);
}

TEST(BlockSubmit, ClosingAChannelAbortsWhatIsOutstanding) {
    Bench bench(Bench::shape(2));
    bench.driver->mode = TestDriver::Mode::hold;
    TestBio bios[4] = {{Op::read, 0, 8}, {Op::read, 100, 8}, {Op::read, 200, 8}, {Op::read, 300, 8}};
    for (TestBio& bio : bios) bench.submit(bio);
    bench.channel.reset();
    for (const TestBio& bio : bios) {
        EXPECT_EQ(bio.ends, 1u);
        EXPECT_EQ(bio.bio.status, Status::aborted);
    }
}

}  // namespace
}  // namespace mqblk::test
