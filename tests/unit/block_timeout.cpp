// SPDX-License-Identifier: Apache-2.0
//
// Time-outs, and the scheduler mq-deadline, in manual time.
#include "block/deadline.h"
#include "block_support.h"

#include <deque>

namespace mqblk::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

block::Driver::Shape with_timeout(Duration timeout) {
    block::Driver::Shape shape = Bench::shape(32);
    shape.timeout = timeout;
    return shape;
}

TEST(BlockTimeout, ALateRequestIsReportedOnceAndNotMuchTooLate) {
    for (const Duration timeout : {Duration(milliseconds(10)), Duration(seconds(1)), Duration(seconds(30))}) {
        Bench bench(with_timeout(timeout));
        bench.driver->mode = TestDriver::Mode::hold;
        Time late_at{};
        unsigned late = 0;
        bench.driver->late = [&](block::Request& request) {
            ++late;
            late_at = bench.clock.now();
            request.queue().complete(request, Status::timed_out);
        };
        bench.queue().hold_asleep = true;
        const Time start = bench.clock.now();
        TestBio bio(Op::read, 0, 8);
        bench.submit(bio);
        EXPECT_EQ(bench.channel->wait(), 1u);
        EXPECT_EQ(late, 1u);
        EXPECT_EQ(bio.bio.status, Status::timed_out);
        EXPECT_GE(late_at - start, timeout);
        EXPECT_LE(late_at - start, timeout + timeout / 16);
        EXPECT_EQ(block::statistics(*bench.device).timeouts, 1u);
    }
}

TEST(BlockTimeout, ExtendGivesTheWholeTimeAgain) {
    Bench bench(with_timeout(seconds(1)));
    bench.driver->mode = TestDriver::Mode::hold;
    bench.driver->expired = block::Expired::extend;
    bench.queue().hold_asleep = true;
    std::vector<Time> late;
    const Time start = bench.clock.now();
    bench.driver->late = [&](block::Request& request) {
        late.push_back(bench.clock.now());
        if (late.size() == 3) request.queue().complete(request, Status::aborted);
    };
    TestBio bio(Op::read, 0, 8);
    bench.submit(bio);
    bench.channel->wait();
    ASSERT_EQ(late.size(), 3u);
    EXPECT_GE(late[0] - start, seconds(1));
    EXPECT_GE(late[1] - late[0], seconds(1));
    EXPECT_GE(late[2] - late[1], seconds(1));
    EXPECT_LE(late[2] - start, milliseconds(3300));
    EXPECT_EQ(bio.ends, 1u);
}

TEST(BlockTimeout, OnlyTheLateOneIsLate) {
    Bench bench(with_timeout(seconds(1)));
    bench.driver->mode = TestDriver::Mode::hold;
    bench.queue().hold_asleep = true;
    std::vector<std::uint64_t> late;
    bench.driver->late = [&](block::Request& request) {
        late.push_back(request.sector);
        request.queue().complete(request, Status::timed_out);
    };
    TestBio early(Op::read, 0, 8), other(Op::read, 100, 8), third(Op::read, 200, 8);
    bench.submit(early);
    bench.submit(other);
    bench.clock.advance(milliseconds(500));
    bench.submit(third);
    bench.queue().complete_one();  // the first of all
    bench.channel->poll();
    EXPECT_EQ(early.bio.status, Status::ok);
    bench.channel->wait();
    EXPECT_EQ(late, (std::vector<std::uint64_t>{100}));
    bench.channel->wait();
    EXPECT_EQ(late, (std::vector<std::uint64_t>{100, 200}));
}

TEST(BlockTimeout, TheWheelFindsEveryDeadlineInTime) {
    constexpr std::uint64_t seed = 7;
    SeededRandom random(seed);
    block::TimerWheel wheel(seconds(1));
    std::deque<block::Request> requests(200);
    Time now(seconds(5));
    unsigned out = 0;
    for (block::Request& request : requests) {
        request.deadline = now + Duration(random.below(10'000'000'000));  // also beyond one round
        wheel.insert(request, now);
    }
    block::TimerWheel::remove(requests[0]);
    block::TimerWheel::remove(requests[0]);
    while (out < requests.size() - 1) {
        const Time next = wheel.next();
        ASSERT_NE(next, never) << "seed " << seed;
        now = std::max(now + Duration(1), next);
        wheel.expire(now, [&](block::Request& request) {
            EXPECT_LE(request.deadline, now);
            EXPECT_LE(now - request.deadline, wheel.tick()) << "seed " << seed;
            ++out;
        });
    }
    EXPECT_EQ(wheel.next(), never);
}

struct Queued {
    std::deque<TestBio> bios;
    block::DeadlineScheduler scheduler;
    QueueLimits limits;
    bool insert(Op op, std::uint64_t sector, std::int64_t now_ns = 0, block::Merges merges = block::Merges::none) {
        TestBio& bio = bios.emplace_back(op, sector, 8);
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

}  // namespace
}  // namespace mqblk::test
