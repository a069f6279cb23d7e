// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID driver on the model: what it finds, I/O of every kind against a model of every byte, by both
// generations, with and without maps, over several disks and threads.
#include "driver/megaraid/megaraid.h"
#include "support/megaraid_world.h"
#include "unit/disk_exerciser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>

namespace mqblk::driver::megaraid {
namespace {

using test::DiskUser;
using test::MegaraidWorld;
using test::MegaraidWorldOptions;
namespace pci_device = wire::megaraid::pci_device;

std::string names_of(const Adapter& adapter) {
    std::string result;
    for (const UnitName& unit : adapter.units())
        result += std::string(result.empty() ? "" : " ") + to_string(unit.kind) + "/" + std::to_string(unit.id);
    return result;
}

TEST(MegaraidDriver, FindsDisksAndVolumesAndSaysWhatThereIs) {
    MegaraidWorld world({.jbods = 2, .volumes = {"0", "6x8"}});
    ASSERT_TRUE(world.start());
    EXPECT_EQ(names_of(*world.adapter), "pd/0 pd/1 ld/0 ld/1");
    const auto none = world.disk(7);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), Errc::not_found);
    EXPECT_NE(none.error().message().find("has no pd/7; there are pd/0, pd/1, ld/0, ld/1"), std::string::npos)
        << none.error().message();
    const auto volume = world.volume(1);
    ASSERT_TRUE(volume);
    EXPECT_EQ((*volume)->sectors(), (8u << 20) / 512);
    EXPECT_EQ((*volume)->identity().driver, "megaraid");
    EXPECT_EQ((*volume)->identity().name, "megaraid/ld/1");
    EXPECT_EQ((*volume)->identity().model, "MQBLK RAID 6");
    EXPECT_EQ((*volume)->limits().io_opt, 6 * 65536u);  // eight disks, two of them for parity
    EXPECT_EQ(world.volume(1)->get(), volume->get());
}

TEST(MegaraidDriver, SaysWhyThereIsNothingAndWhatToDo) {
    const auto error_of = [](MegaraidWorldOptions options, const std::function<void(MegaraidWorld&)>& change) {
        MegaraidWorld world(std::move(options));
        const auto started = world.start();
        if (!started) return started.error().message();
        change(world);
        const auto none = world.disk(0);
        return none ? std::string() : none.error().message();
    };
    const auto nothing = [](MegaraidWorld&) {};
    EXPECT_EQ(error_of({.jbods = 0}, nothing),
              "in-process model: has no pd/0; it has neither disks of their own nor volumes: make some with its "
              "management tool");
    MegaraidWorldOptions foreign{.jbods = 2};
    foreign.model.foreign = true;
    EXPECT_EQ(error_of(foreign, nothing),
              "in-process model: has no pd/0; its disks carry the configuration of another controller (foreign): "
              "import it, or clear it, with its management tool");
    foreign.volumes = {"1"};
    EXPECT_EQ(error_of(foreign, nothing), "in-process model: has no pd/0; there are ld/0");
    MegaraidWorldOptions faulty{.jbods = 1};
    faulty.model.faults.push_back({.kind = device::megaraid::FaultKind::firmware_fault, .permanent = true});
    const std::string fault = error_of(faulty, nothing);
    EXPECT_EQ(fault.find("in-process model: the firmware "), 0u) << fault;
    EXPECT_NE(fault.find("power-cycle it"), std::string::npos) << fault;
}

TEST(MegaraidDriver, IsFoundAgainWhileSomethingOfItIsInUse) {
    MegaraidWorld world({.jbods = 2});
    ASSERT_TRUE(world.start());
    const Adapter::Trace trace = world.adapter->trace();
    auto device = *world.disk(0);
    world.adapter.reset();
    {
        const auto again = trace.again();
        ASSERT_NE(again, nullptr);
        EXPECT_EQ(*again->device(Kind::disk, 0), device);
        EXPECT_TRUE(again->device(Kind::disk, 1));
    }
    {
        const auto channel = *device->channel();
        device.reset();
        EXPECT_NE(trace.again(), nullptr) << "a channel keeps it";
    }
    EXPECT_EQ(trace.again(), nullptr);
    EXPECT_EQ(Adapter::Trace{}.again(), nullptr);
}

struct Case {
    const char* name;
    std::uint16_t device = pci_device::invader;
    unsigned block_bytes = 512;
    unsigned chain_frame_bytes = 4096;
    bool extended_maps = true, fast_path = true, task_management = true, reaches_everything = true;
    unsigned reply_queues = 16;
    void (*spec)(pci::FunctionSpec&) = nullptr;
};

void without_msix(pci::FunctionSpec& spec) {
    spec.msix_vectors = spec.msi_vectors = 0;
}
void with_msi_only(pci::FunctionSpec& spec) {
    spec.msix_vectors = 0;
    spec.msi_vectors = 1;
    spec.intx = false;
}

class MegaraidDriverIo : public testing::TestWithParam<Case> {};

TEST_P(MegaraidDriverIo, RandomUseAgreesWithTheModel) {
    const Case& given = GetParam();
    MegaraidWorldOptions options{.jbods = 1, .volumes = {"0x3", "1", "5x4", "6x8"}};
    options.block_bytes = given.block_bytes;
    if (given.block_bytes != 512) options.volumes.clear();
    options.disk_bytes = 2u << 20;
    options.model.device_id = given.device;
    options.model.chain_frame_bytes = given.chain_frame_bytes;
    options.model.extended_maps = given.extended_maps;
    options.model.fast_path = given.fast_path;
    options.model.task_management = given.task_management;
    options.model.reply_queues = given.reply_queues;
    options.function.reaches_everything = given.reaches_everything;
    options.change_spec = given.spec;
    MegaraidWorld world(options);
    const auto started = world.start();
    ASSERT_TRUE(started) << started.error().message();
    for (const UnitName& unit : world.adapter->units()) {
        SCOPED_TRACE(testing::Message() << to_string(unit.kind) << "/" << unit.id);
        SeededRandom random(unit.id + 10);
        DiskUser user(world.adapter->device(unit.kind, unit.id));
        const auto model = test::exercise(user, random, {.operations = 800, .in_flight = 24, .max_bytes = 512 * 1024});
        std::vector<std::byte> content(options.disk_bytes);
        ASSERT_EQ(user.read(0, content), Status::ok);
        ASSERT_EQ(content, model);
    }
    const auto counters = world.model_counters();
    EXPECT_EQ(counters.fast_path != 0, given.fast_path || given.task_management);
    EXPECT_EQ(counters.dropped, 0u);
    EXPECT_EQ(world.adapter->counters().mismatches, 0u);
    EXPECT_EQ(world.adapter->counters().resets, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MegaraidDriverIo,
    testing::Values(Case{.name = "Invader"}, Case{.name = "Thunderbolt", .device = pci_device::thunderbolt},
                    Case{.name = "Blocks4096", .block_bytes = 4096},
                    Case{.name = "ShortChains", .chain_frame_bytes = 1024},
                    Case{.name = "LegacyMaps", .extended_maps = false},
                    Case{.name = "ThroughTheFirmware", .fast_path = false, .task_management = false},
                    Case{.name = "Bounced", .reaches_everything = false}, Case{.name = "TwoQueues", .reply_queues = 2},
                    Case{.name = "OneQueue", .reply_queues = 1}, Case{.name = "Intx", .spec = without_msix},
                    Case{.name = "Msi", .spec = with_msi_only},
                    Case{.name = "IntxThunderbolt", .device = pci_device::thunderbolt, .spec = without_msix}),
    [](const auto& each) { return each.param.name; });

TEST(MegaraidDriver, ThreadsAndDisksShareTheController) {
    MegaraidWorldOptions options{.jbods = 3, .volumes = {"0x2"}};
    options.driver.queues = 3;  // fewer than threads: the last is shared
    options.model.max_commands = 64;
    MegaraidWorld world(options);
    ASSERT_TRUE(world.start());
    EXPECT_EQ(world.adapter->queues(), 3u);
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < 8; ++i) {
        workers.emplace_back([&, i] {
            const unsigned disk = i % 4;
            DiskUser user(disk < 3 ? world.disk(disk) : world.volume(0));
            const std::size_t half = (8u << 20) / 2;
            const std::uint64_t at = i / 4 * half / 512;
            auto data = test::pattern(half, i);
            EXPECT_EQ(user.write(at, data), Status::ok);
            std::vector<std::byte> content(half);
            EXPECT_EQ(user.read(at, content), Status::ok);
            EXPECT_EQ(content, data);
        });
    }
    for (auto& worker : workers) worker.join();
    EXPECT_EQ(world.adapter->counters().mismatches, 0u);
}

TEST(MegaraidDriver, WritesTheCachesAtTheEnd) {
    MegaraidWorld world({.jbods = 1, .volumes = {}});
    ASSERT_TRUE(world.start());
    const auto before = world.model_counters().requests;
    EXPECT_GT(before, 0u);
    auto device = *world.disk(0);
    world.adapter.reset();
    device.reset();  // waits: nothing is left when the world ends
}

TEST(MegaraidDriver, SaysWhatIsNotThere) {
    {
        MegaraidWorldOptions options{.jbods = 1};
        options.change_spec = [](pci::FunctionSpec& spec) {
            without_msix(spec);
            spec.intx = false;
        };
        MegaraidWorld world(options);
        const auto started = world.start();
        ASSERT_FALSE(started);
        EXPECT_NE(started.error().message().find("has no interrupts that its firmware can use"), std::string::npos)
            << started.error().message();
    }
    {
        MegaraidWorld world({.jbods = 0});
        ASSERT_TRUE(world.start());
        const auto disk = world.volume(0);
        ASSERT_FALSE(disk);
        EXPECT_NE(disk.error().message().find("neither disks of their own nor volumes"), std::string::npos);
    }
}

}  // namespace
}  // namespace mqblk::driver::megaraid
