// SPDX-License-Identifier: Apache-2.0
//
// Namespaces that come, go and change their size while hosts work on them and on their neighbours.
#include "simulation/seeds.h"
#include "simulation/workload.h"
#include "simulation/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace mqblk::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t coming_nsid = 2;

/// A host that works on namespace 1 all the time, without a single failure.
struct Busy {
    explicit Busy(std::uint64_t seed) : world(seed, {}), host(world, quick_host(), 1), model(2048, 512) {
        EXPECT_TRUE(host.connect()) << host.error;
        device = host.controller().device(1).value();
        WorkloadOptions options;
        options.operations = 1'000'000;
        options.bound = 10s;
        work = std::make_unique<Workload>(world, "namespace 1", device, host.io(0), model, options);
        work->start();
    }
    ~Busy() {
        work->stop();
        EXPECT_TRUE(world.run_until([&] { return work->finished(); }, 10s)) << work->pending();
        EXPECT_TRUE(verify(world, *device, host.io(0), model));
        work.reset();
        device.reset();
        EXPECT_TRUE(host.disconnect());
    }
    [[nodiscard]] bool sees(std::uint32_t nsid) {
        return world.run_until(
            [&] {
                const auto seen = host.controller().namespaces();
                return std::ranges::find(seen, nsid) != seen.end();
            },
            1s);
    }

    World world;
    HostSide host;
    Model model;
    std::shared_ptr<Device> device;
    std::unique_ptr<Workload> work;
};

void come_and_go(Busy& busy) {
    SimulatedDisk disk(busy.world.random, {.bytes = 256u << 10});
    device::nvme::NamespaceConfig config;
    config.nsid = coming_nsid;
    config.uri = "simulated://2";
    config.device = disk.device();
    ASSERT_TRUE(busy.world.target().add_namespace(std::string(subsystem_nqn), config));
    config.device.reset();
    ASSERT_TRUE(busy.sees(coming_nsid));

    const auto device = busy.host.controller().device(coming_nsid).value();
    Model model(512, 512);
    WorkloadOptions options;
    options.operations = 1'000'000;
    options.allowed = {Status::removed, Status::aborted};
    options.bound = 10s;
    options.most_bytes = 32u << 10;
    Workload work(busy.world, "namespace 2", device, busy.host.io(0), model, options);
    work.start();
    busy.world.sim.run_for(30ms + Duration(static_cast<Duration::rep>(busy.world.random.below(100'000'000))));
    ASSERT_TRUE(busy.world.target().remove_namespace(std::string(subsystem_nqn), coming_nsid));
    EXPECT_TRUE(busy.world.run_until([&] { return device->removed(); }, 1s));
    work.stop();
    EXPECT_TRUE(busy.world.run_until([&] { return work.finished(); }, 10s)) << work.pending();
    EXPECT_GT(work.succeeded(), 0u);
    EXPECT_EQ(disk.outstanding(), 0u);
    const std::weak_ptr<Device> held = disk.device();
    disk.let_go();
    EXPECT_TRUE(busy.world.run_until([&] { return held.expired(); }, 1s)) << "the target has not let the disk go";
}

TEST(Namespaces, ComeAndGoUnderLoad) {
    for_each_seed(16, [](std::uint64_t seed) {
        Busy busy(seed);
        for (int round = 0; round < 3; ++round) come_and_go(busy);
    });
}

TEST(Namespaces, ChangeTheirSizeUnderLoad) {
    for_each_seed(16, [](std::uint64_t seed) {
        Busy busy(seed);
        const std::uint64_t most = busy.device->sectors();
        SimulatedDisk disk(busy.world.random, {.bytes = 1u << 20});
        device::nvme::NamespaceConfig config;
        config.uri = "simulated://2";
        config.device = disk.device();
        ASSERT_TRUE(busy.world.target().add_namespace(std::string(subsystem_nqn), config));
        ASSERT_TRUE(busy.sees(coming_nsid));
        const auto device = busy.host.controller().device(coming_nsid).value();
        Model model(512, 512);  // the part that is always there
        WorkloadOptions options;
        options.operations = 1'000'000;
        options.bound = 10s;
        options.most_bytes = 64u << 10;
        Workload work(busy.world, "namespace 2", device, busy.host.io(0), model, options);
        work.start();
        for (int round = 0; round < 8; ++round) {
            const std::uint64_t sectors = 512 + busy.world.random.below(most - 512 + 1);
            disk.resize(sectors * sector_bytes);
            EXPECT_TRUE(busy.world.run_until([&] { return device->sectors() == sectors; }, 1s));
            busy.world.sim.run_for(5ms);
        }
        work.stop();
        EXPECT_TRUE(busy.world.run_until([&] { return work.finished(); }, 10s)) << work.pending();
        EXPECT_TRUE(verify(busy.world, *device, busy.host.io(0), model));
    });
}

}  // namespace
}  // namespace mqblk::simulation
