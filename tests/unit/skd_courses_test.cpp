// SPDX-License-Identifier: Apache-2.0
//
// Courses of events that the simulation found, in the driver's state machine alone.
#include "driver/skd/states.h"

#include <gtest/gtest.h>

#include <chrono>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using namespace driver::skd;
using wire::skd::DriveState;

class SkdCourses : public testing::Test {
  protected:
    void come_online() {
        EXPECT_EQ(states.begin(DriveState::init, now), reset_card);
        EXPECT_EQ(states.drive_changed(DriveState::init, now), recover | send_init);
        EXPECT_EQ(states.drive_changed(DriveState::online, now), send_commands);
        states.commands_done(DriveState::online, now);
        ASSERT_EQ(states.state(), DriverState::online);
    }
    States states;
    Time now{1000s};
};

// The bound of a busy card ended what the driver does with one that is online again, and nothing began it anew.
TEST_F(SkdCourses, SlowCommandsOfACardThatWasBusyHaveTheirOwnBound) {
    for (const DriveState drive : {DriveState::busy_sanitize, DriveState::busy, DriveState::busy_erase}) {
        states = {};
        come_online();
        EXPECT_EQ(states.drive_changed(drive, now), 0);
        now += 1s;
        EXPECT_EQ(states.drive_changed(DriveState::online, now), send_commands);
        EXPECT_EQ(states.tick(now + 7s), 0) << "the commands may take 8 s";
        EXPECT_EQ(states.tick(now + 8s), reset_card);
        EXPECT_EQ(states.state(), DriverState::restarting);
    }
}

// A card that is busy with its driver's own commands in hand was reset after 8 s, whatever it was busy with.
TEST_F(SkdCourses, ABusyCardIsNotResetForCommandsThatWaitInIt) {
    come_online();
    EXPECT_EQ(states.drive_changed(DriveState::busy, now), 0);
    EXPECT_EQ(states.drive_changed(DriveState::online, now), send_commands);
    EXPECT_EQ(states.drive_changed(DriveState::busy, now), 0);
    EXPECT_EQ(states.tick(now + 19min), 0);
    EXPECT_EQ(states.state(), DriverState::busy);
    EXPECT_EQ(states.tick(now + 20min), reset_card);
}

}  // namespace
}  // namespace mqblk::test
