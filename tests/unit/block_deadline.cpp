// SPDX-License-Identifier: Apache-2.0
//
// The scheduler mq-deadline: its order by itself, and as a device uses it, on one channel and on several.
#include "block/deadline.h"
#include "block_support.h"

#include <deque>

namespace mqblk::test {
namespace {

struct Queued {
    std::deque<TestBio> bios;
    block::DeadlineScheduler scheduler;
    QueueLimits limits;
    Priority priority = Priority::best_effort;  // of what is inserted next
    bool insert(Op op, std::uint64_t sector, std::int64_t now_ns = 0, block::Merges merges = block::Merges::none) {
        TestBio& bio = bios.emplace_back(op, sector, 8);
        bio.bio.priority = priority;
        block::make_group(bio.bio);
        return scheduler.insert(bio.bio, limits, merges, now_ns);
    }
    std::vector<std::uint64_t> take_all(std::int64_t now_ns) {
        std::vector<std::uint64_t> order;
        while (Bio* const bio = scheduler.take(now_ns)) order.push_back(bio->sector);
        return order;
    }
};

TEST(BlockDeadline, GoesBySector) {
    Queued queued;
    for (const std::uint64_t sector : {500u, 100u, 300u, 400u, 200u}) queued.insert(Op::read, sector);
    EXPECT_EQ(queued.scheduler.take(0)->sector, 100u);
    EXPECT_EQ(queued.scheduler.take(0)->sector, 200u);
    // What lies behind waits until nothing lies ahead.
    queued.insert(Op::read, 150);
    EXPECT_EQ(queued.take_all(0), (std::vector<std::uint64_t>{300, 400, 500, 150}));
    EXPECT_TRUE(queued.scheduler.empty());
}

TEST(BlockDeadline, AnExpiredRequestGoesFirst) {
    Queued queued;
    for (unsigned i = 0; i < 20; ++i) queued.insert(Op::read, 1000 + i * 100, 0);
    EXPECT_EQ(queued.scheduler.take(0)->sector, 1000u);
    queued.insert(Op::read, 8, 1);
    for (unsigned i = 0; i < 15; ++i) EXPECT_NE(queued.scheduler.take(0)->sector, 8u);
    for (unsigned i = 0; i < 50; ++i) queued.insert(Op::read, 100000 + i * 100, 600'000'000);
    std::vector<std::uint64_t> order;
    for (int i = 0; i < 40; ++i) order.push_back(queued.scheduler.take(600'000'000)->sector);
    const auto at = std::ranges::find(order, 8u);
    EXPECT_NE(at, order.end());
    EXPECT_LE(at - order.begin(), 3 * 16);
}

TEST(BlockDeadline, WritesArePassedOverTwiceOnly) {
    Queued queued;
    queued.insert(Op::write, 50);
    for (unsigned i = 0; i < 200; ++i) queued.insert(Op::read, 1000 + i * 100);
    const std::vector<std::uint64_t> order = queued.take_all(0);
    ASSERT_EQ(order.size(), 201u);
    EXPECT_EQ(std::ranges::find(order, 50u) - order.begin(), 32);  // two batches of reads
}

TEST(BlockDeadline, MergesBothWays) {
    Queued queued;
    EXPECT_FALSE(queued.insert(Op::write, 100, 0, block::Merges::all));
    EXPECT_FALSE(queued.insert(Op::write, 300, 0, block::Merges::all));
    EXPECT_TRUE(queued.insert(Op::write, 108, 0, block::Merges::all));
    EXPECT_TRUE(queued.insert(Op::write, 92, 0, block::Merges::all));
    EXPECT_FALSE(queued.insert(Op::read, 116, 0, block::Merges::all));
    const Bio* const read = queued.scheduler.take(0);
    EXPECT_EQ(read->sector, 116u);
    const Bio* const group = queued.scheduler.take(0);
    EXPECT_EQ(group->sector, 92u);
    EXPECT_EQ(block::group_sectors(*group), 24u);
    EXPECT_EQ(group->progress.segments, 3u);
    EXPECT_EQ(queued.scheduler.take(0)->sector, 300u);
}

TEST(BlockDeadline, HoldsMoreThanItsWindow) {
    constexpr std::uint64_t seed = 3;
    SeededRandom random(seed);
    Queued queued;
    std::vector<std::uint64_t> sectors;
    for (unsigned i = 0; i < 1000; ++i) {
        sectors.push_back(random.below(1 << 20) * 8);
        queued.insert(i % 3 == 0 ? Op::write : Op::read, sectors.back());
    }
    std::vector<std::uint64_t> order = queued.take_all(0);
    std::ranges::sort(order);
    std::ranges::sort(sectors);
    EXPECT_EQ(order, sectors) << "seed " << seed;
}

TEST(BlockDeadline, ADeviceUsesItAndCanChangeUnderLoad) {
    Bench bench(Bench::shape(1));
    bench.driver->mode = TestDriver::Mode::hold;
    ASSERT_TRUE(bench.device->set_attribute("scheduler", "mq-deadline"));
    std::deque<TestBio> bios;
    for (const std::uint64_t sector : {500u, 100u, 300u, 200u}) bench.submit(bios.emplace_back(Op::read, sector, 8));
    bench.queue().complete_one();
    bench.channel->poll();
    ASSERT_EQ(bench.queue().seen.size(), 2u);
    EXPECT_EQ(bench.queue().seen[1].sector, 100u);
    ASSERT_TRUE(bench.device->set_attribute("scheduler", "none"));
    while (bench.queue().complete_one()) bench.channel->poll();
    EXPECT_EQ(bench.channel->outstanding(), 0u);
    for (const TestBio& bio : bios) EXPECT_EQ(bio.ends, 1u);
}

constexpr std::int64_t ns_per_s = 1'000'000'000;

TEST(BlockDeadline, TunablesActAtOnce) {
    Queued queued;
    block::DeadlineTunables tunables;
    tunables.fifo_batch = 1;
    tunables.writes_starved = 0;
    tunables.front_merges = false;
    queued.scheduler.tune(tunables);
    queued.insert(Op::write, 100, 0, block::Merges::all);
    EXPECT_FALSE(queued.insert(Op::write, 92, 0, block::Merges::all));  // by its front
    EXPECT_TRUE(queued.insert(Op::write, 108, 0, block::Merges::all));
    queued.insert(Op::read, 500);
    EXPECT_EQ(queued.scheduler.take(0)->sector, 100u) << "a write is not passed over even once";
    EXPECT_EQ(queued.scheduler.take(0)->sector, 92u);
    EXPECT_EQ(queued.scheduler.take(0)->sector, 500u);

    // With nothing else in the way, only the expiry decides between a request behind and those ahead.
    for (const bool expired : {false, true}) {
        tunables = {};
        tunables.fifo_batch = 1;
        tunables.write_expire_ns = expired ? 10 : ns_per_s;
        Queued other;
        other.scheduler.tune(tunables);
        other.insert(Op::write, 5000);
        static_cast<void>(other.scheduler.take(0));
        other.insert(Op::write, 8, 0);
        other.insert(Op::write, 6000, 5);
        EXPECT_EQ(other.scheduler.take(10)->sector, expired ? 8u : 6000u);
    }
}

TEST(BlockDeadline, HigherPrioritiesGoFirst) {
    Queued queued;
    for (const Priority priority : {Priority::idle, Priority::best_effort, Priority::realtime}) {
        queued.priority = priority;
        for (unsigned i = 0; i < 3; ++i)
            queued.insert(Op::read, 1000 * (3 - static_cast<unsigned>(priority)) + i * 100);
    }
    EXPECT_EQ(queued.take_all(0), (std::vector<std::uint64_t>{3000, 3100, 3200, 2000, 2100, 2200, 1000, 1100, 1200}));
    queued.priority = Priority::realtime;
    EXPECT_FALSE(queued.insert(Op::read, 1208, 0, block::Merges::all));
    queued.priority = Priority::idle;
    EXPECT_FALSE(queued.insert(Op::read, 1216, 0, block::Merges::all)) << "one request has one priority";
    queued.priority = static_cast<Priority>(200);
    queued.insert(Op::read, 1300);
    EXPECT_EQ(queued.take_all(0).size(), 3u);
}

TEST(BlockDeadline, LowerPrioritiesWaitForWhatIsInFlightButNotForEver) {
    Queued queued;
    queued.scheduler.began(Priority::realtime);
    queued.insert(Op::read, 100, 0);
    EXPECT_FALSE(queued.scheduler.empty());
    EXPECT_FALSE(queued.scheduler.ready(9 * ns_per_s));
    EXPECT_EQ(queued.scheduler.take(9 * ns_per_s), nullptr);
    EXPECT_TRUE(queued.scheduler.ready(10 * ns_per_s));
    EXPECT_EQ(queued.scheduler.take(10 * ns_per_s)->sector, 100u);
    queued.insert(Op::read, 200, 10 * ns_per_s);
    EXPECT_FALSE(queued.scheduler.ready(10 * ns_per_s));
    queued.scheduler.ended(Priority::realtime);
    EXPECT_EQ(queued.scheduler.take(10 * ns_per_s)->sector, 200u);
    EXPECT_EQ(queued.scheduler.in_flight(), 0u);
}

TEST(BlockDeadline, ADeviceCarriesPriorities) {
    Bench bench(Bench::shape(8));
    bench.driver->mode = TestDriver::Mode::hold;
    ASSERT_TRUE(bench.device->set_attribute("scheduler", "mq-deadline"));
    TestBio urgent(Op::read, 500, 8), usual(Op::read, 100, 8), idle(Op::read, 300, 8);
    urgent.bio.priority = Priority::realtime;
    idle.bio.priority = Priority::idle;
    for (TestBio* bio : {&urgent, &idle, &usual}) bench.submit(*bio);
    for (const std::uint64_t sector : {500u, 100u, 300u}) {
        ASSERT_EQ(bench.queue().held(), 1u);
        EXPECT_EQ(bench.queue().seen.back().sector, sector);
        bench.queue().complete_one();
        bench.channel->poll();
    }
    EXPECT_EQ(bench.channel->outstanding(), 0u);
}

/// Two threads' channels on the one queue of a driver, turned by one thread.
struct TwoChannels : Bench {
    explicit TwoChannels(unsigned depth) : Bench(Bench::shape(depth, 1)) {
        other = std::move(*device->channel(other_reactor));
        driver->mode = TestDriver::Mode::hold;
        EXPECT_TRUE(device->set_attribute("scheduler", "mq-deadline"));
        turn();
    }
    void turn() {
        for (int i = 0; i < 3; ++i) {
            channel->poll();
            other->poll();
        }
    }
    std::vector<std::uint64_t> sectors_seen() {
        std::vector<std::uint64_t> sectors;
        for (const Seen& each : queue().seen) sectors.push_back(each.sector);
        return sectors;
    }
    ManualReactor other_reactor{clock, random};
    std::unique_ptr<Channel> other;
};

TEST(BlockDeadline, ChannelsOfAQueueHaveOneScheduler) {
    TwoChannels two(1);
    std::deque<TestBio> bios;
    two.channel->submit(bios.emplace_back(Op::read, 0, 8).bio);  // holds the only tag
    for (const std::uint64_t sector : {400u, 100u, 300u})
        two.channel->submit(bios.emplace_back(Op::read, sector, 8).bio);
    for (const std::uint64_t sector : {350u, 50u, 200u}) two.other->submit(bios.emplace_back(Op::read, sector, 8).bio);
    // Neighbours of different channels stay requests of their own.
    two.other->submit(bios.emplace_back(Op::read, 408, 8).bio);
    while (two.queue().complete_one()) two.turn();
    EXPECT_EQ(two.sectors_seen(), (std::vector<std::uint64_t>{0, 50, 100, 200, 300, 350, 400, 408}));
    for (const TestBio& bio : bios) EXPECT_EQ(bio.ends, 1u);
    EXPECT_EQ(two.channel->outstanding() + two.other->outstanding(), 0u);
}

TEST(BlockDeadline, AChannelThatGoesTakesOnlyItsOwnAlong) {
    TwoChannels two(8);
    ASSERT_TRUE(two.device->set_attribute("nr_requests", "4"));
    two.turn();
    std::deque<TestBio> mine, others;
    for (unsigned i = 0; i < 4; ++i)  // in flight: all that is allowed, of both
        two.other->submit(others.emplace_back(Op::read, i * 10, 8).bio);
    for (const std::uint64_t sector : {100u, 300u}) two.channel->submit(mine.emplace_back(Op::read, sector, 8).bio);
    for (const std::uint64_t sector : {200u, 400u}) two.other->submit(others.emplace_back(Op::read, sector, 8).bio);
    EXPECT_EQ(two.queue().held(), 4u);
    two.other.reset();
    for (const TestBio& bio : others) {
        EXPECT_EQ(bio.ends, 1u);
        EXPECT_EQ(bio.bio.status, Status::aborted);
    }
    // Nothing of this channel is in flight that could bring it its turn: the other has passed it on.
    two.channel->poll();
    while (two.queue().complete_one()) two.channel->poll();
    for (const TestBio& bio : mine) EXPECT_EQ(bio.bio.status, Status::ok);
    EXPECT_EQ(two.sectors_seen(), (std::vector<std::uint64_t>{0, 10, 20, 30, 100, 300}));
}

TEST(BlockDeadline, ABioOfAnotherChannelIsCutAndEndsOnItsOwn) {
    TwoChannels two(1);
    ASSERT_TRUE(two.device->set_attribute("max_sectors_kb", "4"));
    two.turn();
    TestBio holder(Op::read, 0, 8), large(Op::write, 800, 32), small(Op::read, 100, 8);
    two.channel->submit(holder.bio);
    two.other->submit(large.bio);
    two.other->submit(small.bio);
    while (two.queue().complete_one()) {
        two.channel->poll();  // only this one turns the queue
    }
    EXPECT_EQ(large.ends + small.ends, 0u) << "completions are for the thread that submitted";
    two.other->poll();
    EXPECT_EQ(large.ends, 1u);
    EXPECT_EQ(small.ends, 1u);
    EXPECT_EQ(two.queue().seen.size(), 6u);
}

TEST(BlockDeadline, ChangingUnderLoadOnSeveralChannelsLosesNothing) {
    constexpr std::uint64_t seed = 11;
    SeededRandom random(seed);
    TwoChannels two(3);
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 2000; ++i) {
        const std::uint64_t what = random.below(20);
        if (what == 0) {
            ASSERT_TRUE(two.device->set_attribute("scheduler", random.below(2) == 0 ? "none" : "mq-deadline"));
        } else if (what < 8) {
            two.queue().complete_one();
        } else if (what < 10) {
            (random.below(2) == 0 ? two.channel : two.other)->poll();
        } else {
            TestBio& bio = bios.emplace_back(random.below(2) == 0 ? Op::read : Op::write, random.below(1000) * 8, 8);
            bio.bio.priority = static_cast<Priority>(random.below(3));
            (random.below(2) == 0 ? two.channel : two.other)->submit(bio.bio);
        }
    }
    for (int i = 0; i < 20000 && two.channel->outstanding() + two.other->outstanding() != 0; ++i) {
        two.queue().complete_one();
        two.turn();
    }
    for (const TestBio& bio : bios) ASSERT_EQ(bio.ends, 1u) << "seed " << seed;
}

}  // namespace
}  // namespace mqblk::test
