// SPDX-License-Identifier: Apache-2.0
//
// The S1120 driver's state machine without a card: every row of its tables, every bound, by a clock that the test
// moves.
#include "driver/skd/states.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mqblk::driver::skd {
namespace {

using namespace std::chrono_literals;
using wire::skd::DriveState;
using enum DriverState;

constexpr Time start{std::chrono::seconds(1000)};

/// A machine in the state that is asked for, by the ways that lead there.
States in_state(DriverState state) {
    States states;
    const auto change = [&](DriveState drive) { static_cast<void>(states.drive_changed(drive, start)); };
    static_cast<void>(states.begin(DriveState::init, start));
    if (state == starting) return states;
    states.commands_done(DriveState::online, start);
    switch (state) {
        case idle:
            change(DriveState::offline);
            break;
        case wait_boot:
            change(DriveState::fw_booting);
            break;
        case busy:
            change(DriveState::busy);
            break;
        case busy_imminent:
            states.imminent(start);
            break;
        case busy_erase:
            change(DriveState::busy_erase);
            break;
        case busy_sanitize:
            change(DriveState::busy_sanitize);
            break;
        case restarting:
            static_cast<void>(states.restart(start));
            break;
        case syncing:
            states.stop(true);
            break;
        case stopping:
            states.stop(false);
            break;
        case fault:
            change(DriveState::fault);
            break;
        case disappeared:
            change(DriveState::missing);
            break;
        case protocol_mismatch:
            static_cast<void>(states.mismatched());
            break;
        default:
            break;
    }
    EXPECT_EQ(states.state(), state);
    return states;
}

std::vector<DriverState> all_states() {
    std::vector<DriverState> all;
    for (unsigned i = 0; i < driver_state_count; ++i) all.push_back(static_cast<DriverState>(i));
    return all;
}

TEST(SkdStates, TheFirstLookAtTheCard) {
    struct Row {
        DriveState drive;
        DriverState next;
        Duration bound;  // 0: none
        Actions actions;
    };
    const Row rows[] = {
        {DriveState::init, starting, 8s, reset_card},
        {DriveState::online, starting, 8s, reset_card},
        {DriveState::soft_reset, starting, 8s, 0},
        {DriveState::offline, starting, 8s, 0},
        {DriveState::ready, starting, 8s, 0},
        {static_cast<DriveState>(0x77), starting, 8s, 0},
        {DriveState::fw_booting, wait_boot, 90s, 0},
        {DriveState::busy, busy, 60s, 0},
        {DriveState::busy_sanitize, busy_sanitize, 60s, 0},
        {DriveState::busy_erase, busy_erase, 60s, 0},
        {DriveState::fault, fault, 0s, cut_off},
        {DriveState::missing, disappeared, 0s, cut_off},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(to_string(row.drive));
        States states;
        EXPECT_EQ(states.begin(row.drive, start), row.actions);
        EXPECT_EQ(states.state(), row.next);
        EXPECT_EQ(states.due(), row.bound == 0s ? never : start + row.bound);
    }
}

TEST(SkdStates, ChangesOfTheCardsState) {
    struct Row {
        DriverState from;
        DriveState drive;
        DriverState next;
        Actions actions;
    };
    const Row rows[] = {
        {starting, DriveState::init, starting, recover | send_init},
        {restarting, DriveState::init, restarting, recover | send_init},
        {wait_boot, DriveState::init, starting, reset_card},
        {protocol_mismatch, DriveState::init, protocol_mismatch, close_gates},
        {online, DriveState::init, restarting, recover | send_init},
        {busy, DriveState::init, restarting, recover | send_init},
        {fault, DriveState::init, restarting, recover | send_init},
        {disappeared, DriveState::init, disappeared, 0},
        {starting, DriveState::online, starting, send_commands},
        {restarting, DriveState::online, restarting, send_commands},
        {busy, DriveState::online, busy, send_commands},
        {busy_imminent, DriveState::online, busy_imminent, send_commands},
        {online, DriveState::online, online, send_commands},
        {protocol_mismatch, DriveState::online, protocol_mismatch, 0},
        {online, DriveState::busy, busy, 0},
        {online, DriveState::busy_sanitize, busy_sanitize, 0},
        {online, DriveState::busy_erase, busy_erase, 0},
        {online, DriveState::offline, idle, 0},
        {starting, DriveState::soft_reset, starting, 0},
        {restarting, DriveState::soft_reset, restarting, 0},
        {online, DriveState::soft_reset, restarting, 0},
        {online, DriveState::fw_booting, wait_boot, 0},
        {online, DriveState::degraded, online, 0},
        {online, DriveState::pcie_link_down, online, 0},
        {online, DriveState::need_fw_download, online, 0},
        {online, DriveState::init_fault, online, 0},
        {online, DriveState::fault, fault, cut_off},
        {online, DriveState::missing, disappeared, cut_off},
        {syncing, DriveState::busy, syncing, 0},
        {syncing, DriveState::missing, disappeared, cut_off},
        {stopping, DriveState::init, stopping, 0},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(std::string(to_string(row.from)) + " + " + to_string(row.drive));
        States states = in_state(row.from);
        EXPECT_EQ(states.drive_changed(row.drive, start + 1s), row.actions);
        EXPECT_EQ(states.state(), row.next);
    }
}

TEST(SkdStates, WhatHappensToNewRequests) {
    for (const DriverState state : all_states()) {
        SCOPED_TRACE(to_string(state));
        Admission expected = Admission::fail;
        switch (state) {
            case online:
                expected = Admission::take;
                break;
            case starting:
            case wait_boot:
            case busy:
            case busy_imminent:
            case busy_erase:
            case restarting:
                expected = Admission::hold;
                break;
            default:
                break;
        }
        EXPECT_EQ(in_state(state).admission(), expected);
    }
}

TEST(SkdStates, EveryWaitHasItsBound) {
    struct Row {
        DriverState state;
        Duration bound;
        DriverState next;
        Actions actions;
    };
    const Row rows[] = {
        {starting, 8s, fault, cut_off},
        {wait_boot, 90s, fault, cut_off},
        {restarting, 4min, fault, cut_off},
        {busy, 20min, restarting, reset_card},
        {busy_imminent, 20min, restarting, reset_card},
        {busy_erase, 20min, restarting, reset_card},
        {busy_sanitize, 3s, busy_sanitize, cut_off},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(to_string(row.state));
        States states = in_state(row.state);
        EXPECT_EQ(states.due(), start + row.bound);
        EXPECT_EQ(states.tick(start + row.bound - 1ns), 0);
        EXPECT_EQ(states.state(), row.state);
        EXPECT_EQ(states.tick(start + row.bound), row.actions);
        EXPECT_EQ(states.state(), row.next);
    }
    for (const DriverState state : {idle, online, syncing, stopping, fault, disappeared, protocol_mismatch}) {
        SCOPED_TRACE(to_string(state));
        States states = in_state(state);
        EXPECT_EQ(states.due(), never);
        EXPECT_EQ(states.tick(start + std::chrono::hours(24)), 0);
        EXPECT_EQ(states.state(), state);
    }
}

TEST(SkdStates, TheInternalCommandsHaveABoundOfTheirOwn) {
    States states = in_state(busy);
    EXPECT_EQ(states.drive_changed(DriveState::online, start), send_commands);
    EXPECT_EQ(states.due(), start + 8s);
    EXPECT_EQ(states.tick(start + 8s), reset_card);
    EXPECT_EQ(states.state(), restarting);
}

TEST(SkdStates, TheEndOfTheCommandsBringsItOnline) {
    for (const DriverState state : all_states()) {
        SCOPED_TRACE(to_string(state));
        States states = in_state(state);
        states.commands_done(DriveState::online, start);
        const bool stays = state == wait_boot || state == syncing || state == stopping || state == disappeared ||
                           state == protocol_mismatch;
        EXPECT_EQ(states.state(), stays ? state : online);
        if (!stays) {
            EXPECT_EQ(states.due(), never);
        }
    }
    States states = in_state(restarting);
    states.commands_done(DriveState::busy, start);
    EXPECT_EQ(states.state(), busy) << "the card is not online any more";
    EXPECT_EQ(states.due(), start + 20min);
}

TEST(SkdStates, RestartsWithoutComingOnlineAreBounded) {
    States states = in_state(online);
    for (unsigned i = 0; i < States::max_restarts; ++i) {
        EXPECT_EQ(states.restart(start), reset_card);
        EXPECT_EQ(states.drive_changed(DriveState::init, start), recover | send_init);
    }
    EXPECT_EQ(states.restart(start), cut_off);
    EXPECT_EQ(states.state(), fault);
    // Coming online counts from the beginning again.
    states = in_state(online);
    for (unsigned i = 0; i < 10 * States::max_restarts; ++i) {
        EXPECT_EQ(states.restart(start), reset_card);
        states.commands_done(DriveState::online, start);
        EXPECT_EQ(states.state(), online);
    }
}

TEST(SkdStates, ACardThatWasCutOffIsResetBeforeItIsUsed) {
    for (const DriveState drive : {DriveState::fault, DriveState::busy_sanitize}) {
        SCOPED_TRACE(to_string(drive));
        States states = in_state(online);
        const Actions actions = states.drive_changed(drive, start) | states.tick(start + 3s);
        EXPECT_EQ(actions, cut_off);
        EXPECT_EQ(states.drive_changed(DriveState::online, start + 4s), reset_card)
            << "it may still believe in commands that have ended here";
        EXPECT_EQ(states.state(), restarting);
        EXPECT_EQ(states.drive_changed(DriveState::init, start + 5s), recover | send_init);
        EXPECT_EQ(states.drive_changed(DriveState::online, start + 6s), send_commands);
        states.commands_done(DriveState::online, start + 6s);
        EXPECT_EQ(states.state(), online);
    }
}

/// Tells the machine these states in turn, `step` apart, until it does something that ends or counts what waits.
Duration flap(States& states, const std::vector<DriveState>& drives, Duration step) {
    for (Duration time = step; time < std::chrono::hours(24); time += step) {
        Actions actions = states.drive_changed(drives[(time / step) % drives.size()], start + time);
        actions |= states.tick(start + time);
        if ((actions & (reset_card | cut_off)) != 0) return time;
    }
    return std::chrono::hours(24);
}

TEST(SkdStates, ChangesDoNotMoveTheBoundForEver) {
    using enum DriveState;
    const std::vector<DriveState> rows[] = {
        {DriveState::busy, DriveState::busy_erase}, {DriveState::busy, DriveState::busy_sanitize},
        {DriveState::busy_erase, fw_booting},       {soft_reset, DriveState::busy},
        {soft_reset, init, DriveState::busy},       {soft_reset, fw_booting},
    };
    for (const auto& drives : rows) {
        SCOPED_TRACE(std::string(to_string(drives.front())) + " " + to_string(drives.back()));
        States states = in_state(DriverState::online);
        const Duration took = flap(states, drives, 500ms);
        EXPECT_GE(took, 20min);
        EXPECT_LE(took, States::longest_wait + 1s);
        EXPECT_TRUE(states.state() != DriverState::fault || states.due() == never);
    }
    // What comes online between does not wait for ever for the commands of its start either.
    States states = in_state(DriverState::busy);
    EXPECT_LE(flap(states, {DriveState::online, DriveState::busy}, 500ms), States::longest_wait + 9s);
    states = in_state(DriverState::busy);
    EXPECT_EQ(flap(states, {DriveState::online}, 500ms), 8500ms) << "said again and again";
}

TEST(SkdStates, RestartsAndChangesTogetherAreBounded) {
    States states = in_state(online);
    Time now = start;
    unsigned restarts = 0;
    for (unsigned i = 0; states.state() != fault; ++i) {
        ASSERT_LT(now - start, States::longest_wait + States::max_restarts * States::restart_bound + 1min);
        now += 500ms;
        Actions actions = states.drive_changed(i % 2 == 0 ? DriveState::busy : DriveState::busy_erase, now);
        actions |= states.tick(now);
        restarts += (actions & reset_card) != 0;
    }
    EXPECT_EQ(restarts, States::max_restarts);
}

TEST(SkdStates, TheBoundBeginsAgainAfterAStateThatHoldsNobody) {
    for (const auto& [before, drive] : {std::pair{online, DriveState::online},
                                        {idle, DriveState::offline},
                                        {fault, DriveState::fault},
                                        {busy_sanitize, DriveState::busy_sanitize}}) {
        SCOPED_TRACE(to_string(before));
        States states = in_state(before);
        static_cast<void>(states.tick(start + 3s));  // sanitize: all fail
        const Time later = start + std::chrono::hours(10);
        static_cast<void>(states.drive_changed(DriveState::busy, later));
        EXPECT_EQ(states.due(), later + 20min);
    }
}

TEST(SkdStates, AnotherProtocolFailsAllThatIsOutstanding) {
    for (const DriverState state : {starting, restarting}) {
        States states = in_state(state);
        EXPECT_EQ(states.mismatched(), reset_card | cut_off);
        EXPECT_EQ(states.due(), never);
    }
}

TEST(SkdStates, NothingRestartsWhatIsAtItsEnd) {
    for (const DriverState state : {syncing, stopping, disappeared, protocol_mismatch}) {
        SCOPED_TRACE(to_string(state));
        States states = in_state(state);
        EXPECT_EQ(states.restart(start), 0);
        EXPECT_EQ(states.state(), state);
    }
}

}  // namespace
}  // namespace mqblk::driver::skd
