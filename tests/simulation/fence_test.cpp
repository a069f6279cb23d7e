// SPDX-License-Identifier: Apache-2.0
//
// The one course of events that the fence is there for, step by step: a write is held back in the network, the host
// gives its connection up and writes on a new one, then writes something newer; then the old bytes arrive. That these
// can fail: without the call of fence() in ControllerCore::bring_up, all but the first do.
#include "simulation/workload.h"
#include "simulation/world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::simulation {
namespace {

using namespace std::chrono_literals;
using driver::nvme::ControllerState;
using fabric::Way;

constexpr std::size_t block_bytes = 65536;
constexpr std::byte old_data{0x01}, new_data{0x02};

class Fence : public testing::Test {
  protected:
    void connect(driver::nvme::HostOptions options, WorldOptions world_options = {}) {
        world_options.network.random_pieces = false;
        world = std::make_unique<World>(1, world_options);
        host = std::make_unique<HostSide>(*world, std::move(options), 1);
        ASSERT_TRUE(host->connect()) << host->error;
        device = host->controller().device(1).value();
        channel = device->channel(host->io(0)).value();
        write(first, std::byte{0});
        ASSERT_TRUE(world->run_until([&] { return first.ended; }, 10s));  // its I/O queue is connected
        ASSERT_EQ(world->network.connections_made(), 2u);
    }
    /// What is sent to the target on the association's connections from now on, but for the first `let_through` bytes
    /// of I/O, arrives only then.
    void hold_back(Duration duration, std::uint64_t let_through = 0) {
        for (const std::uint64_t connection : {0u, 1u}) {
            fabric::Fault fault;
            fault.connection = connection;
            fault.way = Way::to_listener;
            fault.after_bytes = world->network.bytes_sent(connection, fault.way) + (connection == 1 ? let_through : 0);
            fault.kind = fabric::Fault::Kind::stall;
            // That the host has left its admin queue must not be what ends the controller.
            fault.duration = connection == 0 ? duration + 5s : duration;
            world->network.plan(fault);
        }
    }

    struct Write {
        std::vector<std::byte> memory = std::vector<std::byte>(block_bytes);
        Segment segment{memory.data(), block_bytes};
        Bio bio;
        bool ended = false;
    };
    void write(Write& request, std::byte value) {
        std::ranges::fill(request.memory, value);
        submit(request, Op::write);
    }
    void submit(Write& request, Op op) {
        request.ended = false;
        request.bio = {};
        request.bio.op = op;
        request.bio.sectors = block_bytes / sector_bytes;
        request.bio.data = {&request.segment, 1};
        request.bio.context = &request.ended;
        request.bio.done = [](Bio& bio) noexcept { *static_cast<bool*>(bio.context) = true; };
        channel->submit(request.bio);
    }
    [[nodiscard]] bool ends(const Write& request, Duration bound) {
        return world->run_until([&] { return request.ended; }, bound);
    }
    /// What every byte of the block is; 0xff if they differ, or cannot be read.
    std::byte content() {
        Write read;
        submit(read, Op::read);
        if (!ends(read, 60s) || read.bio.status != Status::ok) return std::byte{0xff};
        const auto same = [&](std::byte byte) { return byte == read.memory[0]; };
        return std::ranges::all_of(read.memory, same) ? read.memory[0] : std::byte{0xff};
    }
    /// One write is held back for `held`; when it has ended, whichever way, a newer one follows.
    void overtake(Duration held, std::uint64_t let_through = 0) {
        hold_back(held, let_through);
        const Time start = world->sim.now();
        write(first, old_data);
        ASSERT_TRUE(ends(first, 120s)) << world->story();
        write(second, new_data);
        ASSERT_TRUE(ends(second, 120s)) << world->story();
        ASSERT_EQ(second.bio.status, Status::ok);
        acknowledged_after = world->sim.now() - start;
        world->sim.run_for(held + 10s);  // the old bytes have arrived, and whatever they cause has happened
        EXPECT_EQ(content(), new_data) << "the old write won\n" << world->story();
    }
    void disconnect() {
        channel.reset();
        device.reset();
        host.reset();
    }

    std::unique_ptr<World> world;
    std::unique_ptr<HostSide> host;
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;
    Write first, second;
    Duration acknowledged_after{};
};

/// No keep-alive: nothing but the host's fence ends the controller that it has lost.
driver::nvme::HostOptions host_without_keep_alive() {
    auto options = quick_host();
    options.queues = 1;
    options.keep_alive = 0s;
    options.io_timeout = 500ms;
    options.ctrl_loss_tmo = 600s;
    return options;
}

WorldOptions target_without_reset() {
    WorldOptions options;
    options.target.cross_controller_reset = false;
    return options;
}

/// Where a write is cut: in its capsule, which holds its data or not, or in data that the target has asked for.
struct HeldBack {
    std::uint32_t in_capsule_bytes;
    std::uint64_t let_through;
};
constexpr HeldBack held_back[] = {{block_bytes, 0}, {block_bytes, 30}, {block_bytes, 40'000},
                                  {0, 72},          {0, 100},          {0, 40'000}};

std::string to_string(const HeldBack& cut) {
    return fmt::format("{} bytes in capsules, held back after {}", cut.in_capsule_bytes, cut.let_through);
}

TEST_F(Fence, TheNetworkHoldsBytesBackAndDeliversThem) {
    connect(host_without_keep_alive());
    hold_back(200ms);
    write(first, old_data);
    world->sim.run_for(199ms);
    EXPECT_FALSE(first.ended);
    EXPECT_TRUE(ends(first, 10ms));
    EXPECT_EQ(content(), old_data);
    EXPECT_EQ(world->network.connections_made(), 2u);
}

TEST_F(Fence, AResetKeepsOldBytesOut) {
    for (const HeldBack& cut : held_back) {
        SCOPED_TRACE(to_string(cut));
        WorldOptions world_options;
        world_options.target.in_capsule_bytes = cut.in_capsule_bytes;
        connect(host_without_keep_alive(), world_options);
        overtake(20s, cut.let_through);
        EXPECT_EQ(first.bio.status, Status::timed_out);
        // Time-out, Abort, time-out, reconnect: the reset itself takes no time to speak of.
        EXPECT_LE(acknowledged_after, 2s);
        disconnect();
    }
}

TEST_F(Fence, AResetKeepsOutWhatIsSentAgain) {
    // A host that gives up sooner than the target does: there keep-alive counts in seconds.
    auto options = host_without_keep_alive();
    options.keep_alive = 100ms;
    options.io_timeout = 30s;
    for (const HeldBack& cut : held_back) {
        SCOPED_TRACE(to_string(cut));
        WorldOptions world_options;
        world_options.target.in_capsule_bytes = cut.in_capsule_bytes;
        connect(options, world_options);
        overtake(800ms, cut.let_through);
        EXPECT_EQ(first.bio.status, Status::ok);
        EXPECT_LE(acknowledged_after, 700ms);
        disconnect();
    }
}

TEST_F(Fence, ATargetThatCannotResetShowsByClosingThatItHasDone) {
    for (const HeldBack& cut : held_back) {
        SCOPED_TRACE(to_string(cut));
        WorldOptions world_options = target_without_reset();
        world_options.target.in_capsule_bytes = cut.in_capsule_bytes;
        connect(host_without_keep_alive(), world_options);
        overtake(20s, cut.let_through);
        // Not before the old bytes, and the host's own end behind them, had arrived; not after the longest time.
        EXPECT_GE(acknowledged_after, 20s);
        EXPECT_LE(acknowledged_after, 21s);
        disconnect();
    }
}

TEST_F(Fence, WithoutAnySignTheControllerIsGivenItsTime) {
    auto options = host_without_keep_alive();
    options.keep_alive = 4s;
    connect(options, target_without_reset());
    for (const std::uint64_t connection : {0u, 1u}) {
        for (const Way way : {Way::to_listener, Way::to_connector}) {
            const std::uint64_t sent = world->network.bytes_sent(connection, way);
            world->network.plan({connection, way, sent, fabric::Fault::Kind::drop, {}});
        }
    }
    const Time start = world->sim.now();
    write(first, old_data);
    ASSERT_TRUE(ends(first, 60s)) << world->story();
    write(second, new_data);
    ASSERT_TRUE(ends(second, 60s)) << world->story();
    EXPECT_EQ(second.bio.status, Status::ok);
    // Three keep-alive time-outs by traffic, and one for its commands: from the loss on, which took a second or more.
    EXPECT_GE(world->sim.now() - start, 17s);
    EXPECT_LE(world->sim.now() - start, 20s);
}

TEST_F(Fence, ADiskThatIsNotDoneHoldsTheNewAssociationUp) {
    for (const bool reset : {true, false}) {
        SCOPED_TRACE(reset ? "by reset" : "by closing");
        WorldOptions world_options;
        world_options.target.cross_controller_reset = reset;
        connect(host_without_keep_alive(), world_options);
        world->disk().hang(true);
        write(first, old_data);
        // Given up as late; on the disk it may still be.
        ASSERT_TRUE(ends(first, 2s));
        EXPECT_EQ(first.bio.status, Status::timed_out);
        write(second, new_data);
        world->sim.run_for(5s);
        EXPECT_FALSE(second.ended) << "sent before the disk had done with the other";
        world->disk().hang(false);
        ASSERT_TRUE(ends(second, 10s)) << world->story();
        EXPECT_EQ(second.bio.status, Status::ok);
        EXPECT_EQ(content(), new_data);
        disconnect();
    }
}

TEST_F(Fence, LossTimeBoundsAFenceThatDoesNotEnd) {
    for (const bool reset : {true, false}) {
        SCOPED_TRACE(reset ? "by reset" : "by closing");
        WorldOptions world_options;
        world_options.target.cross_controller_reset = reset;
        auto options = host_without_keep_alive();
        options.ctrl_loss_tmo = 5s;
        connect(options, world_options);
        world->disk().hang(true);
        write(first, old_data);
        ASSERT_TRUE(ends(first, 2s));
        write(second, new_data);
        ASSERT_TRUE(ends(second, options.ctrl_loss_tmo + 500ms));
        EXPECT_EQ(second.bio.status, Status::transport);
        EXPECT_EQ(host->controller().state(), ControllerState::dead);
        world->disk().hang(false);
        disconnect();
    }
}

TEST_F(Fence, ATargetThatWasRestartedHasNoOldController) {
    connect(host_without_keep_alive());
    bool stopped = false;
    world->stop_listening([&] { stopped = true; });
    ASSERT_TRUE(world->run_until([&] { return stopped; }, 5s));
    world->start_listening();
    write(first, new_data);
    ASSERT_TRUE(ends(first, 2s)) << world->story();
    EXPECT_EQ(content(), new_data);
}

TEST_F(Fence, ANewControllerFencesTheOneThatWasGivenUp) {
    auto options = host_without_keep_alive();
    options.ctrl_loss_tmo = 1s;
    for (const bool reset : {true, false}) {
        SCOPED_TRACE(reset ? "by reset" : "by closing");
        WorldOptions world_options;
        world_options.target.cross_controller_reset = reset;
        world_options.target.in_capsule_bytes = block_bytes;
        connect(options, world_options);
        hold_back(20s);
        world->network.refuse_next(6);
        write(first, old_data);
        ASSERT_TRUE(ends(first, 10s));
        ASSERT_TRUE(world->run_until([&] { return host->controller().state() == ControllerState::dead; }, 10s));
        // Whoever asks again, with whichever options, gets a new controller of the same host.
        channel.reset();
        device.reset();
        options.ctrl_loss_tmo = 600s;
        const Time start = world->sim.now();
        while (!host->connect()) ASSERT_LE(world->sim.now() - start, 60s) << host->error;
        device = host->controller().device(1).value();
        channel = device->channel(host->io(0)).value();
        write(second, new_data);
        ASSERT_TRUE(ends(second, 60s));
        ASSERT_EQ(second.bio.status, Status::ok);
        world->sim.run_for(40s);
        EXPECT_EQ(content(), new_data) << world->story();
        disconnect();
        options.ctrl_loss_tmo = 1s;
    }
}

TEST_F(Fence, AHostThatGoesShutsItsControllersDown) {
    for (const bool connected : {true, false}) {
        SCOPED_TRACE(connected ? "connected" : "reconnecting");
        connect(quick_host());
        if (!connected) {
            bool stopped = false;
            world->stop_listening([&] { stopped = true; });
            ASSERT_TRUE(world->run_until([&] { return stopped; }, 5s));
            world->sim.run_for(1s);
        }
        write(first, old_data);
        host->forget_host();
        const auto attempts = world->dialling.attempts.size();
        EXPECT_TRUE(ends(first, 2s));
        if (!connected) {
            EXPECT_EQ(first.bio.status, Status::removed);
            world->start_listening();
        }
        EXPECT_TRUE(world->run_until([&] { return host->controller().state() == ControllerState::dead; }, 2s));
        world->sim.run_for(60s);
        EXPECT_EQ(world->dialling.attempts.size(), attempts);
        EXPECT_TRUE(world->target().controllers().empty());
        disconnect();
    }
}

TEST_F(Fence, CommandsThatAreCancelledAreAwaitedOnTheirConnection) {
    DiskOptions slow;
    slow.least_latency = slow.most_latency = 100ms;
    WorldOptions world_options;
    world_options.disk = slow;
    connect(host_without_keep_alive(), world_options);
    write(first, old_data);
    channel.reset();  // ends what is outstanding
    EXPECT_TRUE(first.ended);
    EXPECT_EQ(world->network.connections_made(), 2u);
    channel = device->channel(host->io(0)).value();
    write(second, new_data);
    ASSERT_TRUE(ends(second, 10s));
    EXPECT_EQ(content(), new_data);
    EXPECT_EQ(host->controller().state(), ControllerState::live);
}

TEST_F(Fence, CommandsThatAreCancelledAndNotAnsweredCostTheAssociation) {
    connect(host_without_keep_alive());
    world->disk().hang(true);
    write(first, old_data);
    const Time start = world->sim.now();
    channel.reset();
    EXPECT_TRUE(first.ended);
    EXPECT_EQ(first.bio.status, Status::aborted);
    EXPECT_LE(world->sim.now() - start, 2s);
    world->disk().hang(false);
    channel = device->channel(host->io(0)).value();
    write(second, new_data);
    ASSERT_TRUE(ends(second, 10s));
    EXPECT_EQ(content(), new_data);
}

}  // namespace
}  // namespace mqblk::simulation
