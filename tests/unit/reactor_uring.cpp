// SPDX-License-Identifier: Apache-2.0
//
// The io_uring reactor: waking, sleeping, watching, and callbacks that take things away under its feet.
#include "reactor_support.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace mqblk {
namespace {

using namespace std::chrono_literals;
using Sleep = Reactor::Sleep;

struct UringReactorTest : testing::TestWithParam<Duration> {
    std::unique_ptr<Reactor> reactor = test::uring_reactor(GetParam());
};

TEST_P(UringReactorTest, RunsTasksInOrderOfPosting) {
    std::vector<int> order;
    for (int i = 0; i < 100; ++i) reactor->post([&order, i] { order.push_back(i); });
    EXPECT_EQ(reactor->run_once(Sleep::no), 100u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_P(UringReactorTest, ATaskPostedByATaskWaitsForTheNextPass) {
    int ran = 0;
    reactor->post([&] { reactor->post([&] { ++ran; }); });
    reactor->run_once(Sleep::no);
    EXPECT_EQ(ran, 0);
    reactor->run_once(Sleep::yes);
    EXPECT_EQ(ran, 1);
}

TEST_P(UringReactorTest, ReturnsAtTheDeadlineAndNotBefore) {
    const Time deadline = reactor->now() + 20ms;
    while (reactor->now() < deadline) EXPECT_EQ(reactor->run_once(Sleep::yes, deadline), 0u);
    EXPECT_EQ(reactor->run_once(Sleep::yes, reactor->now()), 0u);
}

TEST_P(UringReactorTest, AnotherThreadsPostEndsTheSleep) {
    constexpr int count = 2000;
    int ran = 0;
    std::thread other([&] {
        for (int i = 0; i < count; ++i) {
            reactor->post([&ran] { ++ran; });
            if (i % 64 == 0) std::this_thread::sleep_for(200us);
        }
    });
    EXPECT_TRUE(test::run_until(*reactor, [&] { return ran == count; }));
    other.join();
}

// Each side sleeps until the other wakes it, thousands of times: a lost wake-up stops it for ever.
TEST_P(UringReactorTest, NoWakeUpIsLost) {
    constexpr unsigned rounds = 5000;
    auto peer = test::uring_reactor(GetParam());
    std::atomic<unsigned> ball{0};
    const auto play = [&](Reactor& mine, Reactor& theirs, unsigned parity) {
        while (ball.load() < rounds) {
            if (ball.load() % 2 == parity) {
                ball.fetch_add(1);
                theirs.wake();
            } else {
                mine.run_once(Sleep::yes);
            }
        }
        theirs.wake();
    };
    std::thread other([&] { play(*peer, *reactor, 1); });
    play(*reactor, *peer, 0);
    other.join();
    EXPECT_GE(ball.load(), rounds);
}

TEST_P(UringReactorTest, AWakeBeforeTheSleepEndsIt) {
    reactor->wake();
    reactor->run_once(Sleep::yes);  // would last for ever
}

TEST_P(UringReactorTest, ATimerEndsTheSleepAtItsTime) {
    bool expired = false;
    Timer timer([&] { expired = true; });
    const Time at = reactor->now() + 5ms;
    timer.arm(*reactor, at);
    EXPECT_TRUE(test::run_until(*reactor, [&] { return expired; }));
    EXPECT_GE(reactor->now(), at);
    EXPECT_FALSE(timer.armed());
}

TEST_P(UringReactorTest, AWatchFiresOnceForEachArming) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    int fired = 0;
    {
        const auto watch = reactor->watch(ends[0], [&] { ++fired; });
        watch->arm(false);
        watch->arm(false);
        reactor->run_once(Sleep::yes, reactor->now() + 1ms);
        EXPECT_EQ(fired, 0);
        ASSERT_EQ(::write(ends[1], "x", 1), 1);
        EXPECT_TRUE(test::run_until(*reactor, [&] { return fired == 1; }));
        reactor->run_once(Sleep::yes, reactor->now() + 1ms);
        EXPECT_EQ(fired, 1);
        watch->arm(false);  // still readable
        EXPECT_TRUE(test::run_until(*reactor, [&] { return fired == 2; }));
        watch->arm(true);
        EXPECT_TRUE(test::run_until(*reactor, [&] { return fired == 3; }));
        watch->arm(false);
        watch->disarm();
        reactor->run_once(Sleep::yes, reactor->now() + 1ms);
        EXPECT_EQ(fired, 3);
        watch->arm(false);
    }
    reactor->run_once(Sleep::yes, reactor->now() + 1ms);
    EXPECT_EQ(fired, 3);
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_P(UringReactorTest, WatchesMayBeArmedBeforeTheFirstRunAndOnAnotherThread) {
    const int fd = ::eventfd(1, EFD_CLOEXEC);
    std::vector<std::unique_ptr<Watch>> watches;
    std::atomic<int> fired{0};
    for (int i = 0; i < 1000; ++i) {  // more than the ring has entries
        watches.push_back(reactor->watch(fd, [&] { ++fired; }));
        watches.back()->arm(false);
    }
    std::thread([&] { EXPECT_TRUE(test::run_until(*reactor, [&] { return fired == 1000; })); }).join();
    watches.clear();
    ::close(fd);
}

TEST_P(UringReactorTest, AWatchMayDestroyItselfAndOthersFromItsCallback) {
    const int fd = ::eventfd(1, EFD_CLOEXEC);
    std::vector<std::unique_ptr<Watch>> watches(10);
    int fired = 0;
    for (auto& watch : watches) {
        watch = reactor->watch(fd, [&] {
            ++fired;
            for (auto& other : watches) other.reset();
        });
        watch->arm(false);
    }
    EXPECT_TRUE(test::run_until(*reactor, [&] { return fired > 0; }));
    reactor->run_once(Sleep::yes, reactor->now() + 2ms);
    EXPECT_EQ(fired, 1);
    ::close(fd);
}

TEST_P(UringReactorTest, AWatchOutlivesItsReactor) {
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    const auto watch = reactor->watch(fd, [] {});
    watch->arm(false);
    reactor->run_once(Sleep::yes, reactor->now() + 1ms);
    reactor.reset();
    ::close(fd);
}

TEST_P(UringReactorTest, ACallbackMayRunTheReactorAgain) {
    int inner = 0, outer = 0;
    reactor->post([&] {
        reactor->post([&] { ++inner; });
        EXPECT_TRUE(test::run_until(*reactor, [&] { return inner == 1; }));
        ++outer;
    });
    EXPECT_TRUE(test::run_until(*reactor, [&] { return outer == 1; }));
}

INSTANTIATE_TEST_SUITE_P(Spin, UringReactorTest, testing::Values(0us, 50us, 1ms),
                         [](const auto& spin) { return std::to_string(spin.param.count()) + "ns"; });

struct CountingPoller final : Poller {
    explicit CountingPoller(bool may_sleep) : sleepy(may_sleep) {}
    unsigned poll() noexcept override { return ++polls, 0; }
    bool prepare_sleep() noexcept override { return ++asked, sleepy; }
    bool sleepy;
    int polls = 0, asked = 0;
};

TEST(UringReactorSleep, APollerThatObjectsKeepsItAwake) {
    const auto reactor = test::uring_reactor(0us);
    CountingPoller poller(false);
    reactor->add(poller);
    reactor->run_once(Sleep::yes, reactor->now() + 5ms);
    EXPECT_GT(poller.asked, 1);
    EXPECT_GT(poller.polls, 1);
    reactor->remove(poller);
}

TEST(UringReactorSleep, WithSpinForEverNobodyIsAskedToSleep) {
    const auto reactor = test::uring_reactor();
    reactor->set_spin(Duration::max());
    CountingPoller poller(true);
    reactor->add(poller);
    reactor->run_once(Sleep::yes, reactor->now() + 5ms);
    EXPECT_EQ(poller.asked, 0);
    EXPECT_GT(poller.polls, 1);
    reactor->remove(poller);
}

TEST(UringReactorSleep, AnIdleReactorUsesNoProcessor) {
    const auto reactor = test::uring_reactor();
    const auto used = [] {
        rusage usage{};
        ::getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    };
    reactor->run_once(Sleep::yes, reactor->now() + 1ms);
    const double before = used();
    reactor->run_once(Sleep::yes, reactor->now() + 200ms);
    EXPECT_LT(used() - before, 0.1);  // spinning would take 0.2
}

// Two threads run the shared reactor in turn and sleep on it through reactors of their own.
TEST(UringReactorShared, AnyThreadMayArmAnyMaySleepAndTheArmingOneMayEnd) {
    const auto first = test::uring_reactor(0us);
    const auto shared = first->shareable();
    ASSERT_NE(shared, nullptr);
    ASSERT_GE(shared->fd(), 0);
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    std::mutex lock;
    int fired = 0;
    const auto watch = shared->watch(fd, [&] { ++fired; });
    std::thread([&] {  // arms it, and is gone before anything happens
        const std::lock_guard hold(lock);
        shared->run_once(Sleep::no);
        watch->arm(false);
    })
        .join();
    std::thread other([&] {
        std::this_thread::sleep_for(5ms);
        const std::uint64_t one = 1;
        ASSERT_EQ(::write(fd, &one, sizeof one), 8);
    });
    const auto on_shared = [&] {
        const std::lock_guard hold(lock);
        while (shared->run_once(Sleep::no) > 0) {
        }
    };
    std::unique_ptr<Watch> outer;
    outer = first->watch(shared->fd(), [&] {
        on_shared();
        outer->arm(false);
    });
    outer->arm(false);
    EXPECT_TRUE(test::run_until(*first, [&] { return fired == 1; }));
    other.join();
    // A task posted to it shows through its descriptor too.
    bool ran = false;
    std::thread([&] { shared->post([&] { ran = true; }); }).join();
    EXPECT_TRUE(test::run_until(*first, [&] { return ran; }));
    ::close(fd);
}

}  // namespace
}  // namespace mqblk
