// SPDX-License-Identifier: Apache-2.0
//
// COMPARE AND WRITE, alone and against other writers; VERIFY against one block; REPORT SUPPORTED OPERATION CODES.
#include "driver/null/null.h"
#include "unit/reactor_support.h"
#include "unit/scsi_disk_harness.h"

#include <atomic>
#include <thread>

namespace mqblk::test {
namespace {

using ScsiStatus = scsiw::Status;
namespace asc = scsiw::asc;
namespace opcode = scsiw::opcode;

Bytes both(const Bytes& compare, const Bytes& write) {
    Bytes data = compare;
    data.insert(data.end(), write.begin(), write.end());
    return data;
}

TEST(ScsiCompareAndWrite, WritesWhereItFindsWhatItExpects) {
    ScsiDisk disk(ScsiDisk::ram());
    const Bytes before(1024), after = scsi_pattern(1024, 1);
    EXPECT_EQ(disk.status(scsiw::build_compare_and_write(7, 2), both(before, after)), ScsiStatus::good);
    EXPECT_EQ(disk.run(scsiw::build_read(7, 2)).data, after);
    const auto& differs = disk.run(scsiw::build_compare_and_write(7, 2), both(before, before));
    EXPECT_EQ(differs.command.status, ScsiStatus::check_condition);
    EXPECT_EQ(differs.command.sense.key, scsiw::SenseKey::miscompare);
    EXPECT_EQ(differs.command.sense.code, asc::miscompare_during_verify);
    EXPECT_EQ(differs.command.sense.information, 0u);
    Bytes nearly = after;
    nearly[700] ^= std::byte{1};
    EXPECT_EQ(disk.run(scsiw::build_compare_and_write(7, 2), both(nearly, before)).command.sense.information, 700u);
    EXPECT_EQ(disk.run(scsiw::build_read(7, 2)).data, after);
    EXPECT_EQ(disk.status(scsiw::build_compare_and_write(7, 0)), ScsiStatus::good);
    disk.expect_sense(scsiw::build_compare_and_write(~0ull, 1), scsiw::SenseKey::illegal_request,
                      asc::lba_out_of_range);
    disk.expect_field(scsiw::build_compare_and_write(0, 129), 13);
    EXPECT_EQ(disk.run(scsiw::build_compare_and_write(7, 2), Bytes(1024)).command.sense.code, asc::data_phase_error);
    EXPECT_EQ(disk.run(scsiw::build_inquiry_page(scsiw::vpd::block_limits, 64)).byte(5), 128);
}

// Several that wait end one after another, with writes between them; all end when the nexus goes.
TEST(ScsiCompareAndWrite, ALineOfThemEnds) {
    ScsiDisk disk(ScsiDisk::ram());
    auto other = disk.open();
    std::vector<ScsiExchange*> all;
    for (unsigned i = 0; i < 20; ++i) {
        all.push_back(&disk.start(scsiw::build_compare_and_write(i, 1), Bytes(1024)));
        all.push_back(&disk.start_on(*other, scsiw::build_write(100 + i, 1), Bytes(512)));
    }
    for (ScsiExchange* exchange : all) {
        disk.finish(*exchange);
        EXPECT_EQ(exchange->command.status, ScsiStatus::good);
    }
    all.clear();
    for (unsigned i = 0; i < 20; ++i) {
        all.push_back(
            &disk.start_on(i % 2 == 0 ? *disk.nexus : *other, scsiw::build_compare_and_write(i, 1), Bytes(1024)));
        all.push_back(&disk.start_on(i % 3 == 0 ? *disk.nexus : *other, scsiw::build_write(i, 1), Bytes(512)));
    }
    disk.world.run_for(std::chrono::microseconds(1));
    other.reset();
    for (ScsiExchange* exchange : all) disk.finish(*exchange);
    disk.nexus.reset();
}

TEST(ScsiCompareAndWrite, TheNexusGoesWhileTheyWait) {
    driver::null::Options slow{.bytes = 1 << 20, .disk = {}};
    slow.latency = std::chrono::seconds(1);
    ScsiDisk disk(driver::null::open(slow).value());
    auto other = disk.open();
    auto& write = disk.start_on(*other, scsiw::build_write(0, 1), Bytes(512));
    disk.world.run_for(std::chrono::milliseconds(1));
    auto& waits = disk.start(scsiw::build_compare_and_write(0, 1), Bytes(1024));
    auto& waits_too = disk.start_on(*other, scsiw::build_compare_and_write(0, 1), Bytes(1024));
    disk.world.run_for(std::chrono::milliseconds(1));
    auto& held = disk.start_on(*other, scsiw::build_write(5, 1), Bytes(512));
    EXPECT_FALSE(write.done || waits.done || waits_too.done || held.done);
    disk.nexus.reset();
    EXPECT_TRUE(waits.done);
    EXPECT_EQ(waits.command.sense.key, scsiw::SenseKey::aborted_command);
    disk.finish(held);
    EXPECT_TRUE(write.done);
    EXPECT_EQ(held.command.status, ScsiStatus::good);
    disk.finish(waits_too);
}

// Threads that count in one block by compare and write, each with a reactor of its own, lose no step.
TEST(ScsiCompareAndWrite, IsAtomicBetweenThreads) {
    constexpr unsigned threads = 3, steps = 20;
    const auto device = ScsiDisk::ram(1 << 20);
    const auto unit = device::scsi::LogicalUnit::create(device, {}).value();
    std::atomic<unsigned> succeeded{0};
    std::atomic<unsigned> finished{0};
    const auto count = [&](unsigned number) {
        const auto reactor = uring_reactor();
        const auto nexus = device::scsi::Nexus::open(unit, *reactor).value();
        const auto run = [&](const scsiw::Cdb& cdb, Bytes& data) {
            device::scsi::Command command;
            command.cdb = cdb;
            bool done = false;
            command.context = &done;
            command.done = [](device::scsi::Command& c) noexcept { *static_cast<bool*>(c.context) = true; };
            EXPECT_FALSE(nexus->plan(command).refused);
            const Segment segment{data.data(), data.size()};
            command.data = {&segment, 1};
            nexus->execute(command);
            while (!done) {
                reactor->run_once(Reactor::Sleep::no);
                nexus->poll();
            }
            return command.status;
        };
        Bytes block(512), data;
        for (unsigned mine = 0; mine < steps;) {
            EXPECT_EQ(run(scsiw::build_read(0, 1), block), ScsiStatus::good);
            Bytes next = block;
            std::uint64_t value = 0;
            std::memcpy(&value, next.data(), sizeof value);
            ++value;
            std::memcpy(next.data(), &value, sizeof value);
            data = both(block, next);
            if (run(scsiw::build_compare_and_write(0, 1), data) != ScsiStatus::good) continue;
            ++mine;
            ++succeeded;
            Bytes noise(512, static_cast<std::byte>(number));
            EXPECT_EQ(run(scsiw::build_write(8 + number, 1), noise), ScsiStatus::good);
        }
        ++finished;
        while (finished.load() < threads) reactor->run_once(Reactor::Sleep::no);  // others hold its writes
    };
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; ++i) all.emplace_back(count, i);
    for (auto& thread : all) thread.join();
    EXPECT_EQ(succeeded, threads * steps);
    ScsiDisk look(device);
    EXPECT_EQ(look.run(scsiw::build_read(0, 1)).get<std::uint64_t>(), threads * steps);
}

TEST(ScsiVerify, AgainstOneBlock) {
    ScsiDisk disk(ScsiDisk::ram());
    const Bytes block = scsi_pattern(512, 2);
    ASSERT_EQ(disk.status(scsiw::build_write_same(10, 300, false), block), ScsiStatus::good);
    const auto verify = scsiw::build_blocks(
        {.operation = opcode::verify_10, .flags = scsiw::block_byte_check_one, .lba = 10, .blocks = 300});
    EXPECT_EQ(disk.run(verify, block).command.transferred, 512u);
    ASSERT_EQ(disk.status(scsiw::build_write(309, 1), Bytes(512)), ScsiStatus::good);
    EXPECT_EQ(disk.run(verify, block).command.sense.key, scsiw::SenseKey::miscompare);
}

TEST(ScsiOperationCodes, WhatIsReportedIsWhatThereIs) {
    ScsiDisk disk(ScsiDisk::ram());
    const auto& all = disk.run(scsiw::build_report_operation_codes(0, 0, 0, 4096));
    ASSERT_EQ(all.command.status, ScsiStatus::good);
    const std::uint32_t bytes = all.get<be32>();
    EXPECT_EQ(all.command.transferred, bytes + 4);
    unsigned count = 0;
    for (std::size_t at = 4; at < bytes + 4; at += 8, ++count) {
        const std::uint8_t operation = all.byte(at);
        EXPECT_NE(operation, opcode::persistent_reserve_in);  // this disk has none
        EXPECT_EQ(all.get<be16>(at + 6), scsiw::cdb_bytes(operation));
    }
    EXPECT_GT(count, 30u);
    // One of them, to the byte, and with time-outs.
    const auto& one = disk.run(scsiw::build_report_operation_codes(1, opcode::write_16, 0, 64));
    const std::array<std::uint8_t, 20> usage{0,    3,    0,    16,   0x8a, 0x18, 0xff, 0xff, 0xff, 0xff,
                                             0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0,    0};
    EXPECT_EQ(one.command.transferred, 20u);
    EXPECT_EQ((one.get<std::array<std::uint8_t, 20>>()), usage);
    EXPECT_EQ(disk.run(scsiw::build_report_operation_codes(0x81, opcode::write_16, 0, 64)).command.transferred, 32u);
    EXPECT_EQ(disk.run(scsiw::build_report_operation_codes(1, 0xc0, 0, 64)).byte(1), 1);
    EXPECT_EQ(disk.run(scsiw::build_report_operation_codes(2, 0x9e, 0x10, 64)).byte(1), 3);
    EXPECT_EQ(disk.run(scsiw::build_report_operation_codes(2, 0x9e, 0x11, 64)).byte(1), 1);
    disk.expect_field(scsiw::build_report_operation_codes(1, 0x9e, 0, 64), 2);
    disk.expect_field(scsiw::build_report_operation_codes(2, opcode::write_16, 0, 64), 2);
}

}  // namespace
}  // namespace mqblk::test
