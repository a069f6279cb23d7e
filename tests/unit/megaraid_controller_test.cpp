// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID model by its registers: start-up, I/O on every path, interrupts, states and resets.
#include "base/random.h"
#include "support/megaraid_host.h"
#include "wire/megaraid_layout.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <set>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using wire::scsi::SenseKey;
namespace reg = mrw::reg;
namespace scsi = wire::scsi;

void fill(std::byte* to, std::size_t bytes, std::uint64_t seed) {
    SeededRandom random(seed);
    for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(random.next());
}

TEST(MegaraidController, SaysWhoItIs) {
    MrHost host;
    const pci::FunctionId id = pci::read_id(host.function());
    EXPECT_EQ(id.vendor, 0x1000);
    EXPECT_EQ(id.device, 0x005d);
    EXPECT_EQ(id.class_code, 0x010400u);
    EXPECT_GE(host.bar().size(), 8192u);
    EXPECT_EQ(host.function().interrupt_counts().msix, 16u);
    EXPECT_EQ(host.state(), mrw::State::ready);
    EXPECT_EQ(host.read(reg::scratch_pad), 0xb40003f0u);
    const auto capability = mrw::decode_capability(host.read(reg::scratch_pad_2), mrw::Generation::invader);
    EXPECT_EQ(capability.reply_queues, 16u);
    EXPECT_EQ(capability.chain_frame_bytes, 4096u);
    EXPECT_EQ(host.read(reg::doorbell), 0u);
    EXPECT_EQ(host.read(reg::outbound_intr_mask), 0xffffffffu);
}

TEST(MegaraidController, StartsAndGoesBackToReady) {
    MrHost host;
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.post_init(host.ioc_init()), mrw::MfiStatus::wrong_state) << "once";
    host.write(reg::doorbell, mrw::doorbell_reset_flags);
    EXPECT_EQ(host.read(reg::doorbell), 1u) << "busy until it is done";
    ASSERT_TRUE(host.wait_state(mrw::State::ready));
    EXPECT_EQ(host.read(reg::doorbell), 0u);
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.run_volume(scsi::build_test_unit_ready(), 0).status, mrw::MfiStatus::ok);
}

TEST(MegaraidController, RefusesAnInitThatCannotBe) {
    const std::function<void(mrw::IocInit&)> wrongs[] = {
        [](mrw::IocInit& i) { i.function = 1; },
        [](mrw::IocInit& i) { i.request_frame_words = 32; },
        [](mrw::IocInit& i) { i.reply_queue_depth = 1; },
        [](mrw::IocInit& i) { i.host_msix_vectors = 17; },
        [](mrw::IocInit& i) { i.request_frames = 0; },
        [](mrw::IocInit& i) { i.reply_queue = 0; },
        [](mrw::IocInit& i) { i.reply_queue = i.reply_queue + 4; },
        [](mrw::IocInit& i) {
            i.msg_flags = mrw::ioc_init_reply_array;
            i.reply_queue = 4096;
        },
    };
    MrHost host;
    for (const auto& spoil : wrongs) {
        auto init = host.ioc_init();
        spoil(init);
        EXPECT_EQ(host.post_init(init), mrw::MfiStatus::invalid_parameter);
        EXPECT_EQ(host.state(), mrw::State::ready);
    }
    ASSERT_TRUE(host.start());
}

TEST(MegaraidController, ReplyQueuesByAnArray) {
    MrHost host;
    auto init = host.ioc_init(3);
    init.msg_flags = mrw::ioc_init_reply_array;
    init.reply_queue = host.data_address(0);
    for (unsigned i = 0; i < 3; ++i) {
        const mrw::ReplyArrayEntry entry{.address = host.replies().address(i * MrHost::depth * 8), .reserved = {}};
        std::memcpy(host.data(i * sizeof entry), &entry, sizeof entry);
    }
    ASSERT_EQ(host.post_init(init), mrw::MfiStatus::ok);
    for (unsigned queue = 0; queue < 3; ++queue) {
        host.prepare(7, scsi::build_test_unit_ready(), 0, {});
        host.post(7, mrw::RequestType::scsi_io, queue);
        const auto reply = host.wait_next();
        ASSERT_TRUE(reply);
        EXPECT_EQ(reply->queue, queue);
    }
}

TEST(MegaraidController, VolumesAndDisksOnEveryPath) {
    MrHost host;
    ASSERT_TRUE(host.start());
    fill(host.data(), 64 << 10, 1);
    EXPECT_EQ(host.run_volume(scsi::build_write(100, 64), 0, 32 << 10).status, mrw::MfiStatus::ok);
    EXPECT_EQ(host.run_disk(scsi::build_write(100, 64), 1, 32 << 10, 32 << 10).status, mrw::MfiStatus::ok);
    // The volume of one disk, by its only member; and the disk, by its handle.
    const MrDone member = host.run_fast(scsi::build_read(100, 64), 2, 32 << 10, 1 << 20);
    EXPECT_EQ(member.status, mrw::MfiStatus::ok);
    EXPECT_EQ(std::memcmp(host.data(), host.data(1 << 20), 32 << 10), 0);
    EXPECT_EQ(host.run_fast(scsi::build_read(100, 64), 1, 32 << 10, 1 << 20).status, mrw::MfiStatus::ok);
    EXPECT_EQ(std::memcmp(host.data(32 << 10), host.data(1 << 20), 32 << 10), 0);
    EXPECT_EQ(host.controller().counters().fast_path, 2u);
    EXPECT_EQ(host.controller().counters().copied, 0u) << "in place";
    EXPECT_EQ(host.run_fast(scsi::build_inquiry(96), 2, 96).bytes, 74u) << "what was moved";
    // Who is not there.
    EXPECT_EQ(host.run_volume(scsi::build_test_unit_ready(), 2).status, mrw::MfiStatus::device_not_found);
    EXPECT_EQ(host.run_disk(scsi::build_test_unit_ready(), 2).status, mrw::MfiStatus::device_not_found)
        << "a member is no disk of its own";
    EXPECT_EQ(host.run_fast(scsi::build_test_unit_ready(), 12).status, mrw::MfiStatus::device_not_found);
    host.prepare(1, scsi::build_test_unit_ready(), 0, {}).lun[1] = 1;
    EXPECT_EQ(host.run_prepared(1).status, mrw::MfiStatus::device_not_found);
}

TEST(MegaraidController, TheFastPathLeadsToTheVolumesBlocks) {
    for (const auto& [level, arms] : {std::pair{0u, 4u}, {1u, 2u}, {5u, 5u}, {6u, 8u}}) {
        MrParts parts;
        parts.volumes = {{.device = mr_ram_disk(), .level = level, .disks = arms}};
        MrHost host({}, std::move(parts));
        ASSERT_TRUE(host.start());
        const mrw::Layout layout = host.controller().topology().volume(0)->layout;
        const unsigned first = host.controller().topology().volume(0)->first_disk;
        for (std::uint64_t strip = 0; strip < 60; ++strip) {
            fill(host.data(), 4096, strip);
            const std::uint64_t block = strip * 128 + 40;
            ASSERT_EQ(host.run_volume(scsi::build_write(block, 8), 0, 4096).status, mrw::MfiStatus::ok);
            const mrw::DiskBlock at = mrw::locate(layout, block);
            const MrDone read = host.run_fast(scsi::build_read(at.block, 8), first + at.arm, 4096, 1 << 20);
            ASSERT_EQ(read.status, mrw::MfiStatus::ok);
            ASSERT_EQ(std::memcmp(host.data(), host.data(1 << 20), 4096), 0) << "RAID " << level << " strip " << strip;
            const MrDone write = host.run_fast(scsi::build_write(at.block, 8), first + at.arm, 4096);
            ASSERT_EQ(write.status, level == 0 ? mrw::MfiStatus::ok : mrw::MfiStatus::scsi_done_with_error);
        }
        const MrDone across = host.run_fast(scsi::build_read(124, 8), first, 4096);
        EXPECT_EQ(across.status, mrw::MfiStatus::scsi_done_with_error) << "beyond a strip it is another disk";
        ASSERT_TRUE(across.sense);
        EXPECT_EQ(across.sense->key, SenseKey::illegal_request);
    }
}

TEST(MegaraidController, ScatteredRequestsOfEveryLength) {
    MrHost host;
    ASSERT_TRUE(host.start());
    SeededRandom random(5);
    for (const unsigned pieces : {1u, 7u, 8u, 9u, 40u, 255u, 256u}) {
        fill(host.data(), 1 << 20, pieces);
        const unsigned blocks = 256;
        std::vector<std::byte> expected;
        MrHost::Ranges list;
        for (unsigned i = 0; i < pieces; ++i) {
            const std::size_t left = blocks * 512 - expected.size();
            const std::size_t count = i + 1 == pieces ? left : 4 * (1 + random.below(left / (pieces - i) / 2));
            const std::size_t at = 4 * random.below(100'000);
            list.push_back({host.data_address(at), count});
            expected.insert(expected.end(), host.data(at), host.data(at) + count);
        }
        host.prepare(3, scsi::build_write(1000, blocks), 1, list);
        ASSERT_EQ(host.run_prepared(3, mrw::RequestType::ld_io).status, mrw::MfiStatus::ok) << pieces;
        ASSERT_EQ(host.run_volume(scsi::build_read(1000, blocks), 1, blocks * 512, 1 << 20).bytes, blocks * 512);
        ASSERT_EQ(std::memcmp(expected.data(), host.data(1 << 20), expected.size()), 0) << pieces;
    }
}

TEST(MegaraidController, ManyAtOnceOverSeveralQueues) {
    MrHost host;
    ASSERT_TRUE(host.start(4));
    for (unsigned round = 0; round < 12; ++round) {
        for (unsigned i = 0; i < 500; ++i) {
            const auto smid = static_cast<std::uint16_t>(1 + i);
            host.prepare(smid, scsi::build_read(8 * (i % 100), 8), i % 2, host.ranges(4096 * (i % 400), 4096));
            host.post(smid, mrw::RequestType::ld_io, i % 4);
        }
        std::set<unsigned> seen;
        while (seen.size() < 500) {
            const auto reply = host.wait_next();
            ASSERT_TRUE(reply);
            EXPECT_EQ(reply->queue, (reply->smid - 1u) % 4) << "in the queue that was asked for";
            ASSERT_TRUE(seen.insert(reply->smid).second);
            ASSERT_EQ(host.done(reply->smid).status, mrw::MfiStatus::ok);
        }
    }
    EXPECT_FALSE(host.next()) << "the queues have wrapped by now";
    EXPECT_EQ(host.controller().in_flight(), 0u);
}

TEST(MegaraidController, ADescriptorInHalves) {
    MrHost host;
    ASSERT_TRUE(host.start());
    host.prepare(9, scsi::build_test_unit_ready(), 0, {});
    const auto raw = std::bit_cast<std::uint64_t>(mrw::RequestDescriptor{0, 0, 9, 0, 0});
    host.write(reg::inbound_low_queue_port, static_cast<std::uint32_t>(raw));
    host.settle();
    EXPECT_FALSE(host.next());
    host.write(reg::inbound_high_queue_port, static_cast<std::uint32_t>(raw >> 32));
    const auto reply = host.wait_next();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->smid, 9);
}

TEST(MegaraidController, ErrorsOfTheDiskHaveTheirSense) {
    MrHost host;
    ASSERT_TRUE(host.start());
    const MrDone beyond = host.run_volume(scsi::build_read(1ull << 40, 8), 0, 4096);
    EXPECT_EQ(beyond.status, mrw::MfiStatus::scsi_done_with_error);
    EXPECT_EQ(beyond.scsi_status, scsi::Status::check_condition);
    EXPECT_EQ(beyond.bytes, 0u);
    ASSERT_TRUE(beyond.sense);
    EXPECT_EQ(beyond.sense->code, scsi::asc::lba_out_of_range);
}

struct VectorWatch {
    VectorWatch(MrHost& host, pci::InterruptType type, unsigned vectors) {
        EXPECT_TRUE(host.function().enable_interrupts(type, vectors));
        raised.resize(vectors);
        for (unsigned i = 0; i < vectors; ++i) {
            lines.push_back(host.function().interrupt(i, host.reactor(), [this, i] { ++raised[i]; }).value());
            lines.back()->arm();
        }
        host.settle();
    }
    std::vector<unsigned> raised;
    std::vector<std::unique_ptr<pci::Interrupt>> lines;
};

TEST(MegaraidController, EachQueueHasItsVector) {
    MrHost host;
    ASSERT_TRUE(host.start(4));
    VectorWatch watch(host, pci::InterruptType::msix, 4);
    for (unsigned queue = 0; queue < 4; ++queue) {
        host.prepare(1, scsi::build_test_unit_ready(), 0, {});
        host.run_prepared(1, mrw::RequestType::scsi_io, queue);
        host.settle();
        for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(watch.raised[i], i <= queue ? 1u : 0u);
    }
}

TEST(MegaraidController, MaskedInterruptsWait) {
    MrHost host;
    ASSERT_TRUE(host.start());
    host.write(reg::outbound_intr_mask, 0xffffffff);
    VectorWatch watch(host, pci::InterruptType::msix, 2);
    host.run_volume(scsi::build_test_unit_ready(), 0);
    host.settle();
    EXPECT_EQ(watch.raised[0], 0u);
    host.write(reg::outbound_intr_mask, ~mrw::intr_fusion);
    host.settle();
    EXPECT_EQ(watch.raised[0], 1u);
}

TEST(MegaraidController, ThePinIsTheLevelOfTheReplyBit) {
    MrHost host;
    ASSERT_TRUE(host.start(0));
    VectorWatch watch(host, pci::InterruptType::intx, 1);
    host.run_volume(scsi::build_test_unit_ready(), 0);
    host.settle();
    EXPECT_EQ(watch.raised[0], 1u);
    EXPECT_EQ(host.read(reg::outbound_intr_status), mrw::intr_reply);
    watch.lines[0]->arm();
    host.settle();
    EXPECT_EQ(watch.raised[0], 2u) << "it is still up";
    host.write(reg::outbound_intr_status, mrw::intr_reply);
    watch.lines[0]->arm();
    host.settle();
    EXPECT_EQ(watch.raised[0], 2u);
}

TEST(MegaraidController, TheDiagnosticResetNeedsItsKeys) {
    MrHost host;
    ASSERT_TRUE(host.start());
    host.write(reg::host_diag, mrw::host_diag_reset_adapter);
    host.settle();
    EXPECT_EQ(host.state(), mrw::State::operational);
    for (const std::uint32_t key : {0u, 0xfu, 0x4u, 0xbu, 0x7u, 0x2u, 0xdu}) host.write(reg::write_sequence, key);
    EXPECT_EQ(host.read(reg::host_diag), 0u) << "in their order";
    host.diag_reset();
    EXPECT_NE(host.read(reg::host_diag) & mrw::host_diag_reset_adapter, 0u);
    ASSERT_TRUE(host.wait_state(mrw::State::ready));
    EXPECT_EQ(host.read(reg::host_diag), 0u);
    EXPECT_EQ(host.controller().counters().resets, 1u);
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.run_volume(scsi::build_test_unit_ready(), 0).status, mrw::MfiStatus::ok);
}

TEST(MegaraidController, AResetUnderLoadDropsAllWithoutAWord) {
    device::megaraid::Options options;
    options.reset_time = 2s;
    options.faults.push_back(device::megaraid::parse_fault("late@0x0,by=1s").value());
    MrHost host(std::move(options));
    ASSERT_TRUE(host.start());
    for (unsigned i = 1; i <= 100; ++i) {
        host.prepare(static_cast<std::uint16_t>(i), scsi::build_read(i, 8), 0, host.ranges(4096 * i, 4096));
        host.post(static_cast<std::uint16_t>(i), mrw::RequestType::ld_io);
    }
    host.settle();
    EXPECT_EQ(host.controller().in_flight(), 100u);
    const Time before = host.world().now();
    host.diag_reset();
    ASSERT_TRUE(host.wait_state(mrw::State::ready));
    EXPECT_GE(host.world().now() - before, 2s);
    EXPECT_FALSE(host.next());
    EXPECT_EQ(host.controller().counters().dropped, 100u);
    EXPECT_EQ(host.controller().in_flight(), 0u);
    host.controller().heal();
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.run_volume(scsi::build_read(0, 8), 0, 4096).status, mrw::MfiStatus::ok);
}

TEST(MegaraidController, AFunctionLevelResetIsAPowerCycle) {
    MrHost host;
    ASSERT_TRUE(host.start());
    bool done = false;
    spawn(host.function().reset(host.reactor()), [&done](Result<> r) { done = r.has_value(); });
    ASSERT_TRUE(host.run_until([&] { return done; }));
    EXPECT_EQ(host.state(), mrw::State::ready);
    EXPECT_EQ(host.read(reg::outbound_intr_mask), 0xffffffffu);
    host.function().set_bus_master(true);
    ASSERT_TRUE(host.start());
}

TEST(MegaraidController, Thunderbolt) {
    device::megaraid::Options options;
    options.device_id = mrw::pci_device::thunderbolt;
    options.reply_queues = 8;
    MrHost host(std::move(options));
    EXPECT_EQ(mrw::decode_capability(host.read(reg::scratch_pad_2), mrw::Generation::thunderbolt).reply_queues, 8u);
    ASSERT_TRUE(host.start(8));
    for (unsigned queue = 0; queue < 8; ++queue) {
        host.prepare(1, scsi::build_read(0, 8), 0, host.ranges(0, 4096));
        EXPECT_EQ(host.run_prepared(1, mrw::RequestType::ld_io, queue).status, mrw::MfiStatus::ok);
    }
}

TEST(MegaraidController, RefusesWhatItCannotBe) {
    using device::megaraid::Controller;
    const auto refused = [](device::megaraid::Options options, MrParts parts = {}) {
        auto made = Controller::create(std::move(parts.disks), parts.volumes, std::move(options));
        return made ? std::string() : made.error().message();
    };
    EXPECT_NE(refused({.device_id = 0x0060}).find("0x0060"), std::string::npos);
    EXPECT_NE(refused({.max_commands = 31}).find("31 commands"), std::string::npos);
    EXPECT_NE(refused({.device_id = 0x5b, .reply_queues = 17}).find("17 reply queues"), std::string::npos);
    EXPECT_NE(refused({.chain_frame_bytes = 2048}).find("2048"), std::string::npos);
    device::megaraid::Options none_there;
    none_there.faults.push_back(device::megaraid::parse_fault("lost,pd=200").value());
    EXPECT_NE(refused(std::move(none_there)).find("pd=200: there are"), std::string::npos);
    MrParts parts;
    parts.volumes = {{.device = mr_ram_disk(), .level = 5, .disks = 2}};
    EXPECT_NE(refused({}, std::move(parts)).find("RAID 5 of 2 disks"), std::string::npos);
    parts = {};
    parts.disks.assign(250, mr_ram_disk());
    EXPECT_NE(refused({}, std::move(parts)).find("there are 256"), std::string::npos);
}

// What a disk has less than the host has room for: nothing of what lies in the model's memory behind it goes there.
TEST(MegaraidController, NoMoreIsGivenThanTheDiskHad) {
    MrHost host;
    ASSERT_TRUE(host.start());
    fill(host.data(), 64 << 10, 0x5a);
    ASSERT_EQ(host.run_disk(scsi::build_write(0, 64), 0, 32 << 10).status, mrw::MfiStatus::ok);
    std::memset(host.data(1 << 20), 0xaa, 32 << 10);
    const MrDone done = host.run_disk(scsi::build_inquiry(0xffff), 0, 32 << 10, 1 << 20);
    EXPECT_EQ(done.bytes, 74u);
    for (std::size_t i = 74; i < 32 << 10; ++i) ASSERT_EQ(host.data(1 << 20)[i], std::byte{0xaa}) << i;
}

TEST(MegaraidController, DisksOfOneNameHaveSerialNumbersOfTheirOwn) {
    MrHost host;
    ASSERT_TRUE(host.start());
    std::set<std::string> serials;
    for (const auto& target : host.controller().topology().targets()) serials.insert(target->unit->serial());
    EXPECT_EQ(serials.size(), host.controller().topology().targets().size());
}

// An INIT that comes while the controller works is refused, and the reply queues stay as they are.
TEST(MegaraidController, ASecondInitChangesNothing) {
    MrHost host;
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.post_init(host.ioc_init()), mrw::MfiStatus::wrong_state);
    for (unsigned i = 0; i < 3; ++i)
        EXPECT_EQ(host.run_disk(scsi::build_read(0, 8), 0, 4096).status, mrw::MfiStatus::ok);
    EXPECT_EQ(host.state(), mrw::State::operational);
}

}  // namespace
}  // namespace mqblk::test
