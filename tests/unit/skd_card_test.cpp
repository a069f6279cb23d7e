// SPDX-License-Identifier: Apache-2.0
//
// The S1120 model by its registers: start-up, commands, the ring, interrupts, states and resets.
#include "base/random.h"
#include "block/device_core.h"
#include "driver/null/null.h"
#include "support/skd_host.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <set>
#include <string>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using skdw::DriveState;
namespace reg = skdw::reg;

void fill_pattern(std::byte* to, std::size_t bytes, std::uint64_t seed) {
    SeededRandom random(seed);
    for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(random.next());
}

TEST(SkdCard, SaysWhoItIs) {
    SkdHost host;
    const pci::FunctionId id = pci::read_id(host.function());
    EXPECT_EQ(id.vendor, 0x1b39);
    EXPECT_EQ(id.device, 0x0001);
    EXPECT_GT(host.function().bar(0).value().size(), 0u);
    EXPECT_GE(host.bar().size(), 0x1000u);
    EXPECT_EQ(host.function().interrupt_counts().msix, 13u);
    EXPECT_EQ(host.function().interrupt_counts().msi, 1u);
    EXPECT_EQ(host.function().interrupt_counts().intx, 1u);
}

TEST(SkdCard, HandshakeToOnline) {
    SkdHost host;
    ASSERT_TRUE(host.wait_state(DriveState::init));
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.depth(), 256u);
    EXPECT_EQ(host.read(reg::control), skdw::control_enable_interrupts) << "the reset bit clears itself";
    EXPECT_EQ(host.read(reg::int_mask_host), skdw::mask_driver) << "a soft reset keeps the gates";
    EXPECT_NE(host.read(reg::hw_version), 0xffffffffu);
}

TEST(SkdCard, AnswersMailboxMessagesWithTheirType) {
    SkdHost host;
    ASSERT_TRUE(host.wait_state(DriveState::init));
    EXPECT_EQ(host.mailbox(0x01000000), 0x01100000u);
    EXPECT_EQ(host.mailbox(0x02000000), 0x02000100u);
    EXPECT_EQ(host.mailbox(0x03000100), 0x03000000u);
    EXPECT_EQ(host.mailbox(0x0800abcd), 0x0800abcdu);
    EXPECT_EQ(host.mailbox(0x05000000), 0u) << "no ring, no queue to arm";
    EXPECT_EQ(host.mailbox(0x77000000), 0u);
    host.write64(reg::msg_to_device_arg, host.ring_address() + 4);
    EXPECT_EQ(host.mailbox(0x04000000), 0u) << "a ring that is not aligned";
    // The argument in halves.
    host.write(reg::msg_to_device_arg, static_cast<std::uint32_t>(host.ring_address()));
    host.write(reg::msg_to_device_arg + 4, static_cast<std::uint32_t>(host.ring_address() >> 32));
    EXPECT_EQ(host.bar().read64(reg::msg_to_device_arg), host.ring_address());
    EXPECT_EQ(host.mailbox(0x04000000), 0x04000000u);
    EXPECT_EQ(host.mailbox(0x05000000), 0x05000000u);
    EXPECT_TRUE(host.wait_state(DriveState::online));
}

TEST(SkdCard, RefusesDisksAndFaultsThatItCannotHave) {
    const auto refusal = [](std::shared_ptr<Device> disk, const char* fault = nullptr) {
        device::skd::Options options;
        if (fault != nullptr) options.faults.push_back(device::skd::parse_fault(fault).value());
        const auto card = device::skd::Card::create(std::move(disk), std::move(options));
        if (card) return std::string();
        EXPECT_EQ(card.error().code(), Errc::invalid_argument);
        return card.error().message();
    };
    const auto null_disk = [](std::uint64_t bytes) { return driver::null::open({.bytes = bytes, .disk = {}}).value(); };
    EXPECT_EQ(refusal(null_disk(2ull << 40)), "");
    EXPECT_NE(refusal(null_disk((2ull << 40) + 512)).find("drivers of this card see 2 TiB at most"), std::string::npos);
    EXPECT_NE(
        refusal(driver::ram::open({.bytes = 1 << 20, .disk = {.read_only = true}}).value()).find("write-protected"),
        std::string::npos);
    EXPECT_NE(refusal(driver::ram::open({.bytes = 1 << 20, .disk = {.block = 4096}}).value()).find("4096 bytes"),
              std::string::npos);
    EXPECT_EQ(refusal(skd_ram_disk(1 << 20), "lost,lba=2047"), "");
    EXPECT_EQ(refusal(skd_ram_disk(1 << 20), "medium-error,blocks=9999"), "");
    EXPECT_EQ(refusal(skd_ram_disk(1 << 20), "lost,lba=2048"), "fault at lba=2048: the last block of 'ram' is 2047");
}

TEST(SkdCard, TheDriversInternalCommands) {
    device::skd::Options options;
    options.serial = "STM000012345";
    SkdHost host(options);
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.run(scsiw::build_test_unit_ready()).status, scsiw::Status::good);
    for (unsigned i = 0; i < 512; ++i) host.data()[i] = static_cast<std::byte>(i);
    EXPECT_EQ(host.run(scsiw::build_write_buffer(512), 512).bytes, 512u);
    EXPECT_EQ(host.run(scsiw::build_read_buffer(512), 512, 4096).bytes, 512u);
    EXPECT_EQ(std::memcmp(host.data(), host.data(4096), 512), 0);
    EXPECT_EQ(host.run(scsiw::build_read_capacity_10(), 8).status, scsiw::Status::good);
    scsiw::Capacity10 capacity;
    std::memcpy(&capacity, host.data(), sizeof capacity);
    EXPECT_EQ(capacity.last_lba + 1, host.disk().sectors());
    EXPECT_EQ(capacity.block_bytes, 512u);
    EXPECT_EQ(host.run(scsiw::build_inquiry_page(scsiw::vpd::unit_serial_number, 16), 16).bytes, 16u);
    EXPECT_EQ(std::string(reinterpret_cast<char*>(host.data(4)), 12), "STM000012345");
    EXPECT_EQ(host.run(scsiw::build_synchronize_cache()).status, scsiw::Status::good);
}

TEST(SkdCard, SerialNumbersThatDoNotFitAreRefused) {
    struct Row {
        std::string serial;
        const char* error;  ///< part of it; null: it is good
    };
    for (const Row& row : {Row{"", nullptr},
                           {"S", nullptr},
                           {"STM 00012345", nullptr},
                           {"STM0000123456", "has 13 characters, and the card has room for 12"},
                           {std::string(100'000, 'S'), "has 100000 characters"},
                           {"STM\n1", "not printable ASCII"},
                           {"STM\x7f", "not printable ASCII"},
                           {std::string(1, '\0'), "not printable ASCII"},
                           {"STM\xc3\xbc", "not printable ASCII"}}) {
        device::skd::Options options;
        options.serial = row.serial;
        const auto card = device::skd::Card::create(skd_ram_disk(), options);
        ASSERT_EQ(card.has_value(), row.error == nullptr) << row.serial.substr(0, 20);
        if (card) continue;
        EXPECT_NE(card.error().message().find(row.error), std::string::npos) << card.error().message();
        EXPECT_EQ(card.error().message().find('\n'), std::string::npos);
        EXPECT_LT(card.error().message().size(), 200u);
    }
}

TEST(SkdCard, WritesAndReadsThroughScatteredLists) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    SeededRandom random(7);
    fill_pattern(host.data(), 1 << 20, 1);
    std::vector<std::byte> expected;
    SkdRequest write{.cdb = scsiw::build_write(100, 96, scsiw::block_fua_nv), .tag = 0x0407};
    for (unsigned i = 0; i < 48; ++i) {
        // Pieces of any multiple of four, at any multiple of four.
        const std::size_t bytes = i < 47 ? 4 * (1 + random.below(200)) : 0;
        const std::size_t offset = 4 * random.below(200'000);
        const std::size_t left = 96 * 512 - expected.size();
        const std::size_t count = i == 47 ? left : std::min(bytes, left - 4);
        write.data.push_back({host.data_address(offset), count});
        expected.insert(expected.end(), host.data(offset), host.data(offset) + count);
    }
    ASSERT_EQ(expected.size(), 96u * 512);
    SkdDone done = host.run(write);
    EXPECT_EQ(done.status, scsiw::Status::good);
    EXPECT_EQ(done.bytes, 96u * 512);
    done = host.run(scsiw::build_read(100, 96), 96 * 512, 2 << 20);
    EXPECT_EQ(done.bytes, 96u * 512);
    EXPECT_EQ(std::memcmp(host.data(2 << 20), expected.data(), expected.size()), 0);
    EXPECT_EQ(host.card().counters().copied, 0u) << "in place";
}

TEST(SkdCard, FourteenRequestsInAMessage) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    fill_pattern(host.data(), 14 * 512, 2);
    for (unsigned n = 1; n <= 14; ++n) {
        std::vector<SkdRequest> requests;
        for (unsigned i = 0; i < n; ++i) {
            requests.push_back({.cdb = scsiw::build_write(1000 + i, 1),
                                .tag = static_cast<std::uint16_t>(i),
                                .data = {{host.data_address(512 * i), 512}}});
        }
        const std::uint64_t bell = host.prepare(requests);
        EXPECT_EQ(bell >> 4 & 3, n <= 2 ? 1u : n <= 6 ? 2u : 3u);
        host.ring_doorbell(bell);
        std::set<unsigned> tags;
        for (unsigned i = 0; i < n; ++i) {
            const auto done = host.wait_next();
            ASSERT_TRUE(done);
            EXPECT_EQ(done->status, scsiw::Status::good);
            EXPECT_TRUE(tags.insert(done->tag).second);
        }
        EXPECT_FALSE(host.next());
    }
    EXPECT_EQ(host.run(scsiw::build_read(1000, 14), 14 * 512, 1 << 20).status, scsiw::Status::good);
    EXPECT_EQ(std::memcmp(host.data(), host.data(1 << 20), 14 * 512), 0);
}

TEST(SkdCard, TheRingWrapsAndItsCycleToo) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    // 256 turns of the ring: the cycle goes over 255 to 0 and on.
    constexpr unsigned batch = 200;
    unsigned seen = 0;
    for (unsigned round = 0; round < 256 * 256 / batch + 5; ++round) {
        for (unsigned i = 0; i < batch; i += 10) {
            std::vector<SkdRequest> requests;
            for (unsigned k = 0; k < 10; ++k)
                requests.push_back({.cdb = scsiw::build_test_unit_ready(), .tag = static_cast<std::uint16_t>(i + k)});
            host.send(requests);
        }
        for (unsigned i = 0; i < batch; ++i, ++seen) {
            const auto done = host.wait_next();
            ASSERT_TRUE(done) << seen;
            ASSERT_EQ(done->tag, i) << seen;
        }
    }
    EXPECT_GT(seen, 256u * 256);
}

TEST(SkdCard, ADoorbellInHalves) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    const std::uint64_t bell = host.prepare({{.cdb = scsiw::build_test_unit_ready(), .tag = 5}});
    host.write(reg::q_command, static_cast<std::uint32_t>(bell));
    host.write(reg::q_command + 4, static_cast<std::uint32_t>(bell >> 32));
    const auto done = host.wait_next();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->tag, 5);
}

TEST(SkdCard, ManyDoorbellsFillTheFifoAndThenOverrunIt) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    const std::uint64_t bell = host.prepare({{.cdb = scsiw::build_test_unit_ready(), .tag = 5}});
    for (unsigned i = 0; i < 255; ++i) host.ring_doorbell(bell);
    EXPECT_EQ(host.read(reg::int_status_host) & (skdw::cause_q0_full | skdw::cause_qcmd_fifo_overrun), 0u);
    host.ring_doorbell(bell);
    EXPECT_NE(host.read(reg::int_status_host) & skdw::cause_q0_full, 0u);
    host.ring_doorbell(bell);
    EXPECT_NE(host.read(reg::int_status_host) & skdw::cause_qcmd_fifo_overrun, 0u);
    unsigned done = 0;
    host.run_until(
        [&] {
            while (host.next()) ++done;
            return host.card().in_flight() == 0 && done >= 256;
        },
        1s);
    EXPECT_EQ(done, 256u);
    EXPECT_EQ(host.card().counters().overruns, 1u);
}

struct InterruptWatch {
    explicit InterruptWatch(SkdHost& host, pci::InterruptType type, unsigned vectors) : host_(host) {
        EXPECT_TRUE(host.function().enable_interrupts(type, vectors));
        raised.resize(vectors);
        for (unsigned i = 0; i < vectors; ++i) {
            interrupts.push_back(host.function().interrupt(i, host.reactor(), [this, i] { ++raised[i]; }).value());
            interrupts.back()->arm();
        }
        settle();
    }
    void settle() { host_.run_for(1ms); }
    SkdHost& host_;
    std::vector<unsigned> raised;
    std::vector<std::unique_ptr<pci::Interrupt>> interrupts;
};

TEST(SkdCard, EachMsixVectorHasItsCause) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    host.write(reg::int_status_host, skdw::cause_acknowledge);
    InterruptWatch watch(host, pci::InterruptType::msix, 13);
    EXPECT_EQ(std::ranges::count(watch.raised, 0u), 13);
    host.run(scsiw::build_test_unit_ready());
    watch.settle();
    EXPECT_EQ(watch.raised[skdw::vector_completion], 1u);
    // Not again before it is cleared, however many completions come.
    watch.interrupts[skdw::vector_completion]->arm();
    host.run(scsiw::build_test_unit_ready());
    watch.settle();
    EXPECT_EQ(watch.raised[skdw::vector_completion], 1u);
    // What came while the cause was up may not have been seen by who clears it: once more, and no more.
    host.write(reg::int_status_host, skdw::cause_completion_posted);
    watch.settle();
    EXPECT_EQ(watch.raised[skdw::vector_completion], 2u);
    EXPECT_EQ(host.read(reg::int_status_host), skdw::cause_completion_posted);
    watch.interrupts[skdw::vector_completion]->arm();
    host.write(reg::int_status_host, skdw::cause_completion_posted);
    watch.settle();
    EXPECT_EQ(watch.raised[skdw::vector_completion], 2u);
    EXPECT_EQ(host.read(reg::int_status_host), 0u);
    host.run(scsiw::build_test_unit_ready());
    watch.settle();
    EXPECT_EQ(watch.raised[skdw::vector_completion], 3u);
    host.mailbox(0x02000000);
    watch.settle();
    EXPECT_EQ(watch.raised[skdw::vector_message], 1u);
    host.card().enter(DriveState::busy);
    watch.settle();
    EXPECT_EQ(watch.raised[skdw::vector_state_change], 1u);
    for (const unsigned other : {0u, 1u, 2u, 3u, 7u, 8u, 9u, 10u, 11u, 12u})
        EXPECT_EQ(watch.raised[other], 0u) << other;
}

TEST(SkdCard, BothGatesMustBeOpen) {
    for (const bool enabled : {false, true}) {
        for (const bool masked : {false, true}) {
            SkdHost host;
            ASSERT_TRUE(host.start());
            host.write(reg::control, enabled ? std::uint32_t{skdw::control_enable_interrupts} : 0u);
            host.write(reg::int_mask_host, masked ? skdw::mask_all : skdw::mask_driver);
            host.write(reg::int_status_host, skdw::cause_acknowledge);
            InterruptWatch watch(host, pci::InterruptType::msi, 1);
            host.run(scsiw::build_test_unit_ready());
            watch.settle();
            EXPECT_EQ(watch.raised[0], enabled && !masked ? 1u : 0u);
            EXPECT_EQ(host.read(reg::int_status_host), skdw::cause_completion_posted) << "the cause shows all the same";
            // A gate that opens lets through what waits.
            host.write(reg::int_mask_host, skdw::mask_driver);
            host.write(reg::control, skdw::control_enable_interrupts);
            watch.settle();
            EXPECT_EQ(watch.raised[0], 1u);
        }
    }
}

TEST(SkdCard, ThePinIsTheLevelOfTheCauses) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    host.write(reg::int_status_host, skdw::cause_acknowledge);
    InterruptWatch watch(host, pci::InterruptType::intx, 1);
    EXPECT_EQ(watch.raised[0], 0u);
    host.run(scsiw::build_test_unit_ready());
    watch.settle();
    EXPECT_EQ(watch.raised[0], 1u);
    watch.interrupts[0]->arm();
    watch.settle();
    EXPECT_EQ(watch.raised[0], 2u) << "it is still up";
    host.write(reg::int_status_host, skdw::cause_completion_posted);
    watch.interrupts[0]->arm();
    watch.settle();
    EXPECT_EQ(watch.raised[0], 2u);
}

/// A disk that answers when the test says so.
TEST(SkdCard, SoftResetUnderLoadDropsAllAndStartsAgain) {
    device::skd::Options options;
    options.profile = device::skd::Profile::s1120;
    SkdHost host(options);
    ASSERT_TRUE(host.start());
    for (unsigned i = 0; i < 100; ++i) {
        host.send({{.cdb = scsiw::build_read(i, 8),
                    .tag = static_cast<std::uint16_t>(i),
                    .data = {{host.data_address(4096 * i), 4096}}}});
    }
    host.run_for(50us);
    EXPECT_EQ(host.card().in_flight(), 100u);
    std::memset(host.ring().data(), 0, host.ring().size());
    host.soft_reset();
    EXPECT_EQ(host.state(), DriveState::soft_reset);
    ASSERT_TRUE(host.wait_state(DriveState::init));
    EXPECT_NE(host.read(reg::int_status_host) & skdw::cause_state_change, 0u);
    host.run_for(1s);
    EXPECT_EQ(std::ranges::count(host.ring().span(), std::byte{0}), static_cast<long>(host.ring().size()));
    EXPECT_EQ(host.card().counters().dropped, 100u);
    ASSERT_TRUE(host.handshake());
    EXPECT_EQ(host.run(scsiw::build_read(0, 8), 4096).status, scsiw::Status::good);
}

TEST(SkdCard, StopAsTheDriverDoesIt) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    host.write(reg::control, host.read(reg::control) & ~skdw::control_enable_interrupts);
    host.write(reg::int_mask_host, skdw::mask_all);
    host.write(reg::int_status_host, skdw::cause_acknowledge);
    host.write(reg::control, skdw::control_soft_reset);
    ASSERT_TRUE(host.wait_state(DriveState::init));
    EXPECT_EQ(host.read(reg::control), 0u);
}

TEST(SkdCard, BootTakesItsTime) {
    device::skd::Options options;
    options.boot_time = 5s;
    options.reset_time = 2s;
    SkdHost host(options);
    EXPECT_EQ(host.state(), DriveState::fw_booting);
    EXPECT_EQ(host.mailbox(0x01000000), 0u) << "nobody listens yet";
    const Time before = host.world().now();
    ASSERT_TRUE(host.wait_state(DriveState::init));
    EXPECT_LE(host.world().now() - before, 5s);
    const Time reset = host.world().now();
    host.soft_reset();
    ASSERT_TRUE(host.wait_state(DriveState::init));
    EXPECT_GE(host.world().now() - reset, 2s);
    ASSERT_TRUE(host.handshake());
}

TEST(SkdCard, FunctionLevelResetIsAPowerCycle) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    bool done = false;
    spawn(host.function().reset(host.reactor()), [&done](Result<> r) { done = r.has_value(); });
    ASSERT_TRUE(host.run_until([&] { return done; }));
    EXPECT_EQ(host.read(reg::control), 0u);
    EXPECT_EQ(host.read(reg::int_mask_host), skdw::mask_all);
    EXPECT_EQ(host.state(), DriveState::init);
    host.function().set_bus_master(true);
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.run(scsiw::build_test_unit_ready()).status, scsiw::Status::good);
}

TEST(SkdCard, DoorbellsWaitWhileTheDriveIsBusy) {
    SkdHost host;
    ASSERT_TRUE(host.start());
    host.card().enter(DriveState::busy, 3s);
    EXPECT_EQ(host.state(), DriveState::busy);
    host.send({{.cdb = scsiw::build_test_unit_ready(), .tag = 9}});
    EXPECT_FALSE(host.wait_next(2s));
    EXPECT_TRUE(host.wait_next(2s));
    EXPECT_EQ(host.state(), DriveState::online);
}

TEST(SkdCard, DataIsCopiedWhereTheDiskCannotUseTheHostsMemory) {
    // The disk wants memory at multiples of 512; the host's lists have other ideas.
    const auto disk = skd_ram_disk();
    QueueLimits limits = disk->limits();
    limits.dma_alignment = 511;
    disk->core().update(limits, disk->sectors(), false);
    SkdHost host({}, disk);
    ASSERT_TRUE(host.start());
    fill_pattern(host.data(), 64 << 10, 5);
    // More at once than there is memory to copy through: some wait, none is lost.
    constexpr unsigned commands = 40;
    for (unsigned i = 0; i < commands; ++i) {
        host.send({{.cdb = scsiw::build_write(2048 * i, 2048),
                    .tag = static_cast<std::uint16_t>(i),
                    .data = {{host.data_address(4 * i + 4), 1000}, {host.data_address(0), (1 << 20) - 1000}}}});
    }
    for (unsigned i = 0; i < commands; ++i) {
        const auto done = host.wait_next();
        ASSERT_TRUE(done);
        EXPECT_EQ(done->status, scsiw::Status::good);
        EXPECT_EQ(done->bytes, 1u << 20);
    }
    EXPECT_EQ(host.card().counters().copied, commands);
    SkdRequest read{.cdb = scsiw::build_read(2048 * 7, 8), .data = {{host.data_address((2 << 20) + 4), 4096}}};
    EXPECT_EQ(host.run(read).status, scsiw::Status::good);
    EXPECT_EQ(std::memcmp(host.data((2 << 20) + 4), host.data(4 * 7 + 4), 1000), 0);
    EXPECT_EQ(std::memcmp(host.data((2 << 20) + 4 + 1000), host.data(), 3096), 0);
}

TEST(SkdCard, ADiskWithLargeBlocksIsRefusedInASentence) {
    block::DiskOptions disk;
    disk.block = 4096;
    const auto card = device::skd::Card::create(driver::ram::open({.bytes = 8 << 20, .disk = disk}).value(), {});
    ASSERT_FALSE(card);
    EXPECT_NE(card.error().message().find("512"), std::string::npos) << card.error().message();
}

}  // namespace
}  // namespace mqblk::test
