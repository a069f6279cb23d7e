// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID driver on a scripted controller of the MFI generation: what it finds, I/O of every kind against a model
// of every byte, with every kind of list, interrupt and register layout, and what it says of controllers that are not
// as they should be.
#include "block/driver.h"
#include "block/queue.h"
#include "driver/megaraid/generation.h"
#include "support/mfi_world.h"
#include "unit/disk_exerciser.h"

#include <gtest/gtest.h>

#include <thread>

namespace mqblk::driver::megaraid {
namespace {

using test::DiskUser;
using test::MfiAdapter;
using test::MfiWorld;
using test::MfiWorldOptions;
namespace pci_device = wire::megaraid::pci_device;

struct MfiCase {
    const char* name;
    std::uint16_t device = pci_device::sas1078r;
    unsigned msix = 15;
    bool msi = true;
    unsigned commands = 64, sges = 80, block_bytes = 512;
    bool reaches_everything = false;
};

class MegaraidMfiIo : public testing::TestWithParam<MfiCase> {};

TEST_P(MegaraidMfiIo, RandomUseAgreesWithTheModel) {
    const MfiCase& given = GetParam();
    MfiWorldOptions options{.volumes = 2, .disks = 1, .disk_bytes = 2u << 20, .block_bytes = given.block_bytes};
    options.adapter.device_id = given.device;
    options.adapter.msix = given.msix;
    options.adapter.msi = given.msi;
    options.adapter.commands = given.commands;
    options.adapter.sges = given.sges;
    options.function.reaches_everything = given.reaches_everything;
    MfiWorld world(options);
    const auto started = world.start();
    ASSERT_TRUE(started) << started.error().message();
    EXPECT_EQ(world.adapter->queues(), 1u);
    EXPECT_EQ(world.adapter->units().size(), 3u);
    for (const UnitName& unit : world.adapter->units()) {
        SCOPED_TRACE(testing::Message() << to_string(unit.kind) << "/" << unit.id);
        SeededRandom random(unit.id + 20);
        DiskUser user(world.adapter->device(unit.kind, unit.id));
        const auto model = test::exercise(user, random, {.operations = 600, .in_flight = 24, .max_bytes = 256 * 1024});
        std::vector<std::byte> content(options.disk_bytes);
        ASSERT_EQ(user.read(0, content), Status::ok);
        ASSERT_EQ(content, model);
    }
    EXPECT_EQ(world.complaint(), "");
    EXPECT_EQ(world.adapter->counters().mismatches, 0u);
    EXPECT_EQ(world.adapter->counters().resets, 0u);
    const auto counters = world.counters();
    EXPECT_GT(counters.ld_ios, 100u);
    EXPECT_GT(counters.scsi_ios, 80u);
    EXPECT_GT(counters.flushes, 0u);
    if (given.reaches_everything && given.block_bytes == 512) {
        EXPECT_GT(counters.most_elements, 4u);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MegaraidMfiIo,
    testing::Values(MfiCase{.name = "Sas1078"}, MfiCase{.name = "Gen2", .device = pci_device::gen2_79},
                    MfiCase{.name = "Skinny", .device = pci_device::skinny_73, .reaches_everything = true},
                    MfiCase{.name = "Msi", .device = pci_device::gen2_78, .msix = 0, .reaches_everything = true},
                    MfiCase{.name = "Intx", .msix = 0, .msi = false},
                    MfiCase{.name = "IntxSkinny", .device = pci_device::skinny_71, .msix = 0, .msi = false},
                    MfiCase{.name = "ScatteredIeee", .reaches_everything = true},
                    MfiCase{.name = "Scattered64", .msix = 0, .reaches_everything = true},
                    MfiCase{.name = "Blocks4096", .block_bytes = 4096},
                    MfiCase{.name = "FewCommands", .commands = 20, .sges = 16, .reaches_everything = true}),
    [](const auto& each) { return each.param.name; });

TEST(MegaraidMfi, ThreadsShareTheOneQueue) {
    MfiWorldOptions options{.volumes = 3, .disks = 1};
    MfiWorld world(options);
    ASSERT_TRUE(world.start());
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < 6; ++i) {
        workers.emplace_back([&, i] {
            const unsigned disk = i % 3;
            DiskUser user(disk < 2 ? world.volume(disk) : world.disk(0));
            const std::size_t half = (4u << 20) / 2;
            const std::uint64_t at = i / 3 * half / 512;
            auto data = test::pattern(half, i);
            EXPECT_EQ(user.write(at, data), Status::ok);
            std::vector<std::byte> content(half);
            EXPECT_EQ(user.read(at, content), Status::ok);
            EXPECT_EQ(content, data);
        });
    }
    for (auto& worker : workers) worker.join();
    EXPECT_EQ(world.adapter->counters().mismatches, 0u);
    EXPECT_EQ(world.complaint(), "");
}

TEST(MegaraidMfi, SaysWhatItIs) {
    MfiWorld world;
    ASSERT_TRUE(world.start());
    const auto device = world.volume(1);
    ASSERT_TRUE(device);
    EXPECT_EQ((*device)->identity().model, "MFI VOLUME");
    EXPECT_EQ((*device)->limits().max_segments, 80u);
    EXPECT_EQ((*device)->limits().max_sectors, 80 * 4096 / 512u);
    std::string details;
    for (const auto& [name, value] : block::disk_of((*device)->core()).details) details += name + "=" + value + " ";
    EXPECT_NE(details.find("product=Scripted MFI "), std::string::npos) << details;
    EXPECT_NE(details.find("generation=sas1078 interrupts=msix commands=63 reply_queues=1 "), std::string::npos)
        << details;
    EXPECT_EQ(world.adapter->depth(), 63u - 12);
}

TEST(MegaraidMfi, WritesTheCachesAndShutsDownAtTheEnd) {
    for (const std::uint16_t id : {pci_device::sas1078de, pci_device::gen2_79}) {
        MfiWorldOptions options{.volumes = 1};
        options.adapter.device_id = id;
        MfiWorld world(options);
        ASSERT_TRUE(world.start());
        auto device = *world.volume(0);
        DiskUser user(device);
        EXPECT_EQ(user.run(Op::flush, 0, 0), Status::ok);
        EXPECT_EQ(world.counters().flushes, 1u);
        EXPECT_EQ(world.counters().shutdowns, 0u);
    }
}

struct BadCase {
    const char* says;
    void (*make)(MfiWorldOptions&);
};

TEST(MegaraidMfi, ControllersThatDoNotStartAreSaidToBeSo) {
    using namespace std::chrono_literals;
    const BadCase cases[] = {
        {"the firmware does not leave state fw_init",
         [](MfiWorldOptions& o) { o.adapter.first_state = wire::megaraid::State::fw_init; }},
        {"the firmware is in state fault",
         [](MfiWorldOptions& o) { o.adapter.first_state = wire::megaraid::State::fault; }},
        {"the firmware refuses INIT with status 0x03", [](MfiWorldOptions& o) { o.adapter.init_status = 3; }},
        {"the firmware does not answer INIT", [](MfiWorldOptions& o) { o.adapter.answers_init = false; }},
        {"the firmware takes 8 commands, and 17 are needed", [](MfiWorldOptions& o) { o.adapter.commands = 8; }},
        {"takes lists of no elements", [](MfiWorldOptions& o) { o.adapter.sges = 0; }},
        {"does not tell what it is in time",
         [](MfiWorldOptions& o) { o.adapter.silent = {wire::megaraid::dcmd::ctrl_get_info}; }},
        {"does not tell its volumes in time",
         [](MfiWorldOptions& o) { o.adapter.silent = {wire::megaraid::dcmd::ld_get_list}; }},
        {"has no interrupts that its firmware can use",
         [](MfiWorldOptions& o) {
             o.adapter.msix = 0;
             o.adapter.msi = o.adapter.intx = false;
         }},
    };
    for (const BadCase& each : cases) {
        SCOPED_TRACE(each.says);
        MfiWorldOptions options{.volumes = 1};
        options.driver.state_bound = options.driver.init_bound = options.driver.dcmd_bound = 300ms;
        each.make(options);
        MfiWorld world(options);
        const auto started = world.start();
        ASSERT_FALSE(started);
        EXPECT_NE(started.error().message().find(each.says), std::string::npos) << started.error().message();
    }
}

TEST(MegaraidMfi, OldFirmwareNeedNotKnowEverything) {
    namespace dcmd = wire::megaraid::dcmd;
    MfiWorldOptions options{.volumes = 1, .disks = 1};
    options.adapter.refused = {dcmd::pd_list_query, dcmd::ctrl_event_get_info};
    MfiWorld world(options);
    const auto started = world.start();
    ASSERT_TRUE(started) << started.error().message();
    ASSERT_EQ(world.adapter->units().size(), 1u);
    EXPECT_EQ(world.adapter->units().front().kind, Kind::volume);
    options.adapter.refused = {dcmd::ld_get_list};
    MfiWorld other(options);
    const auto refused = other.start();
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("the firmware refuses to tell its volumes, with status 0x02"),
              std::string::npos)
        << refused.error().message();
}

TEST(MegaraidMfi, AFaultThatAResetHelpsAgainstIsNoObstacle) {
    MfiWorldOptions options{.volumes = 1};
    options.adapter.device_id = pci_device::gen2_79;
    options.adapter.first_state = wire::megaraid::State::fault;
    MfiWorld world(options);
    const auto started = world.start();
    ASSERT_TRUE(started) << started.error().message();
    DiskUser user(world.volume(0));
    auto data = test::pattern(4096, 1);
    EXPECT_EQ(user.write(0, data), Status::ok);
}

TEST(MegaraidGeneration, IdsAreKnownOrSaidNotToBe) {
    using wire::megaraid::Generation;
    const std::pair<std::uint16_t, Generation> known[] = {
        {0x0060, Generation::sas1078},     {0x007c, Generation::sas1078}, {0x0078, Generation::gen2},
        {0x0079, Generation::gen2},        {0x0071, Generation::skinny},  {0x0073, Generation::skinny},
        {0x005b, Generation::thunderbolt}, {0x005d, Generation::invader}, {0x0053, Generation::invader}};
    for (const auto& [id, generation] : known) EXPECT_EQ(*find_generation("card", 0x1000, id), generation) << id;
    for (const std::uint16_t id : {0x0014, 0x0016, 0x001c, 0x10e1, 0x10e6}) {
        const auto later = find_generation("0000:01:00.0", 0x1000, id);
        ASSERT_FALSE(later);
        EXPECT_NE(later.error().message().find("of a later generation (Ventura, Aero)"), std::string::npos);
        EXPECT_NE(later.error().message().find("file:///dev/sdX"), std::string::npos);
    }
    for (const auto& [vendor, device] : {std::pair{0x8086, 0x0060}, {0x1000, 0x0030}, {0xffff, 0xffff}}) {
        const auto other =
            find_generation("0000:01:00.0", static_cast<std::uint16_t>(vendor), static_cast<std::uint16_t>(device));
        ASSERT_FALSE(other);
        EXPECT_NE(other.error().message().find("no MegaRAID controller that this driver knows (1000: 0060,"),
                  std::string::npos);
    }
}

}  // namespace
}  // namespace mqblk::driver::megaraid
