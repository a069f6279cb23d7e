// SPDX-License-Identifier: Apache-2.0
//
// When a silent host loses its association, in virtual time: for each keep-alive time-out, at an I/O and at a discovery
// controller, with and without traffic.
#include "nvme_target_harness.h"
#include "reactor/simulated.h"
#include "unit/manual_reactor.h"

namespace mqblk::nvme_test {
namespace {

using std::chrono::milliseconds;

class KeepAlive : public ::testing::Test {
  protected:
    KeepAlive() {
        EXPECT_TRUE(target.add_subsystem({.nqn = test_nqn, .serial = {}, .allowed_hosts = {}}));
        loop = target.loop(*target.add_port({0, "loop", "", ""}));
    }
    std::unique_ptr<Queue> open_admin(std::uint32_t keep_alive_ms, bool discovery) {
        auto queue = std::make_unique<Queue>(*reactor, *loop->open_queue(*reactor));
        ConnectOptions options;
        options.keep_alive_ms = keep_alive_ms;
        if (discovery) options.subsystem = wire::discovery_nqn;
        EXPECT_EQ(connect(*queue, options).code(), status::success);
        EXPECT_EQ(queue->code(property_set(wire::property::cc, enable_value)), status::success);
        return queue;
    }
    /// How long until the target closes the queue; `most` if it does not by then.
    Duration closes_after(Queue& queue, Duration most) {
        const Time start = world.now();
        world.run_until(
            [&] {
                queue.loop().poll();
                return queue.closed();
            },
            most);
        return queue.closed() ? world.now() - start : most;
    }

    SimulatedWorld world{1};
    std::unique_ptr<Reactor> reactor = world.make_reactor();
    Target target{device::nvme::Target::Options{}};
    std::unique_ptr<fabric::LoopTarget> loop;
};

TEST_F(KeepAlive, SilenceEndsTheAssociation) {
    struct Case {
        std::uint32_t asked_ms;
        bool discovery;
        Duration expected;  ///< zero: never
    };
    for (const Case& item : {Case{0, false, milliseconds(0)}, Case{1, false, milliseconds(1000)},
                             Case{15'000, false, milliseconds(15'000)}, Case{120'000, false, milliseconds(120'000)},
                             Case{0, true, milliseconds(120'000)}, Case{1, true, milliseconds(1000)},
                             Case{15'000, true, milliseconds(15'000)}, Case{120'000, true, milliseconds(120'000)}}) {
        SCOPED_TRACE(testing::Message() << item.asked_ms << (item.discovery ? " discovery" : " I/O"));
        const auto queue = open_admin(item.asked_ms, item.discovery);
        const Duration hour = std::chrono::hours(1);
        const Duration after = closes_after(*queue, hour);
        if (item.expected == Duration(0)) {
            EXPECT_EQ(after, hour);
        } else {
            EXPECT_GE(after, item.expected);
            EXPECT_LE(after, item.expected + item.expected / 8 + milliseconds(10));
        }
    }
}

TEST_F(KeepAlive, KeepAliveCommandsKeepIt) {
    const auto queue = open_admin(15'000, false);
    for (int i = 0; i < 100; ++i) {
        world.run_for(milliseconds(14'000));
        ASSERT_EQ(queue->code(admin(wire::admin_opcode::keep_alive)), status::success);
    }
    EXPECT_FALSE(queue->closed());
    EXPECT_LE(closes_after(*queue, std::chrono::hours(1)), milliseconds(16'900));
}

TEST_F(KeepAlive, TrafficOnAnIoQueueKeepsIt) {
    const auto queue = open_admin(1, false);
    const auto controllers = target.controllers();
    ASSERT_EQ(controllers.size(), 1u);
    Queue io_queue(*reactor, *loop->open_queue(*reactor));
    ConnectOptions options;
    options.queue_id = 1;
    options.controller_id = controllers[0].controller_id;
    ASSERT_EQ(connect(io_queue, options).code(), status::success);
    for (int i = 0; i < 100; ++i) {
        world.run_for(milliseconds(900));
        ASSERT_EQ(io_queue.code(io(wire::io_opcode::flush, 1)), status::invalid_namespace) << "even a failing command";
    }
    EXPECT_FALSE(queue->closed());
    EXPECT_LE(closes_after(io_queue, std::chrono::hours(1)), milliseconds(1140));
    queue->turn_until([&] { return queue->closed(); });
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::keep_alive)), status::aborted_queue_deleted);
}

// The target stood still, as when it was stopped or the machine was busy: what the host sent meanwhile still waits.
TEST_F(KeepAlive, AStandstillOfTheTargetIsNoSilenceOfTheHost) {
    test::ManualClock clock;
    SeededRandom random(1);
    test::ManualReactor manual(clock, random);
    Queue queue(manual, *loop->open_queue(manual));
    ConnectOptions options;
    options.keep_alive_ms = 5000;
    ASSERT_EQ(connect(queue, options).code(), status::success);
    ASSERT_EQ(queue.code(property_set(wire::property::cc, enable_value)), status::success);
    for (int i = 0; i < 3; ++i) {
        clock.advance(std::chrono::seconds(60));
        queue.turn();
        ASSERT_FALSE(queue.closed());
        ASSERT_EQ(queue.code(admin(wire::admin_opcode::keep_alive)), status::success);
    }
    for (int i = 0; i < 4; ++i) {
        clock.advance(milliseconds(5000));
        queue.turn();
    }
    EXPECT_TRUE(queue.closed());
}

TEST_F(KeepAlive, SetFeaturesChangesIt) {
    const auto queue = open_admin(0, false);
    world.run_for(std::chrono::hours(1));
    ASSERT_EQ(queue->code(admin(wire::admin_opcode::set_features, wire::feature_id::keep_alive_timer, 5000)),
              status::success);
    EXPECT_GE(closes_after(*queue, std::chrono::hours(1)), milliseconds(5000));
    EXPECT_TRUE(queue->closed());
}

}  // namespace
}  // namespace mqblk::nvme_test
