// SPDX-License-Identifier: Apache-2.0
//
// The SCSI disk's media commands: data, ranges, refusals with their sense, and what a device's failures become.
#include "driver/null/null.h"
#include "unit/scsi_disk_harness.h"

namespace mqblk::test {
namespace {

using scsiw::BlockCdb;
using scsiw::SenseKey;
namespace asc = scsiw::asc;
namespace opcode = scsiw::opcode;

scsiw::Cdb blocks(std::uint8_t operation, std::uint64_t lba, std::uint32_t count, std::uint8_t flags = 0) {
    return scsiw::build_blocks({.operation = operation, .flags = flags, .lba = lba, .blocks = count});
}

TEST(ScsiDisk, EveryReadAndWriteReachesTheSameBlocks) {
    for (const unsigned block : {512u, 4096u}) {
        ScsiDisk disk(ScsiDisk::ram(16 << 20, block));
        std::uint64_t lba = 5;
        for (const std::uint8_t write : {opcode::write_6, opcode::write_10, opcode::write_12, opcode::write_16}) {
            const Bytes data = scsi_pattern(block * 3, lba);
            auto& written = disk.run(blocks(write, lba, 3), data);
            EXPECT_EQ(written.command.status, scsiw::Status::good);
            EXPECT_EQ(written.command.transferred, block * 3);
            for (const std::uint8_t read : {opcode::read_6, opcode::read_10, opcode::read_12, opcode::read_16}) {
                auto& back = disk.run(blocks(read, lba, 3));
                EXPECT_EQ(back.command.status, scsiw::Status::good);
                EXPECT_EQ(back.command.transferred, block * 3);
                EXPECT_EQ(back.data, data) << int{write} << " " << int{read};
            }
            lba += 100;
        }
    }
}

TEST(ScsiDisk, ARead6OfZeroIs256Blocks) {
    ScsiDisk disk(ScsiDisk::ram());
    scsiw::Cdb cdb{};
    cdb[0] = opcode::read_6;
    EXPECT_EQ(disk.run(cdb).command.transferred, 256u * 512);
    EXPECT_EQ(disk.run(blocks(opcode::read_10, 0, 0)).command.transferred, 0u);
}

// A transport's buffer holds what another command left in it: it must not reach this initiator.
TEST(ScsiDisk, ADeviceThatReadsNothingReadsAsZeroes) {
    ScsiDisk disk(driver::null::open({.bytes = 1 << 20, .disk = {}}).value());
    const auto& read = disk.run(blocks(opcode::read_10, 3, 16), scsi_pattern(16 * 512, 7));
    EXPECT_EQ(read.command.status, scsiw::Status::good);
    EXPECT_EQ(read.data, Bytes(16 * 512));
}

TEST(ScsiDisk, RangesAreChecked) {
    ScsiDisk disk(ScsiDisk::ram(1 << 20));  // 2,048 blocks
    EXPECT_EQ(disk.status(blocks(opcode::read_10, 2040, 8)), scsiw::Status::good);
    struct Case {
        std::uint8_t operation;
        std::uint64_t lba;
        std::uint32_t count;
        std::uint64_t first_wrong;
    };
    for (const Case c : {Case{opcode::read_10, 2041, 8, 2048},
                         {opcode::read_10, 2048, 0, 2048},
                         {opcode::write_10, 2048, 1, 2048},
                         {opcode::read_16, ~0ull, 1, ~0ull},
                         {opcode::read_16, ~0ull, 0xffffffff, ~0ull},
                         {opcode::write_16, 1ull << 55, 1, 1ull << 55},
                         {opcode::verify_10, 2047, 2, 2048},
                         {opcode::synchronize_cache_10, 4096, 0, 4096},
                         {opcode::write_same_16, 2047, 2, 2048}}) {
        const auto sense =
            disk.expect_sense(blocks(c.operation, c.lba, c.count), SenseKey::illegal_request, asc::lba_out_of_range);
        EXPECT_EQ(sense.information, c.first_wrong) << int{c.operation};
    }
}

TEST(ScsiDisk, RefusalsPointAtTheField) {
    device::scsi::UnitOptions options;
    options.max_transfer_bytes = 1 << 20;
    ScsiDisk disk(ScsiDisk::ram(), options);
    disk.expect_field(blocks(opcode::read_10, 0, 2049), 7);
    disk.expect_field(blocks(opcode::read_12, 0, 2049), 6);
    disk.expect_field(blocks(opcode::write_16, 0, 2049), 10);
    disk.expect_field(blocks(opcode::read_10, 0, 1, 0x20), 1);
    disk.expect_field(blocks(opcode::verify_10, 0, 1, 0x04), 1);
    disk.expect_field(blocks(opcode::write_same_16, 0, 0), 10);
    disk.expect_field(blocks(opcode::write_same_10, 0, 1, scsiw::block_no_data), 1);
    disk.expect_field(scsiw::build_unmap(24, true), 1);
    disk.expect_field(scsiw::build_inquiry_page(0x99, 64), 2);
    disk.expect_field(scsiw::build_mode_sense_6(0x3e, 64), 2);
    disk.expect_field(scsiw::build_report_luns(8), 6);
    disk.expect_field(scsiw::build_write_buffer(8192), 6);
    scsiw::Cdb cdb = scsiw::build_inquiry(36);
    cdb[2] = 0x80;  // a page, without EVPD
    disk.expect_field(cdb, 2);
    cdb = scsiw::build_read_capacity_16(32);
    cdb[1] = 0x1f;
    disk.expect_field(cdb, 1);
    for (const unsigned operation : {0x04u, 0x1du, 0x2bu, 0x5fu, 0x7fu, 0xc0u, 0xffu}) {
        cdb = {};
        cdb[0] = static_cast<std::uint8_t>(operation);
        disk.expect_sense(cdb, SenseKey::illegal_request, asc::invalid_operation_code);
    }
}

TEST(ScsiDisk, LessDataThanAskedForMovesWholeBlocks) {
    ScsiDisk disk(ScsiDisk::ram());
    const Bytes data = scsi_pattern(4096, 9);
    ASSERT_EQ(disk.status(blocks(opcode::write_10, 0, 8), data), scsiw::Status::good);
    auto& read = disk.run(blocks(opcode::read_10, 0, 8), {}, 1024);
    EXPECT_EQ(read.command.status, scsiw::Status::good);
    EXPECT_EQ(read.command.transferred, 1024u);
    EXPECT_TRUE(std::equal(read.data.begin(), read.data.end(), data.begin()));
    EXPECT_EQ(disk.run(blocks(opcode::read_10, 0, 8), {}, 0).command.transferred, 0u);
    EXPECT_EQ(disk.run(blocks(opcode::write_10, 8, 8), Bytes(512)).command.transferred, 512u);
    // A transport that breaks its word hears of it.
    EXPECT_EQ(disk.run(blocks(opcode::read_10, 0, 8), {}, 1000).command.sense.code, asc::data_phase_error);
    EXPECT_EQ(disk.run(scsiw::build_inquiry(96), {}, 5).command.transferred, 5u);
}

TEST(ScsiDisk, VerifyReadsAndCompares) {
    ScsiDisk disk(ScsiDisk::ram());
    Bytes data = scsi_pattern(300 * 512, 4);
    ASSERT_EQ(disk.status(blocks(opcode::write_10, 50, 300), data), scsiw::Status::good);
    EXPECT_EQ(disk.status(blocks(opcode::verify_10, 50, 300)), scsiw::Status::good);
    EXPECT_EQ(disk.status(blocks(opcode::verify_10, 50, 300, scsiw::block_byte_check), data), scsiw::Status::good);
    data[299 * 512 + 7] ^= std::byte{1};
    const auto& differs = disk.run(blocks(opcode::verify_16, 50, 300, scsiw::block_byte_check), data);
    EXPECT_EQ(differs.command.sense.key, SenseKey::miscompare);
    // Several wait for the workspace; all end.
    data[299 * 512 + 7] ^= std::byte{1};
    std::vector<ScsiExchange*> many;
    for (int i = 0; i < 10; ++i)
        many.push_back(&disk.start(blocks(opcode::verify_12, 50, 300, scsiw::block_byte_check), data));
    for (ScsiExchange* exchange : many) {
        disk.finish(*exchange);
        EXPECT_EQ(exchange->command.status, scsiw::Status::good);
    }
    EXPECT_EQ(disk.nexus->outstanding(), 0u);
}

TEST(ScsiDisk, WriteSameWritesTheBlockEverywhere) {
    for (const bool can_zero : {true, false}) {
        auto device = ScsiDisk::ram();
        QueueLimits limits = device->limits();
        if (!can_zero) limits.max_write_zeroes_sectors = 0;
        device->core().update(limits, device->sectors(), false);
        ScsiDisk disk(device);
        const Bytes full = scsi_pattern(2000 * 512, 2);
        ASSERT_EQ(disk.status(blocks(opcode::write_10, 0, 2000), full), scsiw::Status::good);
        const Bytes block = scsi_pattern(512, 8);
        EXPECT_EQ(disk.status(blocks(opcode::write_same_10, 100, 300), block), scsiw::Status::good);
        EXPECT_EQ(disk.status(blocks(opcode::write_same_16, 500, 400, scsiw::block_unmap), Bytes(512)),
                  scsiw::Status::good);
        EXPECT_EQ(disk.status(blocks(opcode::write_same_16, 1000, 2, scsiw::block_no_data)), scsiw::Status::good);
        const auto& read = disk.run(blocks(opcode::read_10, 0, 2000));
        for (unsigned i = 0; i < 2000; ++i) {
            Bytes expected(full.begin() + i * 512, full.begin() + (i + 1) * 512);
            if (i >= 100 && i < 400) expected = block;
            if ((i >= 500 && i < 900) || i == 1000 || i == 1001) expected = Bytes(512);
            ASSERT_TRUE(std::equal(expected.begin(), expected.end(), read.data.begin() + i * 512)) << i;
        }
        EXPECT_EQ(disk.run(blocks(opcode::write_same_10, 100, 300), Bytes(100)).command.sense.code,
                  asc::data_phase_error);
    }
}

Bytes unmap_list(const std::vector<std::pair<std::uint64_t, std::uint32_t>>& ranges) {
    Bytes list(8 + 16 * ranges.size());
    scsiw::UnmapHeader header;
    header.bytes = static_cast<std::uint16_t>(list.size() - 2);
    header.descriptor_bytes = static_cast<std::uint16_t>(16 * ranges.size());
    std::memcpy(list.data(), &header, sizeof header);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        const scsiw::UnmapDescriptor range{.lba = ranges[i].first, .blocks = ranges[i].second, .reserved = {}};
        std::memcpy(list.data() + 8 + 16 * i, &range, sizeof range);
    }
    return list;
}

TEST(ScsiDisk, UnmapDiscardsItsRanges) {
    ScsiDisk disk(ScsiDisk::ram());
    ASSERT_TRUE(disk.unit->can_unmap());
    const Bytes full = scsi_pattern(64 * 512, 3);
    ASSERT_EQ(disk.status(blocks(opcode::write_10, 0, 64), full), scsiw::Status::good);
    Bytes list = unmap_list({{8, 8}, {0, 0}, {32, 16}});
    EXPECT_EQ(disk.status(scsiw::build_unmap(56), list), scsiw::Status::good);
    const auto& read = disk.run(blocks(opcode::read_10, 0, 64));
    for (unsigned i = 0; i < 64; ++i) {
        const bool gone = (i >= 8 && i < 16) || (i >= 32 && i < 48);
        const bool zero = std::all_of(read.data.begin() + i * 512, read.data.begin() + (i + 1) * 512,
                                      [](std::byte b) { return b == std::byte{0}; });
        EXPECT_EQ(zero, gone) << i;
    }
    EXPECT_EQ(disk.status(scsiw::build_unmap(0)), scsiw::Status::good);
    EXPECT_EQ(disk.run(scsiw::build_unmap(7), Bytes(7)).command.sense.code, asc::parameter_list_length_error);
    // One bad range, and none of them is touched.
    list = unmap_list({{0, 8}, {1 << 30, 8}});
    EXPECT_EQ(disk.run(scsiw::build_unmap(40), list).command.sense.code, asc::lba_out_of_range);
    EXPECT_NE(disk.run(blocks(opcode::read_10, 0, 8)).data, Bytes(4096));
    // A header that promises more than came.
    list = unmap_list({{0, 8}, {8, 8}});
    list.resize(24);
    EXPECT_EQ(disk.run(scsiw::build_unmap(24), list).command.status, scsiw::Status::good);
    EXPECT_EQ(disk.run(scsiw::build_unmap(40), list).command.sense.code, asc::parameter_list_length_error);
    list = unmap_list(std::vector<std::pair<std::uint64_t, std::uint32_t>>(257, {0, 1}));
    EXPECT_EQ(disk.run(scsiw::build_unmap(static_cast<std::uint16_t>(list.size())), list).command.sense.code,
              asc::invalid_field_in_parameter_list);
}

/// A device under the test's hand.
struct FailingDisk {
    FailingDisk() {
        QueueLimits limits = Bench::default_limits();
        limits.write_cache = true;
        limits.fua = true;
        device = bench.add_disk(limits);
    }
    /// The one after that of the bench's own channel.
    TestQueue& queue() { return *bench.driver->queues.at(1); }

    Bench bench;
    std::shared_ptr<Device> device;
};

TEST(ScsiDisk, FailuresOfTheDeviceBecomeSense) {
    struct Case {
        mqblk::Status result;
        SenseKey key;
        std::uint16_t read, write;
    };
    FailingDisk failing;
    ScsiDisk disk(failing.device);
    using enum mqblk::Status;
    for (const Case c : {Case{medium_error, SenseKey::medium_error, asc::unrecovered_read_error, asc::write_error},
                         {io_error, SenseKey::hardware_error, 0x4400, 0x4400},
                         {timed_out, SenseKey::aborted_command, 0x0801, 0x0801},
                         {transport, SenseKey::aborted_command, 0x0800, 0x0800},
                         {aborted, SenseKey::aborted_command, 0, 0},
                         {no_space, SenseKey::data_protect, 0x2707, 0x2707},
                         {mqblk::Status::read_only, SenseKey::data_protect, 0x2700, 0x2700},
                         {removed, SenseKey::not_ready, 0x3a00, 0x3a00}}) {
        failing.bench.driver->result = [&](const block::Request&) { return c.result; };
        disk.expect_sense(blocks(opcode::read_10, 77, 1), c.key, c.read);
        const auto sense = disk.expect_sense(blocks(opcode::write_10, 77, 1), c.key, c.write, Bytes(512));
        if (c.result == medium_error) {
            EXPECT_EQ(sense.information, 77u);
        }
        disk.expect_sense(scsiw::build_synchronize_cache(), c.key, c.write);
        disk.expect_sense(blocks(opcode::verify_10, 5, 1000), c.key, c.read);
        disk.expect_sense(blocks(opcode::write_same_10, 5, 1000), c.key, c.write, Bytes(512, std::byte{1}));
    }
    failing.bench.driver->result = [](const block::Request&) { return protection; };
    EXPECT_EQ(disk.status(blocks(opcode::read_10, 0, 1)), scsiw::Status::reservation_conflict);
}

TEST(ScsiDisk, FuaAndTheWriteCache) {
    FailingDisk failing;
    ScsiDisk disk(failing.device);
    const auto last_flags = [&] { return failing.queue().seen.back().flags & bio_fua; };
    (void)disk.run(blocks(opcode::write_10, 0, 1), Bytes(512));
    EXPECT_EQ(last_flags(), 0);
    for (const std::uint8_t flag : {scsiw::block_fua, scsiw::block_fua_nv}) {
        (void)disk.run(blocks(opcode::write_10, 0, 1, flag), Bytes(512));
        EXPECT_EQ(last_flags(), bio_fua);
    }
    (void)disk.run(blocks(opcode::write_10, 0, 1, scsiw::block_dpo), Bytes(512));
    EXPECT_EQ(last_flags(), 0);
    (void)disk.run(scsiw::build_synchronize_cache());
    EXPECT_EQ(failing.queue().seen.back().op, Op::flush);
    // With the write cache off, every write is through.
    Bytes list(4 + 20);
    scsiw::CachingPage page;
    std::memcpy(list.data() + 4, &page, sizeof page);
    ASSERT_EQ(disk.status(scsiw::build_mode_select_6(24), list), scsiw::Status::good);
    (void)disk.run(blocks(opcode::write_10, 0, 1), Bytes(512));
    EXPECT_EQ(last_flags(), bio_fua);
}

TEST(ScsiDisk, WhatIsOutstandingEndsWithTheNexus) {
    FailingDisk failing;
    failing.bench.driver->mode = TestDriver::Mode::hold;
    ScsiDisk disk(failing.device);
    auto& read = disk.start(blocks(opcode::read_10, 0, 8));
    auto& verify = disk.start(blocks(opcode::verify_10, 0, 500));
    auto& waits = disk.start(blocks(opcode::verify_10, 0, 500));
    EXPECT_EQ(disk.nexus->outstanding(), 3u);
    disk.nexus.reset();
    for (const ScsiExchange* exchange : {&read, &verify, &waits}) {
        EXPECT_TRUE(exchange->done);
        EXPECT_EQ(exchange->command.sense.key, SenseKey::aborted_command);
    }
}

TEST(ScsiDisk, ReadOnlyDisks) {
    driver::ram::Options options{.bytes = 1 << 20, .disk = {}};
    options.disk.read_only = true;
    ScsiDisk disk(driver::ram::open(options).value());
    disk.expect_sense(blocks(opcode::write_10, 0, 1), SenseKey::data_protect, asc::write_protected);
    disk.expect_sense(blocks(opcode::write_same_10, 0, 1), SenseKey::data_protect, asc::write_protected);
    EXPECT_EQ(disk.run(scsiw::build_mode_sense_6(scsiw::mode_page::all, 255)).byte(2) & 0x80, 0x80);
    EXPECT_EQ(disk.status(blocks(opcode::read_10, 0, 1)), scsiw::Status::good);
}

}  // namespace
}  // namespace mqblk::test
