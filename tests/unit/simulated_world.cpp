// SPDX-License-Identifier: Apache-2.0
//
// The simulated world, and with it what every Reactor has in common: pollers, timers, tasks. Virtual time makes the
// order exact, so it is checked here rather than on the real reactor.
#include "reactor/simulated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mqblk {
namespace {

using namespace std::chrono_literals;
using Sleep = Reactor::Sleep;

struct FunctionPoller final : Poller {
    std::function<unsigned()> work = [] { return 0u; };
    std::function<bool()> sleepy = [] { return true; };
    unsigned poll() noexcept override { return work(); }
    bool prepare_sleep() noexcept override { return sleepy(); }
};

struct World : testing::Test {
    SimulatedWorld world{1};
    std::unique_ptr<Reactor> reactor = world.make_reactor();
};

TEST_F(World, AnHourPassesInAMoment) {
    const Time start = world.now();
    world.run_for(1h);
    EXPECT_EQ(world.now() - start, 1h);
    EXPECT_FALSE(world.run_until([] { return false; }, 1h));
    EXPECT_EQ(world.now() - start, 2h);
}

TEST_F(World, TimersExpireAtTheirExactTimesInOrder) {
    std::vector<std::pair<int, Time>> expired;
    std::vector<std::unique_ptr<Timer>> timers;
    const Time start = world.now();
    const int delays[] = {5, 1, 3, 3, 2, 9, 3};
    for (int i = 0; i < 7; ++i) {
        timers.push_back(std::make_unique<Timer>([&, i] { expired.emplace_back(i, world.now()); }));
        timers.back()->arm(*reactor, start + std::chrono::milliseconds(delays[i]));
    }
    timers[0]->arm(*reactor, start + 4ms);  // moved
    timers[5]->cancel();
    EXPECT_EQ(reactor->next_deadline(), start + 1ms);
    world.run_for(20ms);
    const std::vector<std::pair<int, Time>> expected = {{1, start + 1ms}, {4, start + 2ms}, {2, start + 3ms},
                                                        {3, start + 3ms}, {6, start + 3ms}, {0, start + 4ms}};
    EXPECT_EQ(expired, expected);
    EXPECT_EQ(reactor->next_deadline(), never);
}

// Against a sorted list as the model.
TEST_F(World, ThousandsOfTimersArmedMovedAndCancelledAtRandom) {
    SeededRandom random(11);
    constexpr std::size_t count = 2000;
    struct Expected {
        Time at = never;
        std::uint64_t sequence = 0;
    };
    std::vector<Expected> expected(count);
    std::vector<std::unique_ptr<Timer>> timers;
    std::vector<std::size_t> expired;
    for (std::size_t i = 0; i < count; ++i) {
        timers.push_back(std::make_unique<Timer>([&expired, i] { expired.push_back(i); }));
    }
    const Time start = world.now();
    for (std::uint64_t sequence = 0; sequence < 20'000; ++sequence) {
        const std::size_t i = random.below(count);
        if (random.below(4) == 0) {
            timers[i]->cancel();
            expected[i] = {};
        } else {
            const Time at = start + Duration(static_cast<Duration::rep>(1000 + random.below(500)));
            timers[i]->arm(*reactor, at);
            expected[i] = {at, sequence};
        }
        EXPECT_EQ(timers[i]->armed(), expected[i].at != never);
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < count; ++i) {
        if (expected[i].at != never) order.push_back(i);
    }
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
        return std::pair(expected[a].at, expected[a].sequence) < std::pair(expected[b].at, expected[b].sequence);
    });
    world.run_for(1ms);
    EXPECT_EQ(expired, order);
}

TEST_F(World, ATimerMayReArmItselfAtOnceWithoutStoppingTheWorld) {
    int count = 0;
    bool other = false;
    Timer timer([&] {
        if (++count < 1000) timer.arm(*reactor, world.now());
    });
    timer.arm(*reactor, world.now());
    reactor->post([&] { other = true; });
    reactor->run_once(Sleep::no);
    EXPECT_EQ(count, 1);
    EXPECT_TRUE(other);
    world.run_for(1ms);
    EXPECT_EQ(count, 1000);
}

TEST_F(World, TimersMayDestroyThemselvesAndOthersFromTheirCallback) {
    std::vector<std::unique_ptr<Timer>> timers(5);
    int expired = 0;
    for (auto& timer : timers) {
        timer = std::make_unique<Timer>([&, text = std::string(100, 'x')] {  // a capture that the heap holds
            for (auto& one : timers) one.reset();
            expired += text.size() == 100;
        });
        timer->arm(*reactor, world.now() + 1ms);
    }
    world.run_for(2ms);
    EXPECT_EQ(expired, 1);
}

TEST_F(World, ATimerOutlivesItsReactor) {
    Timer timer([] {});
    timer.arm(*reactor, world.now() + 1s);
    reactor.reset();
    EXPECT_FALSE(timer.armed());
}

// Every poller, when polled, does one of everything to a random other.
TEST_F(World, PollersMayComeAndGoDuringAPassInAnyOrder) {
    SeededRandom random(5);
    std::vector<std::unique_ptr<FunctionPoller>> pollers;
    std::vector<int> polled_in_pass(30);
    const auto add = [&](std::size_t i) { reactor->add(*pollers[i]); };
    for (std::size_t i = 0; i < polled_in_pass.size(); ++i) {
        pollers.push_back(std::make_unique<FunctionPoller>());
        pollers.back()->work = [&, i] {
            ++polled_in_pass[i];
            for (int k = 0; k < 3; ++k) {
                const std::size_t other = random.below(pollers.size());
                if (random.below(2) == 0) {
                    reactor->remove(*pollers[other]);
                } else {
                    add(other);
                }
            }
            if (random.below(10) == 0) reactor->run_once(Sleep::no);
            return 1u;
        };
        add(i);
    }
    int polls = 0;
    for (int pass = 0; pass < 500; ++pass) {
        std::ranges::fill(polled_in_pass, 0);
        polls += static_cast<int>(reactor->run_once(Sleep::no));
        if (pass % 50 == 0) {
            for (std::size_t i = 0; i < pollers.size(); ++i) add(i);
        }
    }
    EXPECT_GT(polls, 500);
    for (auto& poller : pollers) reactor->remove(*poller);
}

TEST_F(World, APollerThatRemovesAndAddsItselfIsPolledOnceAPass) {
    FunctionPoller poller;
    int polls = 0;
    poller.work = [&] {
        ++polls;
        reactor->remove(poller);
        reactor->add(poller);
        return 1u;
    };
    reactor->add(poller);
    reactor->add(poller);
    EXPECT_EQ(reactor->run_once(Sleep::no), 1u);
    EXPECT_EQ(polls, 1);
    reactor->remove(poller);
    reactor->remove(poller);
    EXPECT_EQ(reactor->run_once(Sleep::no), 0u);
}

TEST_F(World, ASleepingReactorIsNotPolledUntilWoken) {
    FunctionPoller poller;
    int polls = 0;
    poller.work = [&] { return ++polls, 0u; };
    reactor->add(poller);
    world.run_for(1s);
    EXPECT_EQ(polls, 1);
    reactor->wake();
    world.run_for(1s);
    EXPECT_GE(polls, 2);
    EXPECT_LE(polls, 3);
    reactor->remove(poller);
}

TEST_F(World, TimeGoesOnForAPollerThatRefusesToSleep) {
    FunctionPoller poller;
    const Time until = world.now() + 10ms;
    bool done = false;
    poller.sleepy = [] { return false; };
    poller.work = [&] {
        done = world.now() >= until;
        return 0u;
    };
    reactor->add(poller);
    EXPECT_TRUE(world.run_until([&] { return done; }, 1s));
    EXPECT_LT(world.now(), until + 5ms);
    reactor->remove(poller);
}

TEST_F(World, ReactorsThatKeepEachOtherBusyDoNotStopTime) {
    const auto other = world.make_reactor();
    std::function<void()> ping = [&] { other->post([&] { reactor->post(ping); }); };
    reactor->post(ping);
    EXPECT_FALSE(world.run_until([] { return false; }, 100us));
    ping = [] {};
}

// What Channel::wait does: the thread of one reactor blocks while the others carry its I/O out.
TEST_F(World, BlockingInRunOnceLetsTheOthersWork) {
    const auto server = world.make_reactor();
    bool answered = false;
    server->post([&] { world.at(world.now() + 3ms, [&] { reactor->post([&] { answered = true; }); }); });
    const Time start = world.now();
    while (!answered) reactor->run_once(Sleep::yes);
    EXPECT_EQ(world.now() - start, 3ms);
}

TEST_F(World, ABlockedReactorEndsAtItsDeadline) {
    const Time deadline = world.now() + 5s;
    EXPECT_EQ(reactor->run_once(Sleep::yes, deadline), 0u);
    EXPECT_EQ(world.now(), deadline);
}

TEST_F(World, AWaitThatNothingCanEndIsReportedNotHung) {
    EXPECT_THROW(reactor->run_once(Sleep::yes), std::runtime_error);
}

TEST_F(World, AWakeEndsOneSleep) {
    reactor->wake();
    EXPECT_EQ(reactor->run_once(Sleep::yes), 0u);
    EXPECT_THROW(reactor->run_once(Sleep::yes), std::runtime_error);
}

// A wait within a wait: the inner one needs what only the reactor of the outer one can do.
TEST_F(World, AReactorThatWaitsStillServesTheOthers) {
    const auto other = world.make_reactor();
    bool asked = false, answered = false, done = false;
    reactor->post([&] {
        other->post([&] {
            reactor->post([&] {
                asked = true;
                other->post([&] { answered = true; });
            });
            while (!answered) other->run_once(Sleep::yes);
            reactor->post([&] { done = true; });
        });
        while (!done) reactor->run_once(Sleep::yes);
    });
    EXPECT_TRUE(world.run_until([&] { return done; }, 1s));
    EXPECT_TRUE(asked);
}

std::vector<int> history_of(std::uint64_t seed) {
    SimulatedWorld world(seed);
    std::vector<std::unique_ptr<Reactor>> reactors;
    std::vector<int> history;
    for (int i = 0; i < 8; ++i) reactors.push_back(world.make_reactor());
    for (int i = 0; i < 200; ++i) {
        const auto which = static_cast<std::size_t>(i) % reactors.size();
        world.at(world.now() + Duration(world.random().below(50)), [&, which, i] {
            reactors[which]->post([&, which, i] {
                history.push_back(i);
                history.push_back(static_cast<int>(reactors[which]->random().below(1000)));
            });
        });
    }
    world.run_for(1ms);
    return history;
}

TEST(WorldSeeds, OneSeedIsOneHistory) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(history_of(seed), history_of(seed)) << "seed " << seed;
    EXPECT_NE(history_of(1), history_of(2));
}

TEST_F(World, EventsAtOneTimeRunInOrderAndCanBeCancelled) {
    std::vector<int> order;
    world.at(world.now() + 1ms, [&] { order.push_back(1); });
    const auto cancelled = world.at(world.now() + 1ms, [&] { order.push_back(2); });
    world.at(world.now() + 1ms, [&] { order.push_back(3); });
    world.cancel(cancelled);
    world.run_for(2ms);
    EXPECT_EQ(order, (std::vector<int>{1, 3}));
    world.cancel(cancelled);
}

}  // namespace
}  // namespace mqblk
