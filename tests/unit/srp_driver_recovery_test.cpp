// SPDX-License-Identifier: Apache-2.0
//
// The SRP initiator when registrations fail and connections end, against the target in this process.
#include "base/random.h"
#include "driver/srp/srp.h"
#include "memory/segments.h"
#include "unit/reactor_support.h"
#include "unit/srp_harness.h"

#include <optional>

namespace mqblk::test {
namespace {

namespace srp_driver = driver::srp;

struct RecoveryWorld {
    unsigned refuse_every = 0;
    SeededRandom random{7};
    fabric::rdma::InProcessNetwork network;
    std::unique_ptr<Reactor> reactor = uring_reactor();
    std::unique_ptr<device::srp::Target> target;
    std::shared_ptr<srp_driver::Initiator> initiator;
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;

    explicit RecoveryWorld(srp_driver::Options options)
        : network({.limits = {},
                   .refuse_registration = [this] { return refuse_every != 0 && random.below(refuse_every) == 0; }}) {
        target = std::move(*device::srp::Target::create({}, {{.lun = 0, .device = SrpWorld::ram(16 << 20)}}));
        listen();
        options.ch_count = 2;  // the last queue would live in a reactor of its own
        options.reconnect_delay = std::chrono::milliseconds(20);
        options.fast_io_fail_tmo = std::chrono::seconds(20);
        std::optional<Result<std::shared_ptr<srp_driver::Initiator>>> result;
        spawn(srp_driver::Initiator::connect(*reactor, network, {.host = "target"}, options, nullptr),
              [&](auto value) { result = std::move(value); });
        EXPECT_TRUE(run_until(*reactor, [&] { return result.has_value(); }));
        initiator = std::move(**result);
        device = std::move(*initiator->device(0));
        channel = std::move(*device->channel(*reactor));
    }
    ~RecoveryWorld() {
        channel.reset();
        device.reset();
        initiator.reset();
        target->stop_listening(*reactor);
        target->leave(*reactor);
    }
    void listen() { ASSERT_TRUE(target->listen(network, *reactor, {.host = "target"}).has_value()); }

    struct Io {
        Bio bio;
        memory::Buffer memory = std::move(*memory::Buffer::allocate(64 * 8192));
        std::vector<Segment> list;
        bool done = false;

        Io(Op op, std::uint64_t sector, std::uint8_t seed) {
            for (std::size_t i = 0; i < 64; ++i) {
                std::byte* const at = memory.data() + i * 8192;
                for (std::size_t j = 0; j < 4096; ++j) at[j] = std::byte(op == Op::write ? seed + i + j : 0);
                list.push_back({at, 4096});
            }
            bio.op = op;
            bio.sector = sector;
            bio.sectors = 512;
            bio.data = list;
            bio.context = &done;
            bio.done = [](Bio& it) noexcept { *static_cast<bool*>(it.context) = true; };
        }
    };
    Status finish(Io& io) {
        EXPECT_TRUE(run_until(*reactor, [&] {
            channel->poll();
            return io.done;
        }));
        return io.bio.status;
    }
    Status run(Io& io) {
        channel->submit(io.bio);
        return finish(io);
    }
};

TEST(SrpDriverRecovery, FailedRegistrationsFailNoRequest) {
    RecoveryWorld world({});
    RecoveryWorld::Io first(Op::write, 0, 0);
    ASSERT_EQ(world.run(first), Status::ok);  // the login is over
    world.refuse_every = 3;
    for (std::uint8_t round = 0; round < 30; ++round) {
        RecoveryWorld::Io write(Op::write, round * 512u, round), read(Op::read, round * 512u, 0);
        ASSERT_EQ(world.run(write), Status::ok);
        ASSERT_EQ(world.run(read), Status::ok);
        EXPECT_FALSE(memory::first_difference(Segments(write.list), Segments(read.list)).has_value());
    }
    EXPECT_GT(world.initiator->counters().fallbacks, 0u);
    world.refuse_every = 0;
}

TEST(SrpDriverRecovery, ConnectionsThatEndAreMadeAgain) {
    RecoveryWorld world({});
    // The channel connects by itself, and later than it is there: what has not been connected cannot be lost.
    RecoveryWorld::Io first(Op::write, 0, 9);
    ASSERT_EQ(world.run(first), Status::ok);
    for (std::uint8_t round = 0; round < 5; ++round) {
        RecoveryWorld::Io write(Op::write, 0, round), read(Op::read, 0, 0);
        world.channel->submit(write.bio);
        world.target->leave(*world.reactor);
        ASSERT_EQ(world.finish(write), Status::ok);
        ASSERT_EQ(world.run(read), Status::ok);
        EXPECT_FALSE(memory::first_difference(Segments(write.list), Segments(read.list)).has_value());
    }
    EXPECT_EQ(world.initiator->counters().reconnects, 5u);
}

TEST(SrpDriverRecovery, ARemovedDeviceWaitsForNoTarget) {
    RecoveryWorld world({.queue_size = 8});
    RecoveryWorld::Io io(Op::write, 0, 1);
    ASSERT_EQ(world.run(io), Status::ok);
    world.target->stop_listening(*world.reactor);
    world.target->leave(*world.reactor);
    RecoveryWorld::Io lost(Op::write, 0, 2);
    world.channel->submit(lost.bio);
    world.device->remove();
    EXPECT_EQ(world.finish(lost), Status::removed);
}

}  // namespace
}  // namespace mqblk::test
