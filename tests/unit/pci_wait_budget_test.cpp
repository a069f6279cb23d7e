// SPDX-License-Identifier: Apache-2.0
#include "pci/wait_budget.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace mqblk::test {
namespace {

using pci::WaitBudget;
constexpr std::int64_t ms = 1'000'000;

/// Waits until the budget is used up or `most` were made; how many were, each `took_ns` and `pause_ns` after another.
unsigned waits(WaitBudget& budget, std::int64_t& now, std::int64_t took_ns, std::int64_t pause_ns, bool pass_each,
               unsigned most) {
    for (unsigned i = 0; i < most; ++i) {
        if (pass_each) budget.next_pass();
        if (budget.left_ns(now) == 0) return i;
        now += took_ns;
        budget.spent(now);
        now += pause_ns;
    }
    return most;
}

TEST(WaitBudget, OnePassWaitsNoLongerThanItsBound) {
    for (const std::int64_t took : {1 * ms, 50 * ms, 100 * ms, 1900 * ms}) {
        WaitBudget budget;
        std::int64_t now = 1000 * ms;
        EXPECT_LE(waits(budget, now, took, 0, false, 100000) * took, WaitBudget::bound_ns + took) << took;
        EXPECT_EQ(budget.left_ns(now), 0);
    }
}

TEST(WaitBudget, OneSlowAnswerIsForgivenAndAlwaysSlowOnesAreNot) {
    WaitBudget budget;
    std::int64_t now = 1000 * ms;
    EXPECT_EQ(waits(budget, now, 1900 * ms, 0, true, 1), 1u);
    EXPECT_GT(budget.left_ns(now), 0);
    EXPECT_LE(budget.left_ns(now), 100 * ms) << "the next one has only the rest";
    now += 1900 * ms * WaitBudget::worked_off_by;
    budget.next_pass();
    EXPECT_EQ(budget.left_ns(now), WaitBudget::bound_ns) << "and that is forgotten after a while";
    EXPECT_LT(waits(budget, now, 1900 * ms, 100 * ms, true, 100), 3u);
    EXPECT_LT(waits(budget, now, 60 * ms, 0, true, 10000), 100u) << "nor many that are each a little slow";
}

TEST(WaitBudget, QuickAnswersCanGoOnForEver) {
    WaitBudget budget;
    std::int64_t now = 1000 * ms;
    EXPECT_EQ(waits(budget, now, 5 * ms, 0, true, 100000), 100000u);
    EXPECT_EQ(budget.left_ns(now), WaitBudget::bound_ns - 5 * ms) << "of this pass";
}

}  // namespace
}  // namespace mqblk::test
