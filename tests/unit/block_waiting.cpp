// SPDX-License-Identifier: Apache-2.0
//
// What happens when tags or the driver are short.
#include "block_support.h"

#include <deque>

namespace mqblk::test {
namespace {

std::vector<std::uint64_t> sectors_seen(const TestQueue& queue) {
    std::vector<std::uint64_t> result;
    for (const Seen& seen : queue.seen) result.push_back(seen.sector);
    return result;
}

TEST(BlockWaiting, BiosWithoutATagGoInOrder) {
    Bench bench(Bench::shape(2));
    bench.driver->mode = TestDriver::Mode::hold;
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 6; ++i) bench.submit(bios.emplace_back(Op::read, i * 100, 8));
    EXPECT_EQ(bench.queue().seen.size(), 2u);
    for (unsigned i = 0; i < 6; ++i) {
        ASSERT_TRUE(bench.queue().complete_one());
        bench.channel->poll();
    }
    EXPECT_EQ(sectors_seen(bench.queue()), (std::vector<std::uint64_t>{0, 100, 200, 300, 400, 500}));
    for (const TestBio& bio : bios) EXPECT_EQ(bio.ends, 1u);
}

TEST(BlockWaiting, ALateSubmissionDoesNotOvertake) {
    Bench bench(Bench::shape(1));
    bench.driver->mode = TestDriver::Mode::hold;
    TestBio first(Op::read, 0, 8), second(Op::read, 100, 8), third(Op::read, 200, 8);
    bench.submit(first);
    bench.submit(second);
    bench.queue().complete_one();  // frees the tag, but the pass has not come yet
    bench.submit(third);
    bench.channel->poll();
    bench.queue().complete_one();
    bench.channel->poll();
    bench.queue().complete_one();
    bench.channel->poll();
    EXPECT_EQ(sectors_seen(bench.queue()), (std::vector<std::uint64_t>{0, 100, 200}));
}

TEST(BlockWaiting, ChannelsTakeTurns) {
    Bench bench(Bench::shape(1));
    bench.driver->mode = TestDriver::Mode::hold;
    const auto other_device = bench.add_disk();
    const auto other = bench.open(*other_device);
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 5; ++i) bench.submit(bios.emplace_back(Op::read, i * 100, 8));
    for (unsigned i = 0; i < 3; ++i) other->submit(bios.emplace_back(Op::read, 10000 + i * 100, 8).bio);
    while (bench.queue().complete_one()) {
        bench.channel->poll();
        other->poll();
    }
    EXPECT_EQ(sectors_seen(bench.queue()), (std::vector<std::uint64_t>{0, 10000, 100, 10100, 200, 10200, 300, 400}));
}

TEST(BlockWaiting, ABusyDriverIsAskedAgainFirstAfterACompletion) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::hold;
    TestBio first(Op::read, 0, 8), refused(Op::read, 100, 8), later(Op::read, 200, 8);
    bench.submit(first);
    bench.driver->busy = 1;
    bench.submit(refused);
    bench.submit(later);
    EXPECT_EQ(bench.queue().seen.size(), 1u);
    EXPECT_EQ(bench.channel->poll(), 0u);
    EXPECT_EQ(bench.queue().seen.size(), 1u) << "not offered before something changed";
    bench.queue().complete_one();
    bench.channel->poll();
    EXPECT_EQ(sectors_seen(bench.queue()), (std::vector<std::uint64_t>{0, 100, 200}));
    bench.queue().complete_one();
    bench.queue().complete_one();
    bench.drain();
    EXPECT_EQ(refused.ends, 1u);
    EXPECT_EQ(block::statistics(*bench.device).requeues, 1u);
}

TEST(BlockWaiting, ADriverWithNothingInFlightRestartsTheQueue) {
    Bench bench;
    bench.driver->busy = 3;
    TestBio bios[2] = {{Op::write, 0, 8}, {Op::write, 100, 8}};
    for (TestBio& bio : bios) bench.submit(bio);
    for (int i = 0; i < 5; ++i) bench.channel->poll();
    EXPECT_EQ(bench.driver->busy, 2u);
    bench.queue().core().restart();
    bench.channel->poll();
    EXPECT_EQ(bench.driver->busy, 1u);
    bench.queue().core().restart();
    bench.channel->poll();
    bench.queue().core().restart();
    bench.drain();
    EXPECT_EQ(sectors_seen(bench.queue()), (std::vector<std::uint64_t>{0, 100}));
    for (const TestBio& bio : bios) EXPECT_EQ(bio.ends, 1u);
}

TEST(BlockWaiting, NrRequestsBoundsWhatIsInFlight) {
    Bench bench(Bench::shape(32));
    bench.driver->mode = TestDriver::Mode::hold;
    ASSERT_TRUE(bench.device->set_attribute("nr_requests", "4"));
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 10; ++i) bench.submit(bios.emplace_back(Op::read, i * 100, 8));
    EXPECT_EQ(bench.queue().core().in_flight(), 4u);
    while (bench.queue().complete_one()) {
        bench.channel->poll();
        EXPECT_LE(bench.queue().core().in_flight(), 4u);
    }
    for (const TestBio& bio : bios) EXPECT_EQ(bio.ends, 1u);
}

TEST(BlockWaiting, TagsOfAHostAreSharedFairly) {
    block::Driver::Shape shape = Bench::shape(8, 4);
    shape.host_wide_tags = true;
    Bench bench(shape);
    bench.driver->mode = TestDriver::Mode::hold;
    ManualReactor second_reactor(bench.clock, bench.random);
    auto second = std::move(*bench.device->channel(second_reactor));
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 12; ++i) bench.submit(bios.emplace_back(Op::read, i * 100, 8));
    EXPECT_EQ(bench.queue(0).core().in_flight(), 8u);
    for (unsigned i = 0; i < 6; ++i) second->submit(bios.emplace_back(Op::read, i * 100, 8).bio);
    EXPECT_EQ(bench.queue(1).core().in_flight(), 0u);
    for (unsigned i = 0; i < 4; ++i) {
        ASSERT_TRUE(bench.queue(0).complete_one());
        bench.channel->poll();
        second->poll();
    }
    EXPECT_EQ(bench.queue(0).core().in_flight(), 4u);
    EXPECT_EQ(bench.queue(1).core().in_flight(), 4u);
    for (int i = 0; i < 100; ++i) {
        bench.queue(0).complete_one();
        bench.queue(1).complete_one();
        bench.channel->poll();
        second->poll();
    }
    for (const TestBio& bio : bios) EXPECT_EQ(bio.ends, 1u);
    second.reset();
}

TEST(BlockWaiting, ReservedRequestsAreTheDriversOwn) {
    block::Driver::Shape shape = Bench::shape(4);
    shape.reserved = 1;
    Bench bench(shape);
    bench.driver->mode = TestDriver::Mode::hold;
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 5; ++i) bench.submit(bios.emplace_back(Op::read, i * 100, 8));
    block::Queue& queue = bench.queue().core();
    EXPECT_EQ(queue.in_flight(), 3u);
    block::Request* const own = queue.allocate_reserved();
    ASSERT_NE(own, nullptr);
    EXPECT_EQ(own->tag, 0u);
    EXPECT_EQ(queue.find(0), own);
    EXPECT_EQ(queue.find(0, static_cast<std::uint16_t>(own->generation + 1), 0xffff), nullptr);
    EXPECT_EQ(queue.allocate_reserved(), nullptr);
    unsigned in_flight = 0;
    queue.for_each_in_flight([&](block::Request&) { ++in_flight; });
    EXPECT_EQ(in_flight, 3u);
    queue.free_reserved(*own);
    EXPECT_EQ(queue.find(0), nullptr);
    EXPECT_EQ(queue.find(4), nullptr);
    EXPECT_EQ(queue.find(~0u), nullptr);
    bench.channel.reset();
}

TEST(BlockWaiting, WhatIsCancelledIsNotSent) {
    for (const char* scheduler : {"none", "mq-deadline"}) {
        SCOPED_TRACE(scheduler);
        Bench bench(Bench::shape(1));
        ASSERT_TRUE(bench.device->set_attribute("scheduler", scheduler));
        bench.driver->mode = TestDriver::Mode::hold;
        std::deque<TestBio> bios;
        for (unsigned i = 0; i < 6; ++i) bench.submit(bios.emplace_back(Op::read, i * 100, 8));
        bench.channel->poll();
        ASSERT_EQ(bench.queue().seen.size(), 1u);
        for (const unsigned i : {0u, 1u, 3u, 5u}) bench.channel->cancel(bios[i].bio);
        EXPECT_EQ(bios[1].ends, 0u) << "not from within";
        bench.channel->drop_cancelled();
        bench.channel->poll();
        for (const unsigned i : {1u, 3u, 5u}) {
            EXPECT_EQ(bios[i].ends, 1u) << i << ", while the driver has another";
            EXPECT_EQ(bios[i].bio.status, Status::aborted);
        }
        EXPECT_EQ(bios[0].ends, 0u) << "the driver has it";
        while (bench.queue().complete_one()) bench.channel->poll();
        EXPECT_EQ(sectors_seen(bench.queue()), (std::vector<std::uint64_t>{0, 200, 400}));
        for (const TestBio& bio : bios) EXPECT_EQ(bio.ends, 1u);
        EXPECT_EQ(bios[2].bio.status, Status::ok);
        EXPECT_EQ(bench.channel->outstanding(), 0u);
    }
}

TEST(BlockWaiting, WhatIsCancelledLeavesABusyDriver) {
    Bench bench(Bench::shape(4));
    bench.driver->mode = TestDriver::Mode::hold;
    bench.driver->busy = 1000;
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 6; ++i) bench.submit(bios.emplace_back(Op::write, i * 100, 8));
    for (TestBio& bio : bios) {
        if (&bio != &bios[2]) bench.channel->cancel(bio.bio);
    }
    bench.channel->drop_cancelled();
    bench.channel->poll();
    for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(bios[i].ends, i == 2 ? 0u : 1u) << i;
    bench.driver->busy = 0;
    bench.queue().core().restart();
    bench.channel->poll();
    while (bench.queue().complete_one()) bench.channel->poll();
    EXPECT_EQ(sectors_seen(bench.queue()), (std::vector<std::uint64_t>{200}));
    EXPECT_EQ(bios[2].bio.status, Status::ok);
}

/// Neighbours that became one request go if nobody wants any of them, and stay together otherwise.
TEST(BlockWaiting, MergedBiosAreDroppedTogether) {
    for (const bool all : {false, true}) {
        Bench bench(Bench::shape(1));
        bench.driver->mode = TestDriver::Mode::hold;
        TestBio first(Op::read, 1000, 8), one(Op::read, 0, 8), two(Op::read, 8, 8);
        for (TestBio* bio : {&first, &one, &two}) bench.submit(*bio);
        bench.channel->cancel(one.bio);
        if (all) bench.channel->cancel(two.bio);
        bench.channel->drop_cancelled();
        while (bench.queue().complete_one()) bench.channel->poll();
        EXPECT_EQ(bench.queue().seen.size(), all ? 1u : 2u);
        EXPECT_EQ(one.ends, 1u);
        EXPECT_EQ(two.ends, 1u);
        EXPECT_EQ(one.bio.status, Status::aborted);
        EXPECT_EQ(two.bio.status, all ? Status::aborted : Status::ok);
    }
}

}  // namespace
}  // namespace mqblk::test
