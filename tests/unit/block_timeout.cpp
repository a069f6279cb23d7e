// SPDX-License-Identifier: Apache-2.0
//
// Time-outs, in manual time.
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

}  // namespace
}  // namespace mqblk::test
