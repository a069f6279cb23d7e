// SPDX-License-Identifier: Apache-2.0
//
// How long things may take, in virtual time, which is exact: noticing that the other side has gone, trying again,
// giving up. And agreements at their edges.
#include "simulation/workload.h"
#include "simulation/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace mqblk::simulation {
namespace {

using namespace std::chrono_literals;
using driver::nvme::ControllerState;

// Trips, polls and coroutine steps: what a bound may be missed by.
constexpr Duration slack = 50ms;

class Bounds : public testing::Test {
  protected:
    void connect(driver::nvme::HostOptions options, WorldOptions world_options = {}) {
        world = std::make_unique<World>(1, world_options);
        host = std::make_unique<HostSide>(*world, std::move(options), 1);
        ASSERT_TRUE(host->connect()) << host->error;
        device = host->controller().device(1).value();
        keep = device->channel(host->io(0)).value();
        ASSERT_EQ(read(1min), Status::ok);  // its I/O queue is connected
    }
    std::optional<Status> read(Duration bound) {
        Bio bio;
        bio.sectors = memory.size() / sector_bytes;
        bio.data = {&segment, 1};
        return submit_and_wait(*world, *device, host->io(0), bio, bound);
    }
    [[nodiscard]] bool reaches(ControllerState state, Duration bound) {
        return world->run_until([&] { return host->controller().state() == state; }, bound);
    }

    std::vector<std::byte> memory = std::vector<std::byte>(4096);
    Segment segment{memory.data(), memory.size()};
    std::unique_ptr<World> world;
    std::unique_ptr<HostSide> host;
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> keep;  // an I/O queue lives as long as its thread has a channel
};

TEST_F(Bounds, AHostNoticesATargetThatVanishesByItsKeepAlive) {
    auto options = quick_host();
    options.keep_alive = 4s;
    connect(options);
    world->network.host_down(world->address);
    // One is sent each half period and is waited for a whole one.
    EXPECT_TRUE(reaches(ControllerState::resetting, options.keep_alive * 3 / 2 + slack));
    world->network.host_up(world->address);
    EXPECT_EQ(read(10s), Status::ok);
}

TEST_F(Bounds, ATargetNoticesAHostThatVanishesByItsKeepAlive) {
    auto options = quick_host();
    options.keep_alive = 4s;
    options.ctrl_loss_tmo = 0s;
    connect(options);
    ASSERT_EQ(world->target().controllers().size(), 1u);
    const Time start = world->sim.now();
    world->network.host_down(world->address);
    // The timer looks back over one period for commands of any kind: two periods at most.
    EXPECT_TRUE(
        world->run_until([&] { return world->target().controllers().empty(); }, options.keep_alive * 2 + slack));
    EXPECT_GE(world->sim.now() - start, options.keep_alive / 2);
    world->sim.run_for(1s);
    EXPECT_EQ(world->connections(), 0u);
    world->network.host_up(world->address);
}

TEST_F(Bounds, ReconnectingBacksOffWithinItsLimits) {
    auto options = quick_host();
    options.reconnect_delay = 200ms;
    connect(options);
    bool stopped = false;
    world->stop_listening([&] { stopped = true; });
    ASSERT_TRUE(world->run_until([&] { return stopped; }, 5s));
    ASSERT_TRUE(reaches(ControllerState::resetting, 1s));
    world->dialling.attempts.clear();
    const Time start = world->sim.now();
    world->sim.run_for(20s);
    ASSERT_GE(world->dialling.attempts.size(), 5u);
    Time before = start;
    Duration expected = options.reconnect_delay;
    for (const Time attempt : world->dialling.attempts) {
        EXPECT_GE(attempt - before, expected - slack);
        EXPECT_LE(attempt - before, expected + slack);
        before = attempt;
        expected = std::min(expected * 2, options.reconnect_delay * 10);
    }
    world->start_listening();
    EXPECT_EQ(read(options.reconnect_delay * 10 + 1s), Status::ok);
}

TEST_F(Bounds, IoFailsWhenTheTargetStaysAwayForTooLong) {
    auto options = quick_host();
    options.ctrl_loss_tmo = 3s;
    connect(options);
    world->network.host_down(world->address);
    const Time start = world->sim.now();
    EXPECT_EQ(read(options.keep_alive * 3 / 2 + options.ctrl_loss_tmo + slack), Status::transport);
    EXPECT_GE(world->sim.now() - start, options.ctrl_loss_tmo);
    EXPECT_EQ(host->controller().state(), ControllerState::dead);
    EXPECT_EQ(read(slack), Status::transport);
    world->network.host_up(world->address);
    // Whoever asks anew gets a new controller.
    keep.reset();
    device.reset();
    ASSERT_TRUE(host->connect()) << host->error;
    device = host->controller().device(1).value();
    EXPECT_EQ(read(1s), Status::ok);
}

TEST_F(Bounds, ACommandThatIsNotAnsweredEndsByItsTimeOuts) {
    auto options = quick_host();
    options.ctrl_loss_tmo = 5s;
    connect(options);
    world->disk().hang(true);
    // Aborted after one time-out, given up after another; up to five times more on new connections.
    const auto status = read(longest_operation(options));
    EXPECT_EQ(status, Status::timed_out);
    world->disk().hang(false);
    EXPECT_EQ(read(10s), Status::ok);
}

TEST_F(Bounds, ATargetThatComesBackWithLessIsUsedAsFarAsItGoes) {
    auto options = quick_host();
    options.queues = 2;
    options.depth = 64;
    world = std::make_unique<World>(1, WorldOptions{});
    host = std::make_unique<HostSide>(*world, options, 2);
    ASSERT_TRUE(host->connect()) << host->error;
    device = host->controller().device(1).value();

    struct Reads {
        std::vector<std::byte> memory = std::vector<std::byte>(4096);
        Segment segment{memory.data(), memory.size()};
        std::array<Bio, 64> bios;
        unsigned ended = 0, good = 0;

        void start(Channel& channel) {
            ended = good = 0;
            for (Bio& bio : bios) {
                bio = {};
                bio.sectors = memory.size() / sector_bytes;
                bio.data = {&segment, 1};
                bio.context = this;
                bio.done = [](Bio& done) noexcept {
                    auto& self = *static_cast<Reads*>(done.context);
                    ++self.ended;
                    self.good += done.status == Status::ok ? 1 : 0;
                };
                channel.submit(bio);
            }
        }
        [[nodiscard]] bool all_ended() const { return ended == bios.size(); }
    };
    Reads first, second;
    auto first_channel = device->channel(host->io(0)).value();
    auto second_channel = device->channel(host->io(1)).value();
    const auto both_end = [&] { return first.all_ended() && second.all_ended(); };
    first.start(*first_channel);
    second.start(*second_channel);
    ASSERT_TRUE(world->run_until(both_end, 10s));

    bool stopped = false;
    world->stop_listening([&] { stopped = true; });
    ASSERT_TRUE(world->run_until([&] { return stopped; }, 5s));
    device::nvme::Target::Options less;
    less.max_io_queues = 1;
    less.max_queue_entries = 32;
    world->replace_target(less);
    world->start_listening();
    first.start(*first_channel);
    second.start(*second_channel);
    world->sim.run_for(10s);
    EXPECT_EQ(first.ended + second.ended, first.bios.size()) << "one queue serves one thread";
    // The other thread's turn comes when that one leaves.
    (first.all_ended() ? first_channel : second_channel).reset();
    EXPECT_TRUE(world->run_until(both_end, 10s));
    EXPECT_EQ(first.good, first.bios.size());
    EXPECT_EQ(second.good, second.bios.size());
    EXPECT_EQ(host->controller().state(), ControllerState::live);
    first_channel.reset();
    second_channel.reset();
}

TEST_F(Bounds, WritesReachATargetThatTakesNoDataInCapsules) {
    WorldOptions world_options;
    world_options.target.in_capsule_bytes = 0;
    connect(quick_host(), world_options);
    std::ranges::fill(memory, std::byte{0x5a});
    Bio bio;
    bio.op = Op::write;
    bio.sectors = memory.size() / sector_bytes;
    bio.data = {&segment, 1};
    EXPECT_EQ(submit_and_wait(*world, *device, host->io(0), bio, 1s), Status::ok);
    std::ranges::fill(memory, std::byte{0});
    EXPECT_EQ(read(1s), Status::ok);
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

}  // namespace
}  // namespace mqblk::simulation
