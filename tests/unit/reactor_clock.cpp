// SPDX-License-Identifier: Apache-2.0
//
// The steady clock: it agrees with the kernel's, goes on smoothly over its calibration and never goes back, not even
// from one thread to another.
#include "base/steady_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

namespace mqblk {
namespace {

Time kernel_time() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return Time(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

TEST(SteadyClock, AgreesWithTheKernels) {
    const SteadyClock clock;
    for (int i = 0; i < 50; ++i) {
        const Time before = kernel_time(), now = clock.now(), after = kernel_time();
        // Calibration is right to some parts per million of a second or two that the test runs.
        EXPECT_GE(now - before, -std::chrono::microseconds(200));
        EXPECT_LE(now - after, std::chrono::microseconds(200));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

TEST(SteadyClock, NeverGoesBackOnOneThread) {
    const SteadyClock clock;
    Time last = clock.now();
    for (int i = 0; i < 300'000; ++i) {
        const Time now = i % 2 == 0 ? clock.now() : SteadyClock::read();
        ASSERT_GE(now, last);
        last = now;
    }
}

// The threads pass the latest reading around; nobody may read an earlier one after having seen it.
TEST(SteadyClock, NeverGoesBackBetweenThreads) {
    const SteadyClock clock;
    std::atomic<Duration::rep> latest{0};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 100'000; ++i) {
                auto seen = latest.load();
                const auto now = clock.now().time_since_epoch().count();
                if (now < seen) ++wrong;
                while (seen < now && !latest.compare_exchange_weak(seen, now)) {
                }
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace mqblk
