// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong between the MegaRAID driver and its controller: errors of every kind, commands that are not answered,
// answered late or twice, aborts that do nothing, firmware in fault, fewer commands after a reset, disks that come, go
// and change. Every request ends once, and data are what they ought to be.
#include "driver/megaraid/megaraid.h"
#include "support/megaraid_world.h"
#include "unit/disk_exerciser.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <thread>

namespace mqblk::driver::megaraid {
namespace {

using device::megaraid::Fault;
using device::megaraid::FaultKind;
using test::DiskUser;
using test::MegaraidWorld;
using test::MegaraidWorldOptions;
using namespace std::chrono_literals;

constexpr std::size_t io_bytes = 4096;

MegaraidWorldOptions impatient(unsigned jbods = 1, std::vector<std::string> volumes = {}) {
    MegaraidWorldOptions options{.jbods = jbods, .volumes = std::move(volumes)};
    options.driver.timeout = 200ms;
    options.driver.ended_bound = 20s;
    options.driver.task_bound = 10s;
    return options;
}

bool comes_true(const std::function<bool()>& condition) {
    for (unsigned tries = 0; tries < 6000; ++tries) {
        if (condition()) return true;
        std::this_thread::sleep_for(10ms);
    }
    return false;
}

struct ErrorCase {
    Fault fault;
    Status status;
};

TEST(MegaraidRecovery, ErrorsEndWithTheirStatus) {
    using wire::scsi::SenseKey;
    namespace asc = wire::scsi::asc;
    const auto checked = [](SenseKey key, std::uint16_t code) {
        return Fault{.kind = FaultKind::scsi_status, .sense = {.key = key, .code = code}};
    };
    const std::array cases{
        ErrorCase{{.kind = FaultKind::medium_error}, Status::medium_error},
        ErrorCase{checked(SenseKey::recovered_error, 0x1701), Status::ok},
        ErrorCase{checked(SenseKey::unit_attention, asc::power_on_or_reset), Status::ok},  // sent again
        ErrorCase{checked(SenseKey::aborted_command, asc::data_phase_error), Status::ok},
        ErrorCase{checked(SenseKey::hardware_error, asc::internal_target_failure), Status::io_error},
        ErrorCase{checked(SenseKey::data_protect, asc::write_protected), Status::read_only},
        ErrorCase{checked(SenseKey::illegal_request, asc::invalid_operation_code), Status::not_supported},
        ErrorCase{{.kind = FaultKind::scsi_status, .status = 0x18}, Status::protection},
        ErrorCase{{.kind = FaultKind::scsi_status, .status = 0x08}, Status::ok},
        ErrorCase{{.kind = FaultKind::io_failed, .status = 0x2e}, Status::io_error},
        ErrorCase{{.kind = FaultKind::io_failed, .status = 0x0c}, Status::removed},
        ErrorCase{{.kind = FaultKind::io_failed, .status = 0x67}, Status::ok},  // again, by the firmware
        ErrorCase{{.kind = FaultKind::scsi_status, .count = 0, .status = 0x28}, Status::io_error},
    };
    MegaraidWorld world({.jbods = 1});
    ASSERT_TRUE(world.start());
    DiskUser user(world.disk(0));
    for (const ErrorCase& each : cases) {
        SCOPED_TRACE(testing::Message() << "kind " << int(each.fault.kind) << " status " << int(each.fault.status));
        world.inject(each.fault);
        auto data = test::pattern(io_bytes, 1);
        const Status status = user.write(0, data);
        world.on_model([](device::megaraid::Controller& model) { model.heal(); });
        // A fault that moves nothing but is no error leaves the write to the caller's belief in the disk.
        EXPECT_EQ(status, each.status);
    }
    EXPECT_EQ(world.adapter->counters().resets, 0u);
}

TEST(MegaraidRecovery, ALateCommandIsAbortedAndOthersGoOn) {
    MegaraidWorld world(impatient(2));
    ASSERT_TRUE(world.start());
    world.inject({.kind = FaultKind::lost_completion, .disk = 0});
    DiskUser late(world.disk(0)), other(world.disk(1));
    auto data = test::pattern(io_bytes, 1);
    EXPECT_EQ(late.write(0, data), Status::timed_out);
    EXPECT_GE(world.adapter->counters().aborts, 1u);
    EXPECT_EQ(world.adapter->counters().target_resets, 0u);
    EXPECT_EQ(world.adapter->counters().resets, 0u);
    EXPECT_EQ(late.write(0, data), Status::ok);
    EXPECT_EQ(other.write(0, data), Status::ok);
}

TEST(MegaraidRecovery, ALateAnswerAfterAnAbortThatDidNothingIsTheEnd) {
    MegaraidWorldOptions options = impatient();
    options.driver.ended_bound = 60s;
    MegaraidWorld world(options);
    ASSERT_TRUE(world.start());
    world.inject({.kind = FaultKind::late_completion, .duration = 400ms});
    world.inject({.kind = FaultKind::wrong_abort, .response = wire::megaraid::TaskResponse::complete});
    DiskUser user(world.disk(0));
    auto data = test::pattern(io_bytes, 2);
    EXPECT_EQ(user.write(8, data), Status::ok);
    std::vector<std::byte> content(io_bytes);
    EXPECT_EQ(user.read(8, content), Status::ok);
    EXPECT_EQ(content, data);
    EXPECT_GE(world.adapter->counters().aborts, 1u);
    EXPECT_EQ(world.adapter->counters().resets, 0u);
}

// A second reply that comes late finds its SMID with another command, which goes on until its own.
TEST(MegaraidRecovery, ALateSecondReplyEndsNobodysCommand) {
    for (const bool fast : {true, false}) {
        SCOPED_TRACE(fast);
        MegaraidWorldOptions options{.jbods = 1};
        options.model.fast_path = fast;
        MegaraidWorld world(options);
        ASSERT_TRUE(world.start());
        DiskUser user(world.disk(0));
        auto data = test::pattern(io_bytes, 7);
        ASSERT_EQ(user.write(0, data), Status::ok);
        // Its echo comes while the next one waits for its answer, with the same tag: one user, one command at a time.
        constexpr auto echo = 100ms, answer = 400ms;
        world.inject({.kind = FaultKind::duplicate_completion, .duration = echo});
        EXPECT_EQ(user.write(8, data), Status::ok);
        world.inject({.kind = FaultKind::late_completion, .duration = answer});
        std::vector<std::byte> content(io_bytes);
        const auto begun = std::chrono::steady_clock::now();
        EXPECT_EQ(user.read(0, content), Status::ok);
        EXPECT_GE(std::chrono::steady_clock::now() - begun, answer);
        EXPECT_EQ(content, data);
        EXPECT_EQ(world.model_counters().breaches, 0u);
        EXPECT_EQ(world.adapter->counters().mismatches, 1u);
        EXPECT_EQ(world.adapter->counters().resets, 0u);
    }
}

TEST(MegaraidRecovery, TheLadderEndsInAControllerResetThatSendsAgain) {
    for (const bool task_management : {true, false}) {
        SCOPED_TRACE(task_management);
        MegaraidWorldOptions options = impatient();
        options.model.task_management = task_management;
        MegaraidWorld world(options);
        ASSERT_TRUE(world.start());
        world.inject({.kind = FaultKind::lost_completion});
        world.inject({.kind = FaultKind::wrong_abort, .count = 0, .response = wire::megaraid::TaskResponse::failed});
        DiskUser user(world.disk(0));
        auto data = test::pattern(io_bytes, 3);
        EXPECT_EQ(user.write(16, data), Status::ok);  // by the second time
        const auto counters = world.adapter->counters();
        // More than once where the machine is slower than the time-out.
        EXPECT_EQ(counters.aborts >= 1, task_management);
        EXPECT_EQ(counters.target_resets >= 1, task_management);
        EXPECT_GE(counters.resets, 1u);
        EXPECT_GE(counters.sent_again, 1u);
        EXPECT_LE(counters.sent_again, counters.resets);  // once for each
        std::vector<std::byte> content(io_bytes);
        EXPECT_EQ(user.read(16, content), Status::ok);
        EXPECT_EQ(content, data);
    }
}

TEST(MegaraidRecovery, OneInterruptForEverythingIsEnough) {
    for (const unsigned msi : {0u, 1u}) {
        SCOPED_TRACE(msi);
        MegaraidWorldOptions options = impatient(2);
        options.change_spec = [msi](pci::FunctionSpec& spec) {
            spec.msix_vectors = 0;
            spec.msi_vectors = msi;
        };
        MegaraidWorld world(options);
        ASSERT_TRUE(world.start());
        DiskUser late(world.disk(0)), other(world.disk(1));
        world.inject({.kind = FaultKind::lost_completion, .disk = 0});
        auto data = test::pattern(io_bytes, 1);
        EXPECT_EQ(late.write(0, data), Status::timed_out);
        EXPECT_GE(world.adapter->counters().aborts, 1u);
        EXPECT_EQ(other.write(0, data), Status::ok);
        world.inject({.kind = FaultKind::lost_completion, .disk = 0});
        world.inject({.kind = FaultKind::wrong_abort, .count = 0, .response = wire::megaraid::TaskResponse::failed});
        EXPECT_EQ(late.write(16, data), Status::ok);
        EXPECT_GE(world.adapter->counters().resets, 1u);
        std::vector<std::byte> content(io_bytes);
        EXPECT_EQ(late.read(16, content), Status::ok);
        EXPECT_EQ(content, data);
    }
}

TEST(MegaraidRecovery, WhatIsLostInEachResetFailsAtLast) {
    MegaraidWorldOptions options = impatient();
    options.model.task_management = false;
    options.driver.scsi_bound = 1s;
    MegaraidWorld world(options);
    ASSERT_TRUE(world.start());
    DiskUser user(world.disk(0));
    world.inject({.kind = FaultKind::lost_completion, .count = 0, .disk = 0});
    auto data = test::pattern(io_bytes, 4);
    EXPECT_EQ(user.write(0, data), Status::timed_out);
    EXPECT_GE(world.adapter->counters().resets, 4u);
    EXPECT_EQ(world.adapter->counters().sent_again, 3u);
    world.on_model([](device::megaraid::Controller& model) { model.heal(); });
    EXPECT_EQ(user.write(0, data), Status::ok);
}

/// Random use of every unit at once, each by a thread of its own, while `disturb` goes on.
void use_under(MegaraidWorld& world, const std::function<void(unsigned)>& disturb, unsigned times) {
    std::vector<std::thread> workers;
    std::atomic<unsigned> left{0};
    for (const UnitName& unit : world.adapter->units()) {
        ++left;
        workers.emplace_back([&world, &left, unit] {
            SeededRandom random(unit.id + 1);
            DiskUser user(world.adapter->device(unit.kind, unit.id));
            const auto model =
                test::exercise(user, random, {.operations = 3000, .in_flight = 16, .max_bytes = 128 * 1024});
            std::vector<std::byte> content(user.device().sectors() * 512);
            EXPECT_EQ(user.read(0, content), Status::ok);
            EXPECT_EQ(content, model);
            --left;
        });
    }
    for (unsigned i = 0; i < times && left > 0; ++i) {
        disturb(i);
        std::this_thread::sleep_for(10ms);
    }
    for (auto& worker : workers) worker.join();
}

TEST(MegaraidRecovery, DataSurviveFirmwareFaultsUnderLoad) {
    MegaraidWorldOptions options{.jbods = 2, .volumes = {"0x2", "6x5"}};
    options.disk_bytes = 2u << 20;
    MegaraidWorld world(options);
    ASSERT_TRUE(world.start());
    const auto at = world.model_counters().requests;
    for (const unsigned after : {50u, 1500u, 3000u})
        world.inject({.kind = FaultKind::firmware_fault, .command = at + after});
    use_under(world, [](unsigned) {}, 0);
    const auto counters = world.adapter->counters();
    EXPECT_GE(counters.resets, 1u);
    EXPECT_EQ(counters.mismatches, 0u);
}

TEST(MegaraidRecovery, FewerCommandsAfterAResetAreEnough) {
    MegaraidWorldOptions options{.jbods = 2, .volumes = {"5x3"}};
    options.disk_bytes = 2u << 20;
    options.model.max_commands = 128;
    MegaraidWorld world(options);
    ASSERT_TRUE(world.start());
    const auto at = world.model_counters().requests;
    world.inject({.kind = FaultKind::fewer_commands, .commands = 24});
    world.inject({.kind = FaultKind::firmware_fault, .command = at + 100});
    use_under(world, [](unsigned) {}, 0);
    EXPECT_EQ(world.adapter->counters().resets, 1u);
    // And back: the next reset has all of them again.
    world.on_model([](device::megaraid::Controller& model) { model.fault(); });
    EXPECT_TRUE(comes_true([&] { return world.adapter->counters().resets == 2; }));
    DiskUser user(world.disk(0));
    auto data = test::pattern(1u << 20, 9);
    std::vector<std::byte> content(data.size());
    EXPECT_EQ(user.write(0, data), Status::ok);
    EXPECT_EQ(user.read(0, content), Status::ok);
    EXPECT_EQ(content, data);
}

TEST(MegaraidRecovery, AFirmwareThatStaysInFaultIsGivenUp) {
    MegaraidWorld world(impatient());
    ASSERT_TRUE(world.start());
    DiskUser user(world.disk(0));
    world.on_model([](device::megaraid::Controller& model) { model.fault(true); });
    auto data = test::pattern(io_bytes, 5);
    EXPECT_EQ(user.write(0, data), Status::io_error);
    EXPECT_EQ(user.write(0, data), Status::io_error);
}

TEST(MegaraidRecovery, ASilentManagementCommandAtTheStartIsASentence) {
    MegaraidWorldOptions options = impatient();
    options.driver.dcmd_bound = 100ms;
    options.model.faults.push_back({.kind = FaultKind::slow_dcmd,
                                    .opcode = wire::megaraid::dcmd::pd_list_query,
                                    .duration = std::chrono::hours(1)});
    MegaraidWorld world(options);
    const auto started = world.start();
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code(), Errc::timed_out);
    EXPECT_NE(started.error().message().find("does not tell its disks in time"), std::string::npos)
        << started.error().message();
}

TEST(MegaraidRecovery, ACancelledCommandEndsThoughItIsNeverAnswered) {
    MegaraidWorldOptions options{.jbods = 1};
    options.driver.cancel_bound = 20ms;
    MegaraidWorld world(options);
    ASSERT_TRUE(world.start());
    world.inject({.kind = FaultKind::lost_completion});
    std::vector<std::byte> data(io_bytes);
    const Segment segment{data.data(), data.size()};
    Bio bio;
    {
        const auto device = *world.disk(0);
        const auto channel = *device->channel();
        bio.sectors = io_bytes / 512;
        bio.data = {&segment, 1};
        bio.status = Status::ok;
        bio.done = [](Bio&) noexcept {};
        channel->submit(bio);
        channel->poll();
    }
    EXPECT_EQ(bio.status, Status::aborted);
    EXPECT_EQ(world.adapter->counters().aborts, 1u);
}

TEST(MegaraidRecovery, DisksComeGoAndChange) {
    MegaraidWorldOptions options{.jbods = 2, .volumes = {"1"}};
    MegaraidWorld world(options);
    ASSERT_TRUE(world.start());
    const auto names = [&] {
        std::string result;
        for (const UnitName& unit : world.adapter->units())
            result += std::string(to_string(unit.kind)) + std::to_string(unit.id) + " ";
        return result;
    };
    const auto first = *world.disk(0);
    const auto volume = *world.volume(0);
    world.on_model([](device::megaraid::Controller& model) { model.pull_disk(0); });
    EXPECT_TRUE(comes_true([&] { return first->removed(); }));
    EXPECT_EQ(names(), "pd1 ld0 ");
    world.on_model([](device::megaraid::Controller& model) { model.put_disk(0); });
    EXPECT_TRUE(comes_true([&] { return names() == "pd0 pd1 ld0 "; })) << names();
    {
        DiskUser user(world.disk(0));
        auto data = test::pattern(io_bytes, 6);
        EXPECT_EQ(user.write(0, data), Status::ok);
    }
    world.on_model([](device::megaraid::Controller& model) { model.set_volume_present(0, false); });
    EXPECT_TRUE(comes_true([&] { return volume->removed(); }));
    world.on_model([](device::megaraid::Controller& model) { model.set_volume_present(0, true); });
    EXPECT_TRUE(comes_true([&] { return names() == "pd0 pd1 ld0 "; })) << names();
    ram::Options more;
    more.bytes = 1 << 20;
    const auto disk = *ram::open(more);
    world.on_model([&](device::megaraid::Controller& model) { EXPECT_TRUE(model.add_disk(disk)); });
    EXPECT_TRUE(comes_true([&] { return names().find("pd4") != std::string::npos; })) << names();
    const auto changing = *world.disk(1);
    ASSERT_TRUE(ram::resize(*world.disks()[1], 16u << 20));
    EXPECT_TRUE(comes_true([&] { return changing->sectors() == (16u << 20) / 512; }));
    EXPECT_EQ(world.adapter->counters().resets, 0u);
}

}  // namespace
}  // namespace mqblk::driver::megaraid
