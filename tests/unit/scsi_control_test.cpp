// SPDX-License-Identifier: Apache-2.0
//
// The SCSI disk's other commands: INQUIRY and its pages, capacity, modes, sense, unit attention, start and stop.
#include "unit/scsi_disk_harness.h"

namespace mqblk::test {
namespace {

using scsiw::PageControl;
using scsiw::SenseKey;
namespace asc = scsiw::asc;
namespace vpd = scsiw::vpd;
namespace mode_page = scsiw::mode_page;

std::string text(const ScsiExchange& exchange, std::size_t from, std::size_t count) {
    return {reinterpret_cast<const char*>(exchange.data.data()) + from, count};
}

device::scsi::UnitOptions named() {
    device::scsi::UnitOptions options;
    options.serial = "S-0001";
    options.product = "A disk with a name";
    return options;
}

TEST(ScsiControl, StandardInquiry) {
    ScsiDisk disk(ScsiDisk::ram(), named());
    const auto& inquiry = disk.run(scsiw::build_inquiry(255));
    EXPECT_EQ(inquiry.command.transferred, 74u);
    EXPECT_EQ(inquiry.byte(0), 0);
    EXPECT_EQ(inquiry.byte(2), 6);
    EXPECT_EQ(inquiry.byte(3), 2);
    EXPECT_EQ(inquiry.byte(4), 69);
    EXPECT_EQ(inquiry.byte(7) & 2, 2);
    EXPECT_EQ(text(inquiry, 8, 24), "MQBLK   A disk with a na");
    EXPECT_EQ(disk.run(scsiw::build_inquiry(36)).command.transferred, 36u);
    EXPECT_EQ(disk.run(scsiw::build_inquiry(0)).command.transferred, 0u);
}

TEST(ScsiControl, VitalProductData) {
    ScsiDisk disk(ScsiDisk::ram(), named());
    const auto& pages = disk.run(scsiw::build_inquiry_page(vpd::supported_pages, 64));
    EXPECT_EQ(pages.command.transferred, 4u + pages.byte(3));
    for (unsigned i = 0; i < pages.byte(3); ++i) {
        const auto& page = disk.run(scsiw::build_inquiry_page(pages.byte(4 + i), 512));
        EXPECT_EQ(page.command.status, scsiw::Status::good);
        EXPECT_EQ(page.byte(1), pages.byte(4 + i));
        EXPECT_EQ(page.command.transferred, 4u + page.get<be16>(2)) << int{page.byte(1)};
    }
    const auto& serial = disk.run(scsiw::build_inquiry_page(vpd::unit_serial_number, 64));
    EXPECT_EQ(text(serial, 4, serial.byte(3)), "S-0001");
    const auto& identification = disk.run(scsiw::build_inquiry_page(vpd::device_identification, 255));
    EXPECT_EQ(identification.byte(5) & 0xf, 3);
    EXPECT_EQ(identification.byte(8) >> 4, 3) << "locally assigned NAA";
    EXPECT_EQ(identification.get<be64>(8), disk.unit->naa());
    const auto limits = disk.run(scsiw::build_inquiry_page(vpd::block_limits, 64)).get<scsiw::BlockLimitsPage>();
    EXPECT_EQ(limits.max_transfer_blocks, 2048u);
    EXPECT_GT(limits.max_unmap_blocks, 0u);
    EXPECT_EQ(disk.run(scsiw::build_inquiry_page(vpd::block_characteristics, 64)).get<be16>(4), 1);
    EXPECT_EQ(disk.run(scsiw::build_inquiry_page(vpd::logical_block_provisioning, 64)).byte(5) & 0x80, 0x80);
}

TEST(ScsiControl, Capacity) {
    ScsiDisk disk(ScsiDisk::ram(16 << 20, 4096));
    const auto ten = disk.run(scsiw::build_read_capacity_10()).get<scsiw::Capacity10>();
    EXPECT_EQ(ten.last_lba, 4095u);
    EXPECT_EQ(ten.block_bytes, 4096u);
    const auto& sixteen = disk.run(scsiw::build_read_capacity_16(32));
    EXPECT_EQ(sixteen.get<scsiw::Capacity16>().last_lba, 4095u);
    EXPECT_EQ(sixteen.byte(14) & 0x80, 0x80);
    EXPECT_EQ(disk.run(scsiw::build_read_capacity_16(12)).command.transferred, 12u);
    Bench bench;
    auto large = bench.add_disk();
    large->core().update(large->limits(), 1ull << 40, false);
    ScsiDisk large_disk(large);
    EXPECT_EQ(large_disk.run(scsiw::build_read_capacity_10()).get<scsiw::Capacity10>().last_lba, 0xffffffffu);
    EXPECT_EQ(large_disk.run(scsiw::build_read_capacity_16(32)).get<scsiw::Capacity16>().last_lba, (1ull << 40) - 1);
}

std::shared_ptr<Device> cached_disk(Bench& bench) {
    QueueLimits limits = Bench::default_limits();
    limits.write_cache = true;
    return bench.add_disk(limits);
}

TEST(ScsiControl, ModeSense) {
    Bench bench;
    ScsiDisk disk(cached_disk(bench));
    const auto& all = disk.run(scsiw::build_mode_sense_6(mode_page::all, 255));
    EXPECT_EQ(all.byte(0) + 1u, all.command.transferred);
    EXPECT_EQ(all.byte(3), 8);
    EXPECT_EQ(all.get<be32>(4), 1u << 20);
    EXPECT_EQ(all.get<be32>(8), 512u);
    const auto& caching = disk.run(scsiw::build_mode_sense_10(mode_page::caching, 255));
    EXPECT_EQ(caching.get<be16>() + 2u, caching.command.transferred);
    EXPECT_EQ(caching.byte(16), mode_page::caching);
    EXPECT_EQ(caching.byte(18), 0x04) << "WCE";
    EXPECT_EQ(disk.run(scsiw::build_mode_sense_10(mode_page::caching, 255, PageControl::changeable)).byte(18), 0x04);
    auto cdb = scsiw::build_mode_sense_6(mode_page::caching, 255);
    cdb[1] = 0x08;  // DBD
    EXPECT_EQ(disk.run(cdb).command.transferred, 24u);
    disk.expect_sense(scsiw::build_mode_sense_6(mode_page::all, 255, PageControl::saved), SenseKey::illegal_request,
                      asc::saving_parameters_not_supported);
    ScsiDisk uncached(ScsiDisk::ram());
    EXPECT_EQ(uncached.run(scsiw::build_mode_sense_10(mode_page::caching, 255)).byte(18), 0);
    EXPECT_EQ(uncached.run(scsiw::build_mode_sense_10(mode_page::caching, 255, PageControl::changeable)).byte(18), 0);
}

TEST(ScsiControl, ModeSelectChangesWhatItMayAndTellsTheOthers) {
    Bench bench;
    ScsiDisk disk(cached_disk(bench));
    const auto other = disk.open();
    scsiw::CachingPage page;
    Bytes list(8 + 8 + sizeof page);
    list[7] = std::byte{8};
    const scsiw::BlockDescriptor block{.blocks = 0, .block_bytes = 512};
    std::memcpy(list.data() + 8, &block, sizeof block);
    std::memcpy(list.data() + 16, &page, sizeof page);
    const auto select = scsiw::build_mode_select_10(static_cast<std::uint16_t>(list.size()));
    EXPECT_EQ(disk.status(select, list), scsiw::Status::good);
    EXPECT_FALSE(disk.unit->write_cache());
    EXPECT_EQ(disk.status(scsiw::build_test_unit_ready()), scsiw::Status::good) << "who changed it knows";
    auto& told = disk.start_on(*other, scsiw::build_test_unit_ready());
    EXPECT_EQ(told.command.sense.key, SenseKey::unit_attention);
    EXPECT_EQ(told.command.sense.code, asc::mode_parameters_changed);
    EXPECT_EQ(disk.start_on(*other, scsiw::build_test_unit_ready()).command.status, scsiw::Status::good) << "once";

    // Fields that cannot be changed, other block sizes, pages that are not there, lists that end too early.
    Bytes wrong = list;
    wrong[16 + 3] = std::byte{0x11};
    EXPECT_EQ(disk.run(select, wrong).command.sense.code, asc::invalid_field_in_parameter_list);
    wrong = list;
    wrong[14] = std::byte{0x10};
    EXPECT_EQ(disk.run(select, wrong).command.sense.code, asc::invalid_field_in_parameter_list);
    wrong = list;
    wrong[16] = std::byte{0x1c};
    EXPECT_EQ(disk.run(select, wrong).command.sense.code, asc::invalid_field_in_parameter_list);
    EXPECT_EQ(disk.run(scsiw::build_mode_select_10(20), list).command.status, scsiw::Status::check_condition);
    EXPECT_EQ(disk.run(scsiw::build_mode_select_10(17), list).command.sense.code, asc::parameter_list_length_error);
    EXPECT_EQ(disk.run(scsiw::build_mode_select_6(2), list).command.sense.code, asc::parameter_list_length_error);
    EXPECT_EQ(disk.status(scsiw::build_mode_select_10(0)), scsiw::Status::good);
    auto cdb = select;
    cdb[1] = 0x11;  // SP: nothing is saved
    disk.expect_field(cdb, 1, list);
}

TEST(ScsiControl, SenseInTheFormatThatWasChosen) {
    ScsiDisk disk(ScsiDisk::ram());
    scsiw::ControlPage page;
    page.flags2 = scsiw::control_descriptor_sense;
    Bytes list(4 + sizeof page);
    std::memcpy(list.data() + 4, &page, sizeof page);
    std::array<std::uint8_t, scsiw::descriptor_sense_bytes> bytes{};
    auto& fixed = disk.run(scsiw::build_read(1 << 30, 1));
    EXPECT_EQ(disk.nexus->build_sense(fixed.command, bytes), 18u);
    EXPECT_EQ(bytes[0], 0xf0);
    ASSERT_EQ(disk.status(scsiw::build_mode_select_6(16), list), scsiw::Status::good);
    auto& descriptor = disk.run(scsiw::build_read(1 << 30, 1));
    const std::size_t used = disk.nexus->build_sense(descriptor.command, bytes);
    EXPECT_EQ(bytes[0], 0x72);
    EXPECT_EQ(scsiw::parse_sense(std::span(bytes).first(used)), descriptor.command.sense);
    EXPECT_EQ(disk.nexus->build_sense(disk.run(scsiw::build_test_unit_ready()).command, bytes), 0u);
}

TEST(ScsiControl, AChangeOfCapacityIsAttended) {
    auto device = ScsiDisk::ram(1 << 20);
    ScsiDisk disk(device);
    ASSERT_TRUE(driver::ram::resize(*device, 2 << 20));
    EXPECT_EQ(disk.status(scsiw::build_inquiry(36)), scsiw::Status::good)
        << "INQUIRY is answered, and leaves it pending";
    disk.expect_sense(scsiw::build_read(0, 1), SenseKey::unit_attention, asc::capacity_changed);
    EXPECT_EQ(disk.status(scsiw::build_read(3000, 1)), scsiw::Status::good);
    ASSERT_TRUE(driver::ram::resize(*device, 1 << 20));
    const auto& sense = disk.run(scsiw::build_request_sense(18));
    EXPECT_EQ(sense.byte(2), 6);
    EXPECT_EQ(sense.get<be16>(12), asc::capacity_changed);
    disk.expect_sense(scsiw::build_read(3000, 1), SenseKey::illegal_request, asc::lba_out_of_range);
    EXPECT_EQ(disk.run(scsiw::build_request_sense(18)).byte(2), 0);
    device::scsi::UnitOptions quiet;
    quiet.attentions = false;
    ScsiDisk other(device, quiet);
    ASSERT_TRUE(driver::ram::resize(*device, 2 << 20));
    EXPECT_EQ(other.status(scsiw::build_read(3000, 1)), scsiw::Status::good);
}

TEST(ScsiControl, AttentionsAreToldInOrderAndOnce) {
    ScsiDisk disk(ScsiDisk::ram());
    for (unsigned i = 0; i < 20; ++i) disk.nexus->attend(static_cast<std::uint16_t>(0x2900 + i % 10));
    for (unsigned i = 0; i < 8; ++i)
        disk.expect_sense(scsiw::build_test_unit_ready(), SenseKey::unit_attention,
                          static_cast<std::uint16_t>(0x2900 + i));
    EXPECT_EQ(disk.status(scsiw::build_test_unit_ready()), scsiw::Status::good);
}

TEST(ScsiControl, StoppedMeansNotReady) {
    ScsiDisk disk(ScsiDisk::ram());
    EXPECT_EQ(disk.status(scsiw::build_start_stop_unit(false)), scsiw::Status::good);
    disk.expect_sense(scsiw::build_test_unit_ready(), SenseKey::not_ready, asc::initializing_command_required);
    disk.expect_sense(scsiw::build_read(0, 1), SenseKey::not_ready, asc::initializing_command_required);
    EXPECT_EQ(disk.status(scsiw::build_inquiry(36)), scsiw::Status::good);
    EXPECT_EQ(disk.run(scsiw::build_request_sense(18)).byte(2), 2);
    EXPECT_EQ(disk.status(scsiw::build_start_stop_unit(true)), scsiw::Status::good);
    EXPECT_EQ(disk.status(scsiw::build_read(0, 1)), scsiw::Status::good);
}

TEST(ScsiControl, ARemovedDiskIsNotReady) {
    ScsiDisk disk(ScsiDisk::ram());
    disk.device->remove();
    disk.expect_sense(scsiw::build_read(0, 1), SenseKey::not_ready, asc::medium_not_present);
    EXPECT_EQ(disk.status(scsiw::build_inquiry(36)), scsiw::Status::good);
}

TEST(ScsiControl, LunsAndBuffers) {
    ScsiDisk disk(ScsiDisk::ram());
    const auto& luns = disk.run(scsiw::build_report_luns(256));
    EXPECT_EQ(luns.get<be32>(), 8u);
    EXPECT_EQ(luns.command.transferred, 16u);
    const Bytes data = scsi_pattern(512, 6);
    EXPECT_EQ(disk.status(scsiw::build_write_buffer(512), data), scsiw::Status::good);
    EXPECT_EQ(disk.run(scsiw::build_read_buffer(512)).data, data);
    auto cdb = scsiw::build_read_buffer(4);
    cdb[1] = 3;
    EXPECT_EQ(disk.run(cdb).get<be32>(), 4096u);
    cdb = scsiw::build_read_buffer(4096);
    cdb[5] = 1;  // from the second byte on: one less
    EXPECT_EQ(disk.run(cdb).command.transferred, 4095u);
}

/// Any CDB at all, with any data: an answer, never harm.
TEST(ScsiControl, AnyCdbIsAnswered) {
    ScsiDisk disk(ScsiDisk::ram(1 << 20));
    SeededRandom random(11);
    for (int i = 0; i < 30000; ++i) {
        scsiw::Cdb cdb{};
        for (auto& byte : cdb) byte = random.below(3) == 0 ? static_cast<std::uint8_t>(random.next()) : 0;
        if (i % 2 == 0) cdb[0] = static_cast<std::uint8_t>(random.next());
        if (cdb[0] == scsiw::opcode::start_stop_unit) cdb[4] = 1;
        Bytes data(random.below(4200));
        for (auto& byte : data) byte = random.below(4) == 0 ? static_cast<std::byte>(random.next()) : std::byte{0};
        (void)disk.run(cdb, data, random.below(64));
        if (disk.exchanges.size() > 64) disk.exchanges.clear();
    }
    EXPECT_EQ(disk.nexus->outstanding(), 0u);
}

}  // namespace
}  // namespace mqblk::test
