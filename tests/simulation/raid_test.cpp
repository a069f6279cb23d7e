// SPDX-License-Identifier: Apache-2.0
//
// RAID-6 against a plain model of blocks: whatever happens to up to two members, and whenever the power fails, nothing
// that was acknowledged and flushed is lost, and nothing is read that was never written.
#include "simulation/raid_world.h"
#include "simulation/seeds.h"

#include <gtest/gtest.h>

namespace mqblk::simulation {
namespace {

TEST(RaidSimulation, NothingAcknowledgedIsLost) {
    unsigned worlds = 0, crashes = 0, rebuilds = 0;
    for_each_seed(150, [&](std::uint64_t seed) {
        RaidWorld world(seed);
        if (!world.create()) return;
        for (int life = 0; life < 4; ++life)
            if (!world.live() || !world.restart()) return;
        if (!world.scrub()) return;
        ++worlds;
        crashes += world.crashes();
        rebuilds += world.rebuilds();
    });
    if (replaying()) return;
    // That much must have happened for the test to mean something.
    EXPECT_GT(crashes, worlds);
    EXPECT_GE(rebuilds, worlds / 4);
}

TEST(RaidSimulation, ASeedReplaysItself) {
    const auto trace = [](std::uint64_t seed) {
        RaidWorld world(seed);
        if (world.create() && world.live()) static_cast<void>(world.restart());
        world.close();
        return world.trace();
    };
    EXPECT_EQ(trace(7), trace(7));
    EXPECT_NE(trace(7), trace(8));
}

}  // namespace
}  // namespace mqblk::simulation
