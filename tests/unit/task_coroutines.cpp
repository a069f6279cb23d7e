// SPDX-License-Identifier: Apache-2.0
//
// Task and Promise: order of execution, values, and what destruction leaves behind.
#include "base/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mqblk {
namespace {

Task<int> immediate(int value) {
    co_return value;
}

Task<int> sum(int count) {
    int total = 0;
    for (int i = 0; i < count; ++i) total += co_await immediate(i);
    co_return total;
}

TEST(Task, DoesNothingUntilAwaitedOrSpawned) {
    bool started = false;
    const auto make = [&]() -> Task<void> {
        started = true;
        co_return;
    };
    {
        const auto task = make();
        EXPECT_FALSE(started);
    }
    EXPECT_FALSE(started);
    spawn(make(), [] {});
    EXPECT_TRUE(started);
}

// In a sanitizer build a tail call that is none would overflow the stack here.
TEST(Task, LongLoopsOfAwaitsEndWithTheSum) {
    int result = -1;
    spawn(sum(10'000), [&](int total) { result = total; });
    EXPECT_EQ(result, 49'995'000);
}

Task<int> nested(int depth) {
    if (depth == 0) co_return 0;
    co_return 1 + co_await nested(depth - 1);
}

TEST(Task, DeepChainsReturnTheirValues) {
    int result = -1;
    spawn(nested(500), [&](int depth) { result = depth; });
    EXPECT_EQ(result, 500);
}

TEST(Task, AwaitsAPromiseThatIsSetLater) {
    Promise<std::string> promise;
    std::string got;
    const auto make = [&]() -> Task<std::string> { co_return "got " + co_await promise; };
    spawn(make(), [&](std::string text) { got = std::move(text); });
    EXPECT_EQ(got, "");
    promise.set("it");
    EXPECT_EQ(got, "got it");
}

TEST(Task, AwaitsAPromiseThatIsSetAlready) {
    Promise<int> promise;
    promise.set(5);
    int got = 0;
    const auto make = [&]() -> Task<int> { co_return co_await promise; };
    spawn(make(), [&](int value) { got = value; });
    EXPECT_EQ(got, 5);
}

TEST(Task, CarriesValuesThatCanOnlyBeMoved) {
    Promise<std::unique_ptr<int>> promise;
    const auto inner = [&]() -> Task<std::unique_ptr<int>> { co_return co_await promise; };
    const auto outer = [&]() -> Task<std::unique_ptr<int>> {
        auto value = co_await inner();
        ++*value;
        co_return value;
    };
    std::unique_ptr<int> got;
    spawn(outer(), [&](std::unique_ptr<int> value) { got = std::move(value); });
    promise.set(std::make_unique<int>(41));
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, 42);
}

TEST(Task, RunsInterleavedWithOthers) {
    std::vector<int> order;
    Promise<int> first, second;
    const auto make = [&](Promise<int>& promise, int name) -> Task<void> {
        order.push_back(name);
        order.push_back(co_await promise);
    };
    spawn(make(first, 1), [&] { order.push_back(100); });
    spawn(make(second, 2), [&] { order.push_back(200); });
    second.set(20);
    first.set(10);
    EXPECT_EQ(order, (std::vector<int>{1, 2, 20, 200, 10, 100}));
}

struct Counted {
    explicit Counted(int& alive) : count(&alive) { ++alive; }
    Counted(Counted&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
    ~Counted() {
        if (count != nullptr) --*count;
    }
    int* count;
};

TEST(Task, FreesItsFrameAndValueWhenDone) {
    int alive = 0;
    const auto make = [&]() -> Task<Counted> {
        const Counted local(alive);
        co_return Counted(alive);
    };
    spawn(make(), [&](Counted) { EXPECT_EQ(alive, 1); });
    EXPECT_EQ(alive, 0);
}

TEST(Task, DestroyedBeforeItStartedFreesItsArguments) {
    int alive = 0;
    const auto make = [](Counted) -> Task<void> { co_return; };
    {
        const auto task = make(Counted(alive));
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
}

TEST(Task, APromiseMayDieInTheResumedCoroutine) {
    int alive = 0;
    auto promise = std::make_unique<Promise<int>>();
    int got = 0;
    const auto make = [&]() -> Task<void> {
        const Counted local(alive);
        got = co_await *promise;
        promise.reset();
    };
    spawn(make(), [] {});
    promise->set(3);
    EXPECT_EQ(got, 3);
    EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace mqblk
