// SPDX-License-Identifier: Apache-2.0
//
// The connection cut at byte after byte of a 64 KiB read's answer and of a 64 KiB write: the host comes back, the
// operation succeeds with the right data, and nothing stays behind at either end. With MQBLK_EVERY_BYTE=1 really at
// every byte.
#include "simulation/seeds.h"
#include "simulation/workload.h"
#include "simulation/world.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace mqblk::simulation {
namespace {

using namespace std::chrono_literals;
using fabric::Way;

constexpr std::uint64_t io_bytes = 64u << 10;

struct CutCase {
    const char* name;
    Op op;
    Way way;
    bool digests;
};

class Cut : public testing::TestWithParam<CutCase> {
  protected:
    void connect() {
        keep.reset();
        device.reset();
        host.reset();
        WorldOptions options;
        options.network.random_pieces = false;
        world = std::make_unique<World>(++seed, options);
        model = std::make_unique<Model>(io_bytes / 512, 512);
        auto host_options = quick_host();
        host_options.queues = 1;
        host_options.header_digest = host_options.data_digest = GetParam().digests;
        host = std::make_unique<HostSide>(*world, host_options, 1);
        ASSERT_TRUE(host->connect()) << host->error;
        device = host->controller().device(1).value();
        keep = device->channel(host->io(0)).value();
        run(Op::write);
    }
    void run(Op op) {
        const Model::Version version = op == Op::write ? model->new_version() : 0;
        if (op == Op::write) {
            model->fill(memory, 0, version);
            model->begin(0, model->blocks(), version);
        }
        Bio bio;
        bio.op = op;
        bio.sectors = io_bytes / sector_bytes;
        bio.data = {&segment, 1};
        const std::uint64_t stamp = model->stamp();
        ASSERT_EQ(submit_and_wait(*world, *device, host->io(0), bio, 10s), Status::ok) << world->story();
        if (op == Op::write) {
            model->acknowledge(0, model->blocks(), version, false, stamp);
        } else {
            EXPECT_EQ(model->check(memory, 0, stamp), "") << world->story();
        }
    }
    /// One operation, its connection struck after that many bytes of it.
    void strike(std::uint64_t after) {
        const std::uint64_t connection = world->network.connections_made() - 1;
        fabric::Fault fault{.connection = connection, .way = GetParam().way, .kind = fabric::Fault::Kind::cut};
        if (after % 2 == 1) fault.kind = fabric::Fault::Kind::close;
        fault.after_bytes = world->network.bytes_sent(connection, fault.way) + after;
        world->network.plan(fault);
        run(GetParam().op);
        run(Op::read);
        const auto settled = [this] {
            return world->target().controllers().size() == 1 && world->disk().outstanding() == 0 &&
                   world->network.open_ends() == 4;  // the admin queue's and the I/O queue's
        };
        EXPECT_TRUE(world->run_until(settled, 20s)) << world->network.open_ends() << " ends are open\n"
                                                    << world->story();
    }

    std::uint64_t seed = 0;
    std::vector<std::byte> memory = std::vector<std::byte>(io_bytes);
    Segment segment{memory.data(), memory.size()};
    std::unique_ptr<World> world;
    std::unique_ptr<Model> model;
    std::unique_ptr<HostSide> host;
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> keep;  // an I/O queue lives as long as its thread has a channel
};

TEST_P(Cut, AtAnyByteHarmsNothing) {
    constexpr std::uint64_t cuts_in_one_world = 50;
    const std::uint64_t beyond = io_bytes + 1024;  // all PDUs of the operation, and what follows it
    const std::uint64_t stride = std::getenv("MQBLK_EVERY_BYTE") != nullptr ? 1 : 640 / scaled(40);
    const std::uint64_t spread = stride == 1 ? 1 : 7;
    std::uint64_t cuts = 0;
    for (std::uint64_t after = 1; after < beyond && !HasFailure();) {
        if (cuts++ % cuts_in_one_world == 0) connect();
        SCOPED_TRACE(testing::Message() << "after " << after << " bytes");
        strike(after);
        // Every byte of the first headers, then further apart, each time at another place.
        after += after < 8 * scaled(40) ? 1 : stride + cuts % spread;
    }
    keep.reset();
    device.reset();
    EXPECT_TRUE(host->disconnect());
    world->expect_quiet(10s);
    host.reset();
}

INSTANTIATE_TEST_SUITE_P(Simulated, Cut,
                         testing::Values(CutCase{"Read", Op::read, Way::to_connector, false},
                                         CutCase{"ReadWithDigests", Op::read, Way::to_connector, true},
                                         CutCase{"Write", Op::write, Way::to_listener, false},
                                         CutCase{"WriteWithDigests", Op::write, Way::to_listener, true},
                                         CutCase{"AnswersToAWrite", Op::write, Way::to_connector, false}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace mqblk::simulation
