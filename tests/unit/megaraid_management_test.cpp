// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID model's management frames: what it tells of itself, of disks, volumes and maps; events and maps that are
// waited for; disks that come and go.
#include "block/device_core.h"
#include "support/megaraid_host.h"
#include "wire/megaraid_layout.h"

#include <algorithm>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using mrw::MfiStatus;
namespace scsi = wire::scsi;

mrw::Mailbox mailbox_byte(std::uint8_t b0, std::uint8_t b1 = 0) {
    mrw::Mailbox mailbox;
    mailbox.bytes[0] = b0;
    mailbox.bytes[1] = b1;
    return mailbox;
}

class MegaraidManagement : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(host.start()); }

    mrw::Mailbox wait_from(std::uint32_t sequence) {
        mrw::Mailbox mailbox;
        mailbox.set_word(0, sequence);
        mailbox.set_word(1, mrw::class_locale(mrw::EventClass::debug, mrw::locale_all));
        return mailbox;
    }
    std::vector<unsigned> exposed_disks() {
        EXPECT_EQ(host.run_dcmd(mrw::dcmd::pd_list_query, 8192, mailbox_byte(5)), MfiStatus::ok);
        std::vector<unsigned> ids;
        const auto disks = mrw::decode_pd_list(host.answer(8192)).value();
        for (const auto& disk : disks) ids.push_back(disk.device_id);
        return ids;
    }
    MrHost host;
};

TEST_F(MegaraidManagement, ControllerInformation) {
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_get_info, 0x950, mailbox_byte(1)), MfiStatus::ok);
    const auto info = host.answer_as<mrw::ControllerInfo>();
    EXPECT_EQ(info.vendor_id, 0x1000);
    EXPECT_EQ(info.device_id, 0x005d);
    EXPECT_EQ(info.max_request_sectors, 2048u);
    EXPECT_EQ((1u << info.min_strip_shift) * info.max_strips_per_io, 2048u);
    EXPECT_EQ(info.on_off_properties & mrw::property_disable_online_reset, 0u);
    EXPECT_NE(info.adapter_operations3 & mrw::operation3_max_ext_lds, 0u);
    EXPECT_EQ(info.adapter_operations3 & mrw::operation3_crash_dump, 0u);
    EXPECT_EQ(info.lds_present, 2);
}

TEST_F(MegaraidManagement, ListsOfDisksAndVolumes) {
    EXPECT_EQ(exposed_disks(), (std::vector<unsigned>{0, 1}));
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::pd_list_query, 8192, mailbox_byte(0)), MfiStatus::ok);
    EXPECT_EQ(mrw::decode_pd_list(host.answer(8192)).value().size(), 11u) << "members too: 2 and 1 and 8";
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_list_query, 268, mailbox_byte(1)), MfiStatus::ok);
    const auto targets = mrw::decode_target_list(host.answer(268), 256).value();
    ASSERT_EQ(targets.size(), 2u);
    EXPECT_EQ(targets[1], 1);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_get_list, 4104), MfiStatus::ok);
    const auto volumes = mrw::decode_ld_list(host.answer(4104), 256).value();
    ASSERT_EQ(volumes.size(), 2u);
    EXPECT_EQ(volumes[0].blocks, 32768u);
    EXPECT_EQ(volumes[0].state, static_cast<unsigned>(mrw::LdState::optimal));
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::pd_list_query, 8192, mailbox_byte(3)), MfiStatus::invalid_parameter);
}

TEST_F(MegaraidManagement, OneDiskOrVolume) {
    mrw::Mailbox mailbox;
    mailbox.set_half(0, 1);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::pd_get_info, 512, mailbox), MfiStatus::ok);
    const auto info = host.answer_as<mrw::PdInfo>();
    EXPECT_EQ(info.device_id, 1);
    EXPECT_EQ(info.state, static_cast<unsigned>(mrw::PdState::system));
    EXPECT_EQ(info.raw_blocks, 32768u);
    EXPECT_EQ(info.interface, static_cast<unsigned>(mrw::PdInterface::sas));
    mailbox.set_half(0, 77);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::pd_get_info, 512, mailbox), MfiStatus::device_not_found);
    mailbox = mailbox_byte(1);
    mailbox.set_half(1, 1);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::drv_get_target_prop, 512, mailbox), MfiStatus::ok);
    EXPECT_EQ(host.answer_as<mrw::TargetProperties>().sector_bytes, 512u);
    mailbox.set_half(1, 9);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::drv_get_target_prop, 512, mailbox), MfiStatus::device_not_found);
}

TEST_F(MegaraidManagement, TheMapLeadsToTheDisks) {
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_map_get_info, mrw::extended_map_bytes), MfiStatus::ok);
    const auto map = mrw::decode_extended_map(host.answer(mrw::extended_map_bytes)).value();
    const mrw::LdSpanMap* const raid6 = map.find(1);
    ASSERT_NE(raid6, nullptr);
    EXPECT_EQ(raid6->raid.level, 6);
    const auto layout = mrw::layout_of(raid6->raid);
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout->arms, 8u);
    EXPECT_TRUE(mrw::fits_fast_path(raid6->raid, 0, 8, true));
    EXPECT_FALSE(mrw::fits_fast_path(raid6->raid, 0, 8, false));
    const mrw::DiskBlock at = mrw::locate(*layout, 1000);
    EXPECT_EQ(map.handle(*raid6, 0, at.arm), device::megaraid::first_handle + 3 + at.arm);
    EXPECT_EQ(map.find(2), nullptr);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::system_pd_map_get_info, mrw::pd_map_bytes(256)), MfiStatus::ok);
    const auto disks = mrw::decode_pd_map(host.answer(mrw::pd_map_bytes(256))).value();
    ASSERT_EQ(disks.size(), 11u);
    EXPECT_EQ(disks[1].handle, device::megaraid::first_handle + 1);
    EXPECT_EQ(disks[2].handle, mrw::handle_invalid) << "a member";
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_map_get_info, 4096), MfiStatus::invalid_parameter) << "does not fit";
}

TEST(MegaraidMaps, ADriverThatDoesNotKnowTheLargeFormGetsTheOther) {
    MrHost host;
    ASSERT_EQ(host.post_init(host.ioc_init(), 0), MfiStatus::ok);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_get_info, 0x800), MfiStatus::ok);
    EXPECT_EQ(host.answer_as<mrw::ControllerInfo>().adapter_operations3 & mrw::operation3_max_ext_lds, 0u);
    const std::size_t bytes = mrw::legacy_map_bytes(64);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_map_get_info, bytes), MfiStatus::ok);
    const auto map = mrw::decode_legacy_map(host.answer(bytes)).value();
    ASSERT_NE(map.find(1), nullptr);
    EXPECT_EQ(map.find(1)->raid.level, 6);
}

TEST_F(MegaraidManagement, WhatItDoesNotKnowIsRefused) {
    EXPECT_EQ(host.run_dcmd(0x0b010100, 64), MfiStatus::invalid_dcmd);
    for (const unsigned command : {1u, 2u, 3u, 4u, 7u, 8u, 9u, 0xffu}) {
        auto frame = MrHost::dcmd(0, 0, 0, {});
        frame.header.command = static_cast<std::uint8_t>(command);
        host.put_management(5, frame);
        host.post(5, mrw::RequestType::scsi_io);
        ASSERT_TRUE(host.wait_next());
        EXPECT_EQ(host.management_status(5), MfiStatus::invalid_cmd);
    }
}

TEST_F(MegaraidManagement, AnswersGoIntoEveryFormOfList) {
    auto frame = MrHost::dcmd(mrw::dcmd::ctrl_event_get_info, 20, 0, {});
    frame.header.flags = mrw::mfi_read | mrw::mfi_sgl64;
    frame.header.sges = 2;
    const mrw::MfiSge64 sges[2] = {{.address = host.data_address(100), .bytes = 4},
                                   {.address = host.data_address(200), .bytes = 16}};
    std::memcpy(frame.sgl, sges, sizeof sges);
    host.put_management(5, frame);
    host.data(100)[1] = std::byte{0xee};
    host.post(5, mrw::RequestType::scsi_io);
    ASSERT_TRUE(host.wait_next());
    EXPECT_EQ(host.management_status(5), MfiStatus::ok);
    EXPECT_EQ(host.data(100)[1], std::byte{0}) << "newest, 4 bytes";
    EXPECT_EQ(host.data(200)[0], std::byte{1}) << "oldest";
    frame.header.sges = 1;
    host.put_management(5, frame);
    host.post(5, mrw::RequestType::scsi_io);
    ASSERT_TRUE(host.wait_next());
    EXPECT_EQ(host.management_status(5), MfiStatus::invalid_parameter) << "too little room";
}

TEST_F(MegaraidManagement, EventsAreWaitedFor) {
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_event_get_info, 20), MfiStatus::ok);
    const std::uint32_t newest = host.answer_as<mrw::EventLogInfo>().newest;
    host.post_dcmd(20, mrw::dcmd::ctrl_event_wait, 256, wait_from(newest + 1), 0);
    host.run_for(10s);
    EXPECT_FALSE(host.next());
    EXPECT_EQ(host.management_status(20), MfiStatus::pending);
    host.controller().pull_disk(1);
    auto reply = host.wait_next();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->smid, 20);
    EXPECT_EQ(host.management_status(20), MfiStatus::ok);
    mrw::Event event;
    std::memcpy(&event, host.data(), sizeof event);
    EXPECT_EQ(event.sequence, newest + 1);
    EXPECT_EQ(event.code, mrw::event::pd_removed);
    EXPECT_EQ(event.arguments[0], 1);
    EXPECT_EQ(exposed_disks(), (std::vector<unsigned>{0}));
    EXPECT_EQ(host.run_disk(scsi::build_test_unit_ready(), 1).status, MfiStatus::device_not_found);
    // What happened meanwhile is told at once.
    host.controller().put_disk(1);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_event_wait, 256, wait_from(newest + 2)), MfiStatus::ok);
    EXPECT_EQ(host.answer_as<mrw::Event>().code, mrw::event::pd_inserted);
    EXPECT_EQ(exposed_disks(), (std::vector<unsigned>{0, 1}));
    ASSERT_TRUE(host.controller().add_disk(mr_ram_disk()));
    EXPECT_EQ(exposed_disks(), (std::vector<unsigned>{0, 1, 11}));
    EXPECT_EQ(host.run_fast(scsi::build_read(0, 8), 11, 4096).status, MfiStatus::ok);
    host.controller().set_volume_present(0, false);
    EXPECT_EQ(host.run_volume(scsi::build_read(0, 8), 0, 4096).status, MfiStatus::ld_offline);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_list_query, 268, mailbox_byte(1)), MfiStatus::ok);
    EXPECT_EQ(mrw::decode_target_list(host.answer(268), 256).value().size(), 1u);
}

TEST_F(MegaraidManagement, AnEventWaitIsAborted) {
    host.post_dcmd(20, mrw::dcmd::ctrl_event_wait, 256, wait_from(1), 0);
    host.settle();
    mrw::AbortFrame abort;
    abort.header.command = static_cast<std::uint8_t>(mrw::MfiCommand::abort);
    abort.header.status = 0xff;
    abort.abort_context = 20;
    abort.abort_frame = host.management_address(20);
    host.put_management(21, abort);
    host.post(21, mrw::RequestType::scsi_io);
    EXPECT_EQ(host.wait_next()->smid, 20) << "the aborted one first";
    EXPECT_EQ(host.wait_next()->smid, 21);
    EXPECT_EQ(host.management_status(21), MfiStatus::ok);
    EXPECT_NE(host.management_status(20), MfiStatus::pending);
    host.post(21, mrw::RequestType::scsi_io);
    ASSERT_TRUE(host.wait_next());
    EXPECT_EQ(host.management_status(21), MfiStatus::abort_not_possible);
}

TEST_F(MegaraidManagement, MapsAreWaitedFor) {
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_map_get_info, mrw::extended_map_bytes), MfiStatus::ok);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::system_pd_map_get_info, mrw::pd_map_bytes(256)), MfiStatus::ok);
    host.post_dcmd(20, mrw::dcmd::ld_map_get_info, mrw::extended_map_bytes, mailbox_byte(2, mrw::map_pend));
    host.post_dcmd(21, mrw::dcmd::system_pd_map_get_info, mrw::pd_map_bytes(256), mailbox_byte(mrw::map_pend), 0);
    host.run_for(10s);
    EXPECT_FALSE(host.next());
    host.controller().pull_disk(0);
    EXPECT_TRUE(host.wait_next() && host.wait_next());
    EXPECT_EQ(host.management_status(20), MfiStatus::ok);
    EXPECT_EQ(host.management_status(21), MfiStatus::ok);
    const auto map = mrw::decode_extended_map(host.answer(mrw::extended_map_bytes)).value();
    EXPECT_EQ(map.device[0].current, mrw::handle_invalid);
    EXPECT_EQ(mrw::decode_pd_map({host.data(), mrw::pd_map_bytes(256)}).value()[0].handle, mrw::handle_invalid);
    // A change between an answer and the next wait is not lost.
    host.controller().put_disk(0);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_map_get_info, mrw::extended_map_bytes, mailbox_byte(2, mrw::map_pend)),
              MfiStatus::ok);
    // An old sequence number is refused, the new one is not; none at all is a driver without a map.
    const unsigned now = host.controller().topology().disk(0)->sequence;
    for (const unsigned sequence : {now - 1, now, 0u}) {
        host.prepare_fast(1, scsi::build_read(0, 8), 0, host.ranges(0, 4096));
        host.frame(1).context.lock_flags = mrw::lock_sequence_number;
        host.frame(1).context.config_seq = static_cast<std::uint16_t>(sequence);
        EXPECT_EQ(host.run_prepared(1).status, sequence == now - 1 ? MfiStatus::config_seq_mismatch : MfiStatus::ok);
    }
}

TEST_F(MegaraidManagement, AFlushReachesEveryDisk) {
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_cache_flush, 0, mailbox_byte(3)), MfiStatus::ok);
    for (std::uint16_t smid = 20; smid < 30; ++smid) host.post_dcmd(smid, mrw::dcmd::ctrl_cache_flush);
    for (std::uint16_t smid = 20; smid < 30; ++smid) ASSERT_TRUE(host.wait_next());
    for (std::uint16_t smid = 20; smid < 30; ++smid) EXPECT_EQ(host.management_status(smid), MfiStatus::ok);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_shutdown), MfiStatus::ok);
}

TEST(MegaraidChanges, ADiskThatIsRemovedBelowIsToldToTheHost) {
    MrParts parts;
    const auto disk = parts.disks[1];
    MrHost host({}, std::move(parts));
    ASSERT_TRUE(host.start());
    disk->remove();
    host.settle();
    mrw::Mailbox mailbox;
    mailbox.set_word(0, 1);
    mailbox.set_word(1, mrw::class_locale(mrw::EventClass::debug, mrw::locale_all));
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_event_wait, 256, mailbox), MfiStatus::ok);
    EXPECT_EQ(host.answer_as<mrw::Event>().code, mrw::event::pd_removed);
    host.controller().put_disk(1);
    EXPECT_EQ(host.run_disk(scsi::build_test_unit_ready(), 1).status, MfiStatus::device_not_found) << "it is gone";
}

}  // namespace
}  // namespace mqblk::test
