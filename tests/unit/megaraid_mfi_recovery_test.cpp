// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong between the MegaRAID driver and a controller of the MFI generation: statuses of every kind, commands
// that are not answered, contexts that are wrong or come twice, an index beyond the ring, firmware that dies or faults,
// with and without a way to reset it, and memory full of nonsense. Every request ends once; what can go on goes on.
#include "support/mfi_simulated.h"
#include "support/mfi_world.h"
#include "unit/disk_exerciser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

namespace mqblk::driver::megaraid {
namespace {

using test::DiskUser;
using test::MfiAdapter;
using test::MfiFault;
using test::MfiWorld;
using test::MfiWorldOptions;
using wire::megaraid::MfiStatus;
namespace pci_device = wire::megaraid::pci_device;
using namespace std::chrono_literals;

constexpr std::size_t mfi_io_bytes = 4096;
constexpr std::uint16_t mfi_generations[] = {pci_device::sas1078r, pci_device::gen2_79, pci_device::skinny_73};

MfiWorldOptions impatient_mfi(std::uint16_t device = pci_device::gen2_79) {
    MfiWorldOptions options{.volumes = 2};
    options.adapter.device_id = device;
    options.driver.timeout = 200ms;
    options.driver.ended_bound = 20s;
    options.driver.task_bound = 10s;
    options.driver.dcmd_bound = 20s;
    return options;
}

/// The disk does what it should.
void expect_works(DiskUser& user, std::uint64_t seed) {
    auto data = test::pattern(mfi_io_bytes, seed);
    ASSERT_EQ(user.write(8, data), Status::ok);
    std::vector<std::byte> content(mfi_io_bytes);
    ASSERT_EQ(user.read(8, content), Status::ok);
    EXPECT_EQ(content, data);
}

TEST(MegaraidMfiRecovery, EveryStatusEndsItsRequest) {
    MfiWorld world(impatient_mfi());
    ASSERT_TRUE(world.start());
    DiskUser user(world.volume(0));
    auto data = test::pattern(mfi_io_bytes, 1);
    const std::pair<std::uint8_t, Status> expected[] = {{0x0c, Status::removed},
                                                        {0x33, Status::removed},
                                                        {0x2e, Status::io_error},
                                                        {0x01, Status::io_error},
                                                        {0x32, Status::io_error}};
    for (const auto& [status, ends] : expected) {
        world.inject(MfiFault::status, status);
        EXPECT_EQ(user.write(0, data), ends) << int(status);
    }
    for (unsigned status = 1; status < 255; ++status) {
        if (status == 0x67) continue;  // of configurations that have changed: sent again once
        world.inject(MfiFault::status, static_cast<std::uint8_t>(status));
        // SCSI DONE WITH ERROR and no SCSI error is none.
        EXPECT_EQ(user.write(0, data) == Status::ok, status == unsigned(MfiStatus::scsi_done_with_error)) << status;
    }
    world.inject(MfiFault::status, 0x67);
    EXPECT_EQ(user.write(0, data), Status::ok);
    world.inject(MfiFault::scsi_status, 0x08, 3);  // BUSY
    EXPECT_EQ(user.write(0, data), Status::ok);
    world.inject(MfiFault::scsi_status, 0x28, 6);  // TASK SET FULL, too often
    EXPECT_EQ(user.write(0, data), Status::io_error);
    world.inject(MfiFault::scsi_status, 0x18);
    EXPECT_EQ(user.write(0, data), Status::protection);
    expect_works(user, 2);
    EXPECT_EQ(world.adapter->counters().resets, 0u);
    EXPECT_EQ(world.complaint(), "");
}

TEST(MegaraidMfiRecovery, ContextsThatAreWrongOrComeTwiceAreCounted) {
    MfiWorld world(impatient_mfi(pci_device::sas1078r));
    ASSERT_TRUE(world.start());
    DiskUser user(world.volume(0));
    std::uint64_t seen = 0;
    const std::pair<MfiFault, std::uint64_t> cases[] = {
        {MfiFault::wrong_context, 1}, {MfiFault::wild_context, 4}, {MfiFault::twice, 1}};
    for (const auto& [fault, mismatches] : cases) {
        world.inject(fault);
        auto data = test::pattern(mfi_io_bytes, 3);
        EXPECT_EQ(user.write(0, data), Status::ok);
        expect_works(user, 4);
        seen += mismatches;
        EXPECT_EQ(world.adapter->counters().mismatches, seen) << int(fault);
    }
    EXPECT_EQ(world.adapter->counters().resets, 0u);
}

TEST(MegaraidMfiRecovery, AContextThatNobodyWaitsForIsInNobodysWay) {
    MfiWorld world(impatient_mfi());
    ASSERT_TRUE(world.start());
    DiskUser user(world.volume(0));
    expect_works(user, 1);
    world.on_model([](MfiAdapter& model) { model.post_context(40); });  // of a request's
    const auto events = world.adapter->counters().events;
    world.on_model([](MfiAdapter& model) { model.tell_event(wire::megaraid::event::host_bus_scan); });
    for (unsigned tries = 0; tries < 6000 && world.adapter->counters().events == events; ++tries)
        std::this_thread::sleep_for(10ms);
    EXPECT_EQ(world.adapter->counters().events, events + 1);
    EXPECT_EQ(world.adapter->counters().mismatches, 1u);
    expect_works(user, 2);
    EXPECT_EQ(world.adapter->counters().resets, 0u);
}

TEST(MegaraidMfiRecovery, AFrameThatSaysThatItIsPendingIsNotTaken) {
    MfiWorldOptions options = impatient_mfi();
    options.driver.task_bound = 300ms;
    MfiWorld world(options);
    ASSERT_TRUE(world.start());
    DiskUser user(world.volume(0));
    world.inject(MfiFault::status, static_cast<std::uint8_t>(MfiStatus::pending));
    auto data = test::pattern(mfi_io_bytes, 5);
    EXPECT_EQ(user.write(0, data), Status::ok) << "sent again, after a reset";
    EXPECT_EQ(world.adapter->counters().mismatches, 1u);
    EXPECT_EQ(world.adapter->counters().resets, 1u);
    expect_works(user, 6);
}

TEST(MegaraidMfiRecovery, ALateCommandIsAborted) {
    for (const std::uint16_t device : mfi_generations) {
        SCOPED_TRACE(device);
        MfiWorld world(impatient_mfi(device));
        ASSERT_TRUE(world.start());
        DiskUser late(world.volume(0)), other(world.volume(1));
        world.inject(MfiFault::lost);
        auto data = test::pattern(mfi_io_bytes, 1);
        EXPECT_EQ(late.write(0, data), Status::timed_out);
        EXPECT_EQ(world.adapter->counters().aborts, 1u);
        EXPECT_EQ(world.adapter->counters().resets, 0u);
        EXPECT_EQ(world.counters().aborts, 1u);
        expect_works(late, 2);
        expect_works(other, 3);
        EXPECT_EQ(world.complaint(), "");
    }
}

TEST(MegaraidMfiRecovery, WhatCannotBeAbortedIsSentAgainAfterAReset) {
    for (const std::uint16_t device : mfi_generations) {
        for (const MfiFault fault : {MfiFault::lost, MfiFault::dies}) {
            SCOPED_TRACE(testing::Message() << device << " fault " << int(fault));
            MfiWorldOptions options = impatient_mfi(device);
            options.adapter.aborts = false;
            options.driver.task_bound = 300ms;
            MfiWorld world(options);
            ASSERT_TRUE(world.start());
            DiskUser user(world.volume(0));
            world.inject(fault);
            auto data = test::pattern(mfi_io_bytes, 1);
            EXPECT_EQ(user.write(0, data), Status::ok);
            std::vector<std::byte> content(mfi_io_bytes);
            EXPECT_EQ(user.read(0, content), Status::ok);
            EXPECT_EQ(content, data);
            EXPECT_EQ(world.adapter->counters().resets, 1u);
            EXPECT_EQ(world.adapter->counters().sent_again, 1u);
            expect_works(user, 2);
            EXPECT_EQ(world.complaint(), "");
        }
    }
}

TEST(MegaraidMfiRecovery, AnIndexBeyondTheRingLeadsToAReset) {
    for (const std::uint8_t beyond : {0, 1, 200}) {
        SCOPED_TRACE(int(beyond));
        MfiWorld world(impatient_mfi());
        ASSERT_TRUE(world.start());
        DiskUser user(world.volume(0));
        world.inject(MfiFault::producer_past_end, beyond);
        auto data = test::pattern(mfi_io_bytes, 1);
        EXPECT_EQ(user.write(0, data), Status::ok);
        EXPECT_GE(world.adapter->counters().resets, 1u);
        expect_works(user, 2);
    }
}

TEST(MegaraidMfiRecovery, FirmwareInFaultIsResetWhereThatCanBe) {
    MfiWorld world(impatient_mfi(pci_device::skinny_71));
    ASSERT_TRUE(world.start());
    DiskUser user(world.volume(0));
    world.inject(MfiFault::faults);
    auto data = test::pattern(mfi_io_bytes, 1);
    EXPECT_EQ(user.write(0, data), Status::ok);
    EXPECT_GE(world.adapter->counters().resets, 1u);
    expect_works(user, 2);
}

TEST(MegaraidMfiRecovery, FirmwareThatCannotBeResetIsGivenUp) {
    MfiWorldOptions faulty = impatient_mfi(pci_device::sas1078r), stuck = impatient_mfi(pci_device::gen2_79);
    stuck.adapter.resets = stuck.adapter.aborts = false;
    stuck.driver.state_bound = stuck.driver.init_bound = stuck.driver.task_bound = 300ms;
    stuck.driver.reset_tries = 2;
    for (const auto& [options, fault] : {std::pair{faulty, MfiFault::faults}, {stuck, MfiFault::dies}}) {
        MfiWorld world(options);
        ASSERT_TRUE(world.start());
        DiskUser user(world.volume(0));
        world.inject(fault);
        auto data = test::pattern(mfi_io_bytes, 1);
        EXPECT_EQ(user.write(0, data), Status::io_error);
        EXPECT_EQ(user.write(0, data), Status::io_error) << "at once, from now on";
    }
}

TEST(MegaraidMfiRecovery, ManyAtOnceSurviveResets) {
    for (const std::uint16_t device : mfi_generations) {
        SCOPED_TRACE(device);
        MfiWorldOptions options = impatient_mfi(device);
        options.adapter.aborts = false;
        options.driver.task_bound = 300ms;
        MfiWorld world(options);
        ASSERT_TRUE(world.start());
        SeededRandom random(7);
        DiskUser user(world.volume(0));
        world.inject(MfiFault::lost, 0, 1, 100);
        world.inject(MfiFault::dies, 0, 1, 200);
        static_cast<void>(test::exercise(user, random, {.operations = 600, .in_flight = 24}));
        EXPECT_GE(world.adapter->counters().resets, 1u);
        EXPECT_EQ(world.complaint(), "");
    }
}

TEST(MegaraidMfiRecovery, VolumesThatComeAndGoAreFollowed) {
    MfiWorld world(impatient_mfi());
    ASSERT_TRUE(world.start());
    DiskUser gone(world.volume(1));
    const auto comes_true = [](const std::function<bool()>& condition) {
        for (unsigned tries = 0; tries < 6000; ++tries) {
            if (condition()) return true;
            std::this_thread::sleep_for(10ms);
        }
        return false;
    };
    std::vector<std::shared_ptr<Device>> three{world.make_disk(), world.make_disk(), world.make_disk()};
    world.on_model([&](MfiAdapter& model) {
        model.set_volumes(three);
        model.tell_event(wire::megaraid::event::ld_created);
    });
    EXPECT_TRUE(comes_true([&] { return world.adapter->units().size() == 3; }));
    DiskUser user(world.volume(2));
    expect_works(user, 1);
    world.on_model([&](MfiAdapter& model) {
        model.set_volumes({three.front()});
        model.tell_event(wire::megaraid::event::ld_deleted);
    });
    EXPECT_TRUE(comes_true([&] { return world.adapter->units().size() == 1; }));
    auto data = test::pattern(mfi_io_bytes, 1);
    EXPECT_EQ(gone.write(0, data), Status::removed);
    DiskUser left(world.volume(0));
    expect_works(left, 2);
}

/// Whatever the firmware writes into the ring, its index and the frames: each request ends once, and so does the
/// driver.
TEST(MegaraidMfiRecovery, NonsenseInTheRingEndsNobodyButItself) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed);
        std::vector<std::uint8_t> script(400);
        for (auto& byte : script) byte = static_cast<std::uint8_t>(random.next());
        const auto ended = test::run_hostile_mfi(script);
        EXPECT_EQ(ended, test::hostile_mfi_requests);
    }
}

}  // namespace
}  // namespace mqblk::driver::megaraid
