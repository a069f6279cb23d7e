// SPDX-License-Identifier: Apache-2.0
//
// How long an idle reactor polls: for the full time where that pays, not at all where it never does.
#include "reactor/spin_budget.h"

#include <gtest/gtest.h>

namespace mqblk {
namespace {

using namespace std::chrono_literals;

TEST(SpinBudget, StartsFullAndStaysThereWhileItPays) {
    SpinBudget spin(50us);
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(spin.now(), 50us);
        spin.paid();
    }
}

TEST(SpinBudget, LongSleepsEndIt) {
    SpinBudget spin(50us);
    for (int i = 0; i < 10; ++i) spin.failed(1s);
    EXPECT_EQ(spin.now(), 0us);
}

TEST(SpinBudget, AShortSleepBringsItBackAndWorkKeepsIt) {
    SpinBudget spin(50us);
    for (int i = 0; i < 10; ++i) spin.failed(1s);
    for (int i = 0; i < 2; ++i) spin.failed(10us);
    EXPECT_EQ(spin.now(), 50us);
    spin.paid();
    EXPECT_EQ(spin.now(), 50us);
}

// The peer needs the processor that polls: every sleep is short, and no polling ever finds anything.
TEST(SpinBudget, WhereShortSleepsMisleadItGivesUpEverMore) {
    SpinBudget spin(50us);
    Duration spent{};
    for (int i = 0; i < 10'000; ++i) {
        spent += spin.now();
        spin.failed(10us);
    }
    EXPECT_LT(spent, 3ms);  // of 500 ms
}

TEST(SpinBudget, ForEverIsForEverAndNeverIsNever) {
    SpinBudget always(Duration::max()), never_polls(0us);
    for (int i = 0; i < 10; ++i) {
        always.failed(1s);
        never_polls.failed(1ns);
    }
    EXPECT_EQ(always.now(), Duration::max());
    EXPECT_EQ(never_polls.now(), 0us);
}

}  // namespace
}  // namespace mqblk
