// SPDX-License-Identifier: Apache-2.0
//
// The S1120 driver on the model, in virtual time: data at all sizes and depths, each kind of interrupt, what it sends,
// and its start and stop.
#include "base/random.h"
#include "block/device_core.h"
#include "block/queue.h"
#include "support/skd_disk.h"
#include "unit/disk_exerciser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using driver::skd::IsrType;
using testing::HasSubstr;
using wire::skd::DriveState;

std::string attribute(const Device& device, const std::string& name) {
    for (const auto& [key, value] : device.attributes())
        if (key == name) return value;
    return "(none)";
}

std::string detail(Device& device, const std::string& name) {
    for (const auto& [key, value] : block::disk_of(device.core()).details)
        if (key == name) return value;
    return "(none)";
}

TEST(SkdDriver, SaysWhatItFound) {
    SkdDiskOptions options;
    options.card.serial = "STM000012345";
    SkdDisk disk(options);
    Device& device = *disk.device();
    EXPECT_EQ(device.sectors(), disk.below().sectors());
    EXPECT_EQ(device.identity().serial, "STM000012345");
    EXPECT_EQ(device.identity().driver, "skd");
    EXPECT_EQ(detail(device, "drive_state"), "online");
    EXPECT_EQ(detail(device, "driver_state"), "online");
    EXPECT_EQ(detail(device, "isr_type"), "MSI-X");
    const std::pair<const char*, const char*> expected[] = {{"add_random", "0"},
                                                            {"hw_sector_size", "512"},
                                                            {"max_segments", "256"},
                                                            {"nr_requests", "200"},
                                                            {"rotational", "0"},
                                                            {"rq_affinity", "2"},
                                                            {"scheduler", "[none] mq-deadline"},
                                                            {"write_cache", "write back"}};
    for (const auto& [name, value] : expected) EXPECT_EQ(attribute(device, name), value) << name;
}

struct WayRow {
    const char* name;
    unsigned queue_depth, per_message, descriptors;
    IsrType isr_type;
    bool reaches_everything;
};

class SkdDriverWays : public testing::TestWithParam<WayRow> {};

TEST_P(SkdDriverWays, DataComesBack) {
    const WayRow& row = GetParam();
    SkdDiskOptions options;
    options.driver.max_queue_depth = row.queue_depth;
    options.driver.max_req_per_msg = row.per_message;
    options.driver.sgs_per_request = row.descriptors;
    options.driver.isr_type = row.isr_type;
    options.reaches_everything = row.reaches_everything;
    SkdDisk disk(options);
    DiskUser user(disk.device(), disk.reactor());
    SeededRandom random(7);
    // A block that lies in more pieces than there are descriptors is not for this card.
    const bool odd = row.descriptors > 100;
    const auto model =
        exercise(user, random, {.operations = 1500, .in_flight = 40, .max_bytes = 256 * 1024, .odd_memory = odd});
    std::vector<std::byte> all(1 << 20);
    for (std::size_t at = 0; at < model.size(); at += all.size()) {
        ASSERT_EQ(user.read(at / 512, all), Status::ok);
        ASSERT_EQ(std::memcmp(all.data(), model.data() + at, all.size()), 0) << at;
    }
    EXPECT_EQ(disk.card().counters().overruns, 0u);
    EXPECT_EQ(disk.card().counters().dropped, 0u);
}

INSTANTIATE_TEST_SUITE_P(, SkdDriverWays,
                         testing::Values(WayRow{"Standard", 200, 14, 256, IsrType::msix, true},
                                         WayRow{"OneAtATime", 1, 1, 1, IsrType::msix, true},
                                         WayRow{"OnePerMessage", 64, 1, 256, IsrType::msix, true},
                                         WayRow{"FewDescriptors", 200, 14, 2, IsrType::msix, true},
                                         WayRow{"ManyDescriptors", 33, 5, 4096, IsrType::msix, true},
                                         WayRow{"Msi", 200, 14, 256, IsrType::msi, true},
                                         WayRow{"Legacy", 200, 14, 256, IsrType::legacy, true},
                                         WayRow{"MappedMemoryOnly", 200, 14, 256, IsrType::msix, false},
                                         WayRow{"MappedMemoryOnlyLegacy", 7, 3, 8, IsrType::legacy, false}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(SkdDriver, ABatchGoesOutInFewMessages) {
    struct Row {
        unsigned per_message, requests, doorbells;
    };
    for (const Row& row : {Row{14, 28, 2}, Row{14, 15, 2}, Row{14, 1, 1}, Row{1, 20, 20}, Row{5, 12, 3}}) {
        SkdDiskOptions options;
        options.driver.max_req_per_msg = row.per_message;
        SkdDisk disk(options);
        DiskUser user(disk.device(), disk.reactor());
        const auto before = disk.card().counters();
        SkdFlight flight(user.channel(), Op::write, 0, row.requests);
        flight.submit();
        while (!flight.done()) user.channel().wait();
        EXPECT_EQ(flight.with(Status::ok), row.requests);
        EXPECT_EQ(disk.card().counters().doorbells - before.doorbells, row.doorbells) << row.requests;
        EXPECT_EQ(disk.card().counters().commands - before.commands, row.requests);
    }
}

TEST(SkdDriver, TheCardWorksOnTheCallersMemoryUnlessItCannot) {
    SkdDisk disk;
    DiskUser user(disk.device(), disk.reactor());
    std::vector<std::byte> memory(64 << 10);
    auto data = std::span(memory).first(32 << 10);
    const auto expected = pattern(data.size(), 3);
    for (const std::size_t offset : {0, 4, 1, 2, 3, 513}) {
        const auto here = std::span(memory).subspan(offset, data.size());
        std::ranges::copy(expected, here.begin());
        EXPECT_EQ(user.write(100, here), Status::ok);
        std::ranges::fill(here, std::byte{0});
        EXPECT_EQ(user.read(100, here), Status::ok);
        EXPECT_TRUE(std::ranges::equal(here, expected)) << offset;
    }
    EXPECT_EQ(disk.card().counters().copied, 0u) << "what the driver names is aligned and reachable";
}

TEST(SkdDriver, FlushAndForcedWritesReachTheDisk) {
    SkdDisk disk;
    DiskUser user(disk.device(), disk.reactor());
    std::vector<std::byte> data(4096, std::byte{1});
    const auto before = disk.card().counters().commands;
    EXPECT_EQ(user.write(8, data, bio_fua), Status::ok);
    EXPECT_EQ(disk.card().counters().commands - before, 1u) << "the card forces it by itself";
    EXPECT_EQ(user.run(Op::flush, 0, 0), Status::ok);
    EXPECT_EQ(disk.card().counters().commands - before, 2u);
    EXPECT_EQ(user.write(8, data, bio_preflush), Status::ok);
    EXPECT_EQ(disk.card().counters().commands - before, 4u);
}

TEST(SkdDriver, ChannelsComeAndGoOnOneCard) {
    SkdDisk disk;
    const auto device = disk.device();
    std::vector<std::byte> data = pattern(4096, 9), back(4096);
    for (unsigned i = 0; i < 5; ++i) {
        DiskUser writer(device, disk.reactor());
        EXPECT_EQ(writer.write(8 * i, data), Status::ok);
        DiskUser reader(device, disk.reactor());
        EXPECT_EQ(reader.read(8 * i, back), Status::ok);
        EXPECT_EQ(back, data);
        disk.world().run_for(10s);  // the card is looked at meanwhile or not
    }
    EXPECT_EQ(disk.card().state(), DriveState::online);
}

TEST(SkdDriver, QuiesceHoldsRequestsAndResumesThem) {
    SkdDisk disk;
    const auto device = disk.device();
    DiskUser user(device, disk.reactor());
    const auto before = disk.card().counters().commands;
    device->core().set().quiesce();
    SkdFlight flight(user.channel(), Op::write, 0, 40);
    flight.submit();
    disk.world().run_for(100ms);
    EXPECT_EQ(flight.ended(), 0u);
    EXPECT_EQ(disk.card().counters().commands, before);
    device->core().set().unquiesce();
    while (!flight.done()) user.channel().wait();
    EXPECT_EQ(flight.with(Status::ok), 40u);
}

/// A card that tells how it was left.
class LeftCard final : public pci::Model {
  public:
    struct Left {
        std::uint64_t commands = 0, dropped = 0;
        DriveState state{};
        std::uint64_t control = 0, mask = 0;
    };
    LeftCard(std::unique_ptr<device::skd::Card> card, Left& left) : card_(std::move(card)), left_(left) {}
    ~LeftCard() override {
        left_ = {.commands = card_->counters().commands,
                 .dropped = card_->counters().dropped,
                 .state = card_->state(),
                 .control = card_->bar_read(1, wire::skd::reg::control, 4),
                 .mask = card_->bar_read(1, wire::skd::reg::int_mask_host, 4)};
    }
    const pci::FunctionSpec& spec() const noexcept override { return card_->spec(); }
    Result<> attach(pci::Host& host) override { return card_->attach(host); }
    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override {
        return card_->bar_read(bar, offset, bytes);
    }
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override {
        card_->bar_write(bar, offset, bytes, value);
    }
    void reset() noexcept override { card_->reset(); }
    bool quiet() const noexcept override { return card_->quiet(); }
    void interrupts_changed() noexcept override { card_->interrupts_changed(); }

  private:
    std::unique_ptr<device::skd::Card> card_;
    Left& left_;
};

TEST(SkdDriver, StopsInOrder) {
    SimulatedWorld world(1);
    const auto reactor = world.make_reactor();
    LeftCard::Left left;
    auto card = device::skd::Card::create(driver::ram::open({.bytes = 1 << 20, .disk = {}}).value(), {}).value();
    auto function = pci::make_in_process(std::make_unique<LeftCard>(std::move(card), left), *reactor).value();
    const Time before = world.now();
    driver::skd::open(std::move(function), reactor->shareable(), {}).value().reset();
    EXPECT_EQ(left.commands, 6u) << "five to start, and SYNCHRONIZE CACHE";
    EXPECT_EQ(left.dropped, 0u);
    EXPECT_EQ(left.state, DriveState::init) << "reset, and not used again";
    EXPECT_EQ(left.control, 0u);
    EXPECT_EQ(left.mask, wire::skd::mask_all);
    EXPECT_LT(world.now() - before, 1s);
}

TEST(SkdDriver, ACardThatIsBootingIsWaitedFor) {
    SkdDiskOptions options;
    options.card.boot_time = 60s;
    SkdDisk disk(options);
    ASSERT_TRUE(disk.opened()) << disk.error();
    EXPECT_GE(disk.world().now().time_since_epoch(), 1060s);
}

TEST(SkdDriver, AStartIsNotKeptBusyByACardThatSaysItsStateAgainAndAgain) {
    // Its answers get lost, and each time it is asked it says that its state has changed.
    for (const DriveState other : {DriveState::init, DriveState::soft_reset}) {
        SimulatedWorld world(1);
        const auto reactor = world.make_reactor();
        device::skd::Options options;
        options.faults.push_back({.kind = device::skd::FaultKind::lost_message, .count = 0});
        auto made = device::skd::Card::create(driver::ram::open({.bytes = 1 << 20, .disk = {}}).value(), options);
        device::skd::Card& card = **made;
        auto function = pci::make_in_process(std::move(*made), *reactor).value();
        Timer timer([&] {
            if (other != DriveState::init) card.enter(other);
            card.enter(DriveState::init);
            timer.arm(*reactor, reactor->now() + 1ms);
        });
        timer.arm(*reactor, reactor->now() + 1ms);
        const Time before = world.now();
        const auto opened = driver::skd::open(std::move(function), reactor->shareable(), {});
        timer.cancel();
        ASSERT_FALSE(opened);
        EXPECT_THAT(opened.error().message(), HasSubstr("the card is not online in time"));
        EXPECT_LE(world.now() - before, 12s) << "the bound of its start, and of the stop";
    }
}

TEST(SkdDriver, CommandsOfTheStartThatBringTooLittleAreNoSuccess) {
    // Its commands in turn: TEST UNIT READY, WRITE and READ BUFFER, READ CAPACITY, INQUIRY.
    for (const std::uint64_t command : {1u, 2u, 3u, 4u, 5u}) {
        SkdDiskOptions options;
        options.card.serial = "STM000012345";
        options.card.faults.push_back(
            {.kind = device::skd::FaultKind::scsi_status, .command = command, .status = wire::scsi::Status::good});
        SkdDisk disk(options);
        ASSERT_TRUE(disk.opened()) << disk.error();
        EXPECT_EQ(disk.device()->sectors(), disk.below().sectors()) << command;
        EXPECT_EQ(disk.device()->identity().serial, command == 5 ? "" : "STM000012345") << command;
        const std::uint64_t began_again = command == 1 || command == 5 ? 0 : command == 4 ? 4 : 3;
        EXPECT_EQ(disk.card().counters().commands, 5 + began_again) << command;
    }
}

TEST(SkdDriver, WhatDoesNotStartIsRefusedInASentence) {
    const auto refused = [](auto change, const char* part) {
        SkdDiskOptions options;
        change(options);
        SkdDisk disk(options);
        ASSERT_FALSE(disk.opened()) << part;
        EXPECT_THAT(disk.error(), HasSubstr(part));
    };
    using device::skd::Fault;
    using device::skd::FaultKind;
    refused([](auto& o) { o.card.protocol = 0x23; }, "its firmware speaks protocol 2.3");
    refused([](auto& o) { o.card.boot_time = 120s; }, "not online in time (card fw_booting");
    refused([](auto& o) { o.card.max_commands = 0; }, "not online in time");
    refused([](auto& o) { o.card.faults.push_back(Fault{.kind = FaultKind::lost_message}); }, "driver fault");
    refused([](auto& o) { o.card.faults.push_back(Fault{.kind = FaultKind::disappear, .command = 3}); }, "is gone");
    refused(
        [](auto& o) {
            o.card.faults.push_back(Fault{.kind = FaultKind::drive_state, .command = 2, .state = DriveState::fault});
        },
        "state fault");
    // Every TEST UNIT READY fails: the start-up is bounded.
    refused(
        [](auto& o) {
            o.card.faults.push_back(Fault{.kind = FaultKind::scsi_status,
                                          .count = 0,
                                          .sense = {.key = wire::scsi::SenseKey::not_ready, .code = 0x0401}});
        },
        "not online in time");
}

TEST(SkdDriver, ACardOfAnotherKindIsRefused) {
    class Other final : public pci::Model {
      public:
        Other() {
            spec_.id = {.vendor = 0x8086, .device = 0x1234, .class_code = 0x010802};
            spec_.bars[1] = {.bytes = 4096};
        }
        const pci::FunctionSpec& spec() const noexcept override { return spec_; }
        Result<> attach(pci::Host&) override { return {}; }
        std::uint64_t bar_read(unsigned, std::uint64_t, unsigned) noexcept override { return 0; }
        void bar_write(unsigned, std::uint64_t, unsigned, std::uint64_t) noexcept override {}
        void reset() noexcept override {}
        bool quiet() const noexcept override { return true; }

      private:
        pci::FunctionSpec spec_;
    };
    SimulatedWorld world(1);
    const auto reactor = world.make_reactor();
    auto function = pci::make_in_process(std::make_unique<Other>(), *reactor);
    const auto opened = driver::skd::open(std::move(*function), reactor->shareable(), {});
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message(), HasSubstr("8086:1234, which is no S1120 (1b39:0001)"));
}

/// Random I/O at one depth for a while; how many a second there are.
double iops(SkdDisk& disk, Channel& channel, Op op, unsigned sectors, unsigned depth) {
    struct Load {
        Channel& channel;
        SeededRandom random{1};
        std::uint64_t sectors, ended = 0;
        bool ending = false;
    } load{.channel = channel, .sectors = disk.below().sectors()};
    std::vector<std::byte> memory(sectors * 512);
    const Segment segment{memory.data(), memory.size()};
    std::vector<Bio> bios(depth);
    for (Bio& bio : bios) {
        bio.op = op;
        bio.sectors = sectors;
        bio.data = {&segment, 1};
        bio.flags = bio_nomerge;
        bio.context = &load;
        bio.done = [](Bio& ended) noexcept {
            auto& self = *static_cast<Load*>(ended.context);
            EXPECT_EQ(ended.status, Status::ok);
            ++self.ended;
            ended.sector = self.random.below(self.sectors / ended.sectors) * ended.sectors;
            if (!self.ending) self.channel.submit(ended);
        };
        channel.submit(bio);
    }
    disk.world().run_for(100ms);
    const std::uint64_t before = load.ended;
    constexpr double windows_a_second = 5;
    disk.world().run_for(200ms);
    const auto rate = static_cast<double>(load.ended - before) * windows_a_second;
    load.ending = true;
    while (channel.outstanding() > 0) channel.wait();
    return rate;
}

TEST(SkdDriver, TheProfileGivesThePublishedFigures) {
    SkdDiskOptions options;
    options.card.profile = device::skd::Profile::s1120;
    SkdDisk disk(options);
    DiskUser user(disk.device(), disk.reactor());
    struct Row {
        Op op;
        unsigned sectors, depth;
        double iops;
    };
    const Row rows[] = {
        {Op::read, 1, 1, 1e6 / 88}, {Op::write, 1, 1, 1e6 / 26},  {Op::read, 1, 64, 103'000},
        {Op::read, 8, 64, 81'000},  {Op::read, 128, 64, 15'700},  {Op::write, 1, 64, 62'000},
        {Op::write, 8, 64, 69'000}, {Op::write, 128, 64, 13'900},
    };
    for (const Row& row : rows) {
        EXPECT_NEAR(iops(disk, user.channel(), row.op, row.sectors, row.depth), row.iops, row.iops * 0.02)
            << to_string(row.op) << " of " << row.sectors << " sectors at depth " << row.depth;
    }
}

TEST(SkdDriver, ACardThatTakesFewerCommandsIsGivenFewer) {
    SkdDiskOptions options;
    options.card.max_commands = 5;
    SkdDisk disk(options);
    EXPECT_EQ(attribute(*disk.device(), "nr_requests"), "5");
    DiskUser user(disk.device(), disk.reactor());
    SkdFlight flight(user.channel(), Op::write, 0, 50);
    flight.submit();
    while (!flight.done()) {
        EXPECT_LE(disk.card().in_flight(), 5u);
        user.channel().wait();
    }
    EXPECT_EQ(flight.with(Status::ok), 50u);
}

}  // namespace
}  // namespace mqblk::test
