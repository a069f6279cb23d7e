// SPDX-License-Identifier: Apache-2.0
//
// The S1120 driver when things go wrong, in virtual time: every fault that the model knows under load. Each request
// ends exactly once, within its bound, and with the data that it says.
#include "support/skd_disk.h"
#include "unit/disk_exerciser.h"
#include "wire/scsi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using device::skd::Fault;
using device::skd::FaultKind;
using wire::scsi::SenseKey;
using wire::skd::DriveState;

constexpr unsigned load = 60;

class SkdRecovery : public testing::Test {
  protected:
    explicit SkdRecovery(SkdDiskOptions options = {})
        : disk_(std::move(options)), user_(disk_.device(), disk_.reactor()) {}

    /// A load, at whose `command`th command the fault strikes. Returns how long it took.
    Duration run(Fault fault, unsigned command = 20) {
        fault.command = disk_.card().counters().commands + command;
        disk_.card().inject(fault);
        return run();
    }
    Duration run() {
        flight_.emplace(user_.channel(), Op::write, 0, load);
        const Time before = disk_.world().now();
        flight_->submit();
        EXPECT_TRUE(disk_.world().run_until(
            [&] {
                user_.channel().poll();
                return flight_->done();
            },
            30min));
        EXPECT_EQ(flight_->ended(), load);
        return disk_.world().now() - before;
    }
    /// What was written is there, and the card is as good as new.
    void expect_well() {
        const auto data = pattern(8 * 512, 99);
        std::vector<std::byte> copy = data, back(copy.size());
        EXPECT_EQ(user_.write(4096, copy), Status::ok);
        EXPECT_EQ(user_.read(4096, back), Status::ok);
        EXPECT_EQ(back, data);
    }
    unsigned with(Status status) const { return flight_->with(status); }

    SkdDisk disk_;
    DiskUser user_;
    std::optional<SkdFlight> flight_;
};

TEST_F(SkdRecovery, AMediumErrorFailsJustThatRequest) {
    disk_.card().inject({.kind = FaultKind::medium_error, .count = 1, .lba = 83, .blocks = 1});
    run();
    EXPECT_EQ(with(Status::medium_error), 1u);
    EXPECT_EQ(flight_->bio(10).status, Status::medium_error);
    EXPECT_EQ(with(Status::ok), load - 1);
    expect_well();
}

TEST_F(SkdRecovery, WhatTheCardAsksForIsSentOnceMore) {
    for (const auto& [key, code] : {std::pair{SenseKey::aborted_command, 0x4b00},
                                    {SenseKey::unit_attention, 0x8030},
                                    {SenseKey::unit_attention, 0x0b01},
                                    {SenseKey::unit_attention, 0x5d00}}) {
        const wire::scsi::Sense sense{.key = key, .code = static_cast<std::uint16_t>(code)};
        run({.kind = FaultKind::scsi_status, .sense = sense});
        EXPECT_EQ(with(Status::ok), load) << code;
        const auto before = disk_.card().counters().commands;
        // For ever: one more attempt each, and no third.
        run({.kind = FaultKind::scsi_status, .count = 0, .sense = sense}, 1);
        EXPECT_EQ(with(Status::ok), 0u) << code;
        EXPECT_EQ(disk_.card().counters().commands - before, 2 * load);
        disk_.card().heal();
        expect_well();
    }
}

TEST_F(SkdRecovery, GoodWithAWarningIsGood) {
    for (const auto& [key, code] :
         {std::pair{SenseKey::no_sense, 0x0b01}, {SenseKey::no_sense, 0x5d00}, {SenseKey::recovered_error, 0x1701}}) {
        run({.kind = FaultKind::scsi_status,
             .count = 5,
             .sense = {.key = key, .code = static_cast<std::uint16_t>(code)}});
        EXPECT_EQ(with(Status::ok), load) << code;
    }
}

TEST_F(SkdRecovery, AReadThatBringsTooLittleIsNoSuccess) {
    const auto data = pattern(8 * 512, 7);
    std::vector<std::byte> copy = data;
    ASSERT_EQ(user_.write(64, copy), Status::ok);
    // A status of the fault moves nothing and returns 0 bytes: what goes for GOOD goes for what counts as good, too.
    const Fault good{.kind = FaultKind::scsi_status, .status = wire::scsi::Status::good};
    const Fault recovered{.kind = FaultKind::scsi_status, .sense = {.key = SenseKey::recovered_error, .code = 0x1701}};
    const Fault warning{.kind = FaultKind::scsi_status, .sense = {.key = SenseKey::no_sense, .code = 0x5d00}};
    for (Fault fault : {good, recovered, warning}) {
        std::vector<std::byte> back(data.size());
        disk_.card().inject(fault);
        EXPECT_EQ(user_.read(64, back), Status::ok) << "it is sent once more";
        EXPECT_EQ(back, data);
        fault.count = 0;
        disk_.card().inject(fault);
        const auto before = disk_.card().counters().commands;
        EXPECT_EQ(user_.read(64, back), Status::io_error);
        EXPECT_EQ(disk_.card().counters().commands - before, 2u);
        EXPECT_EQ(user_.write(64, copy), Status::ok) << "what cards count of a write is not known";
        disk_.card().heal();
        ASSERT_EQ(user_.write(64, copy), Status::ok);
    }
}

TEST_F(SkdRecovery, ACardThatComesAndGoesForEverDoesNotKeepRequests) {
    using enum DriveState;
    for (const auto& drives : {std::array{busy, busy_erase}, {busy, online}, {busy_erase, busy_sanitize}}) {
        SkdDisk disk;
        DiskUser user(disk.device(), disk.reactor());
        // All but the commands of a start get lost.
        disk.card().inject({.kind = FaultKind::lost_completion, .count = 0, .blocks = 1 << 20});
        SkdFlight flight(user.channel(), Op::read, 0, load);
        flight.submit();
        unsigned step = 0;
        Timer timer([&] {
            disk.card().enter(drives[++step % 2]);
            timer.arm(disk.reactor(), disk.reactor().now() + 700ms);
        });
        timer.arm(disk.reactor(), disk.reactor().now() + 700ms);
        EXPECT_TRUE(disk.world().run_until(
            [&] {
                user.channel().poll();
                return flight.done();
            },
            3h));
        EXPECT_EQ(flight.ended(), load) << static_cast<unsigned>(drives.front()) << " "
                                        << static_cast<unsigned>(drives.back());
        EXPECT_EQ(flight.with(Status::ok), 0u);
        timer.cancel();
    }
}

TEST_F(SkdRecovery, OtherStatusesFailJustThatRequest) {
    for (const auto status :
         {wire::scsi::Status::busy, wire::scsi::Status::task_set_full, wire::scsi::Status::reservation_conflict}) {
        run({.kind = FaultKind::scsi_status, .status = status});
        EXPECT_EQ(with(Status::ok), load - 1);
        expect_well();
    }
}

TEST_F(SkdRecovery, BusyImminentHoldsRequestsUntilTheCardHasBeenBusy) {
    flight_.emplace(user_.channel(), Op::write, 0, load);
    disk_.card().inject({.kind = FaultKind::scsi_status,
                         .command = disk_.card().counters().commands + 20,
                         .sense = {.key = SenseKey::unit_attention, .code = 0x3f01}});
    flight_->submit();
    disk_.world().run_for(2s);
    EXPECT_EQ(flight_->ended(), load - 1);
    disk_.card().enter(DriveState::busy, 5s);
    const Time before = disk_.world().now();
    while (!flight_->done()) user_.channel().wait();
    EXPECT_GE(disk_.world().now() - before, 4s);
    EXPECT_EQ(with(Status::ok), load);
    expect_well();
}

TEST_F(SkdRecovery, BusyImminentOfACardThatIsNotBusyEndsWithAReset) {
    const Duration took =
        run({.kind = FaultKind::scsi_status, .sense = {.key = SenseKey::unit_attention, .code = 0x3f01}});
    EXPECT_EQ(with(Status::ok), load);
    EXPECT_GE(took, 20min);
    EXPECT_LT(took, 20min + 3s);
}

TEST_F(SkdRecovery, ALostCompletionEndsWithAResetAndTheRequestGoesOutAgain) {
    const Duration took = run({.kind = FaultKind::lost_completion});
    EXPECT_EQ(with(Status::ok), load);
    EXPECT_GE(took, 8s);
    EXPECT_LT(took, 10s);
    expect_well();
}

TEST_F(SkdRecovery, ARequestThatIsLostAgainAndAgainFails) {
    // After each reset come the five commands of the start, and then it again.
    constexpr unsigned start_commands = 5;
    const std::uint64_t first = disk_.card().counters().commands + 1;
    for (unsigned i = 0; i < 4; ++i)
        disk_.card().inject({.kind = FaultKind::lost_completion, .command = first + i * (start_commands + 1)});
    const Time before = disk_.world().now();
    std::vector<std::byte> data(512);
    EXPECT_EQ(user_.write(0, data), Status::timed_out);
    EXPECT_GE(disk_.world().now() - before, 32s);
    EXPECT_LT(disk_.world().now() - before, 36s);
    expect_well();
}

TEST_F(SkdRecovery, ACardThatLosesEverythingIsGivenUp) {
    const Duration took = run({.kind = FaultKind::lost_completion, .count = 0}, 1);
    EXPECT_EQ(with(Status::ok), 0u);
    EXPECT_LT(took, 5min);
    std::vector<std::byte> data(512);
    EXPECT_EQ(user_.read(0, data), Status::io_error);
}

TEST_F(SkdRecovery, AWrongTagIsNobodysAndTheRequestGoesOutAgain) {
    run({.kind = FaultKind::wrong_tag});
    EXPECT_EQ(with(Status::ok), load);
    expect_well();
}

TEST_F(SkdRecovery, ASecondCompletionIsNobodys) {
    const Duration took = run({.kind = FaultKind::duplicate_completion, .count = 30});
    EXPECT_EQ(with(Status::ok), load);
    EXPECT_LT(took, 1s);
    expect_well();
}

TEST_F(SkdRecovery, ALateCompletionThatIsInTimeIsAwaited) {
    const Duration took = run({.kind = FaultKind::late_completion, .duration = 5s});
    EXPECT_EQ(with(Status::ok), load);
    EXPECT_GE(took, 5s);
    EXPECT_LT(took, 6s);
}

TEST_F(SkdRecovery, ALateCompletionThatIsTooLateIsDroppedByTheReset) {
    const Duration took = run({.kind = FaultKind::late_completion, .duration = 20s});
    EXPECT_EQ(with(Status::ok), load);
    EXPECT_GE(took, 8s);
    EXPECT_LT(took, 10s);
    disk_.world().run_for(30s);
    expect_well();
}

TEST_F(SkdRecovery, BusyAndEraseHoldRequests) {
    for (const DriveState state : {DriveState::busy, DriveState::busy_erase}) {
        const Duration took = run({.kind = FaultKind::drive_state, .state = state, .duration = 30s});
        EXPECT_EQ(with(Status::ok), load);
        EXPECT_GE(took, 30s);
        EXPECT_LT(took, 32s);
        expect_well();
    }
}

TEST_F(SkdRecovery, BusyForTooLongEndsWithAReset) {
    const Duration took = run({.kind = FaultKind::drive_state, .state = DriveState::busy});
    EXPECT_EQ(with(Status::ok), load);
    EXPECT_GE(took, 20min);
    EXPECT_LT(took, 20min + 10s);
    expect_well();
}

TEST_F(SkdRecovery, SanitizeFailsRequestsAndTheCardIsResetAfterwards) {
    const Duration took = run({.kind = FaultKind::drive_state, .state = DriveState::busy_sanitize, .duration = 20s});
    EXPECT_EQ(with(Status::ok) + with(Status::io_error), load);
    EXPECT_GT(with(Status::io_error), 0u);
    EXPECT_LT(took, 5s);
    disk_.world().run_for(30s);
    expect_well();
}

TEST_F(SkdRecovery, AFirmwareFaultFailsRequestsUntilTheCardIsBack) {
    const Duration took = run({.kind = FaultKind::drive_state, .state = DriveState::fault, .duration = 20s});
    EXPECT_GT(with(Status::io_error), 0u);
    EXPECT_EQ(with(Status::ok) + with(Status::io_error), load);
    EXPECT_LT(took, 2s);
    disk_.world().run_for(30s);
    expect_well();
}

TEST_F(SkdRecovery, ACardThatGoesOfflineAndForgetsItsCommandsIsReset) {
    const Duration took = run({.kind = FaultKind::drive_state, .state = DriveState::offline});
    EXPECT_EQ(with(Status::ok) + with(Status::io_error), load);
    EXPECT_LT(took, 12s);
    expect_well();
}

TEST_F(SkdRecovery, ACardThatDisappearsFailsAllAtOnce) {
    const Duration took = run({.kind = FaultKind::disappear});
    EXPECT_EQ(with(Status::ok) + with(Status::removed), load);
    EXPECT_GT(with(Status::removed), 0u);
    EXPECT_LT(took, 3s);
    std::vector<std::byte> data(512);
    EXPECT_EQ(user_.read(0, data), Status::removed);
}

TEST_F(SkdRecovery, ACardThatResetsItselfGetsItsCommandsAgain) {
    flight_.emplace(user_.channel(), Op::write, 0, load);
    flight_->submit();
    disk_.card().reset();  // power was lost for a moment
    disk_.function().set_bus_master(true);
    while (!flight_->done()) user_.channel().wait();
    EXPECT_EQ(with(Status::ok), load);
}

TEST_F(SkdRecovery, AnAnswerThatGetsLostDuringRecoveryFailsRequestsInTime) {
    disk_.card().inject({.kind = FaultKind::lost_message, .count = 0});
    const Duration took = run({.kind = FaultKind::lost_completion});
    EXPECT_GT(with(Status::io_error), 0u);
    EXPECT_EQ(with(Status::ok) + with(Status::io_error), load);
    EXPECT_GE(took, 4min);
    EXPECT_LT(took, 5min);
}

TEST_F(SkdRecovery, AChannelCanBeClosedWhateverTheCardDoes) {
    for (const FaultKind kind : {FaultKind::lost_completion, FaultKind::late_completion, FaultKind::drive_state}) {
        Fault fault{.kind = kind, .command = disk_.card().counters().commands + 5, .duration = 60s};
        if (kind == FaultKind::drive_state) fault.state = DriveState::busy;
        disk_.card().inject(fault);
        const Time before = disk_.world().now();
        std::optional<DiskUser> other(std::in_place, disk_.device(), disk_.reactor());
        SkdFlight flight(other->channel(), Op::write, 0, load);
        flight.submit();
        disk_.world().run_for(1ms);
        other.reset();
        EXPECT_EQ(flight.ended(), load);
        EXPECT_LT(disk_.world().now() - before, 3s);
        disk_.card().heal();
        disk_.world().run_for(120s);
        expect_well();
    }
}

TEST_F(SkdRecovery, RemovingTheDeviceUnderLoadLeavesNoRequestBehind) {
    disk_.card().inject({.kind = FaultKind::late_completion, .count = 0, .duration = 60s});
    flight_.emplace(user_.channel(), Op::write, 0, 4 * load);
    flight_->submit();
    user_.device().remove();
    const Time before = disk_.world().now();
    while (!flight_->done()) user_.channel().wait();
    EXPECT_EQ(flight_->ended(), 4 * load);
    EXPECT_LT(disk_.world().now() - before, 3s);
}

class SkdResetUnderLoad : public testing::TestWithParam<int> {};

TEST_P(SkdResetUnderLoad, EveryByteIsRight) {
    SkdDiskOptions options;
    options.card.profile = device::skd::Profile::s1120;
    options.driver.isr_type = static_cast<driver::skd::IsrType>(GetParam());
    options.driver.timeout = 20ms;  // short of the load's own length, long for one of its requests
    options.reaches_everything = GetParam() != 1;
    SkdDisk disk(options);
    DiskUser user(disk.device(), disk.reactor());
    // A command is lost now and then; each time the card is reset with many others in it.
    for (unsigned i = 1; i <= 5; ++i) disk.card().inject({.kind = FaultKind::lost_completion, .command = 200 * i});
    SeededRandom random(GetParam());
    const auto model = exercise(user, random, {.operations = 1500, .in_flight = 60, .max_bytes = 64 * 1024});
    std::vector<std::byte> all(1 << 20);
    for (std::size_t at = 0; at < model.size(); at += all.size()) {
        ASSERT_EQ(user.read(at / 512, all), Status::ok);
        ASSERT_EQ(std::memcmp(all.data(), model.data() + at, all.size()), 0) << at;
    }
    EXPECT_GT(disk.card().counters().dropped, 5u);
}

INSTANTIATE_TEST_SUITE_P(IsrType, SkdResetUnderLoad, testing::Values(0, 1, 2));

}  // namespace
}  // namespace mqblk::test
