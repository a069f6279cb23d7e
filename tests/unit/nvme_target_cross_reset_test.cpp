// SPDX-License-Identifier: Apache-2.0
//
// Cross-Controller Reset at the target, in virtual time: what is announced, who may end whom, what is refused with
// which status, and that the answer does not come before the last command of the other controller has ended.
#include "device/nvme/cross_resets.h"
#include "nvme_target_harness.h"
#include "reactor/simulated.h"
#include "wire/nvme_cross_reset.h"

#include <algorithm>
#include <array>
#include <vector>

namespace mqblk::nvme_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::ControllerInstance;

/// An admin queue, one I/O queue, and how the controller is named.
struct Side {
    std::unique_ptr<Queue> admin, io;
    ControllerInstance name;
};

class CrossReset : public ::testing::Test {
  protected:
    explicit CrossReset(Target::Options options = {}) : target(options) {
        EXPECT_TRUE(target.add_subsystem({.nqn = test_nqn, .serial = {}, .allowed_hosts = {}}));
        loop = target.loop(*target.add_port({0, "loop", "", ""}));
        driver::null::Options disk;
        disk.bytes = 1 << 20;
        disk.disk.queues = 1;
        disk.latency = latency;
        EXPECT_TRUE(target.add_namespace(test_nqn, {1, "null://", *driver::null::open(disk), {}, {}}));
    }

    Side connect_side(const ConnectOptions& options = {}) {
        Side side;
        side.admin = std::make_unique<Queue>(*reactor, *loop->open_queue(*reactor));
        const Exchange& answer = connect(*side.admin, options);
        EXPECT_EQ(answer.code(), status::success);
        EXPECT_EQ(side.admin->code(property_set(wire::property::cc, enable_value)), status::success);
        side.name.id = static_cast<std::uint16_t>(answer.result() & 0xffff);
        if (options.subsystem != test_nqn) return side;
        const auto page = identify(*side.admin);
        side.name.uniquifier = page.ciu;
        side.name.random = page.cirn;
        ConnectOptions io_options = options;
        io_options.queue_id = 1;
        io_options.controller_id = side.name.id;
        side.io = std::make_unique<Queue>(*reactor, *loop->open_queue(*reactor));
        EXPECT_EQ(connect(*side.io, io_options).code(), status::success);
        return side;
    }
    static wire::IdentifyController identify(Queue& queue) {
        Bytes page(4096);
        EXPECT_EQ(queue.code(admin(wire::admin_opcode::identify, wire::cns::controller), page), status::success);
        return as<wire::IdentifyController>(page);
    }
    static wire::Command reset(const ControllerInstance& name) {
        wire::Command command = admin(wire::admin_opcode::cross_controller_reset);
        wire::set_impacted_controller(command, name);
        return command;
    }
    /// A write that its null disk takes `latency` for.
    Exchange& start_write(Side& side) { return side.io->start(io(wire::io_opcode::write, 1, 0, 8), std::span(data)); }
    [[nodiscard]] bool alive(Side& side) {
        return side.admin->code(admin(wire::admin_opcode::keep_alive)) != status::aborted_queue_deleted;
    }
    /// All queues that exist are turned, as their threads would.
    void run_for(std::initializer_list<Side*> sides, Duration time) {
        const Time end = world.now() + time;
        while (world.now() < end) {
            for (Side* side : sides) {
                side->admin->turn();
                if (side->io) side->io->turn();
            }
            world.run_for(milliseconds(10));
        }
    }
    Bytes log(Side& side, std::uint32_t flags = 0) {
        Bytes page(8 + 8 * 20, std::byte{0xee});
        wire::Command command = admin(wire::admin_opcode::get_log_page);
        wire::set_log_request(command, wire::log_id::cross_reset, 0, page.size(), flags);
        EXPECT_EQ(side.admin->code(command, page), status::success);
        return page;
    }

    static constexpr Duration latency = seconds(3);
    Bytes data = Bytes(4096);
    SimulatedWorld world{1};
    std::unique_ptr<Reactor> reactor = world.make_reactor();
    Target target;
    std::unique_ptr<fabric::LoopTarget> loop;
};

TEST_F(CrossReset, IsAnnouncedAndInstancesDiffer) {
    const Side a = connect_side(), b = connect_side();
    const auto page = identify(*a.admin);
    EXPECT_EQ(page.ccrl, device::nvme::CrossResets::limit);
    EXPECT_EQ(page.cqt, 0u);
    EXPECT_NE(page.oaes & wire::oaes::cross_reset, 0u);
    EXPECT_NE(a.name.uniquifier, 0u);
    EXPECT_NE(a.name.random, 0u);
    EXPECT_NE(a.name.random, b.name.random);
    EXPECT_NE(a.name.uniquifier, b.name.uniquifier);
    Bytes effects(4096);
    wire::Command command = admin(wire::admin_opcode::get_log_page);
    wire::set_log_request(command, wire::log_id::effects, 0, effects.size());
    ASSERT_EQ(a.admin->code(command, effects), status::success);
    EXPECT_EQ(as<wire::EffectsLog>(effects).admin[wire::admin_opcode::cross_controller_reset], wire::effect::supported);
}

TEST_F(CrossReset, EndsTheOtherControllerAtOnceIfNothingIsUnderWay) {
    Side source = connect_side(), impacted = connect_side();
    const Exchange& answer = source.admin->run(reset(impacted.name));
    EXPECT_EQ(answer.code(), status::success);
    EXPECT_EQ(answer.result(), wire::cross_reset_immediate);
    impacted.admin->turn();
    impacted.io->turn();
    EXPECT_TRUE(impacted.admin->closed());
    EXPECT_TRUE(impacted.io->closed());
    EXPECT_EQ(impacted.io->code(io(wire::io_opcode::write, 1, 0, 8), std::span(data)), status::aborted_queue_deleted);
    EXPECT_TRUE(alive(source));
    EXPECT_EQ(source.admin->run(reset(impacted.name)).result(), wire::cross_reset_immediate) << "it is gone";
}

TEST_F(CrossReset, WaitsForWhatIsInABackend) {
    Side source = connect_side(), impacted = connect_side();
    Exchange& written = start_write(impacted);
    run_for({&source, &impacted}, latency - milliseconds(500));
    Exchange& answer = source.admin->start(reset(impacted.name));
    run_for({&source, &impacted}, milliseconds(400));
    EXPECT_FALSE(written.done);
    EXPECT_FALSE(answer.done);
    run_for({&source, &impacted}, milliseconds(200));
    EXPECT_TRUE(written.done);
    ASSERT_TRUE(answer.done);
    EXPECT_EQ(answer.result(), wire::cross_reset_immediate);
}

TEST_F(CrossReset, WaitsForABackendAfterTheControllerHasGone) {
    Side source = connect_side(), impacted = connect_side();
    Exchange& written = start_write(impacted);
    impacted.admin.reset();  // its host has left: the controller is no more, its command is
    Exchange& answer = source.admin->start(reset(impacted.name));
    const auto turn = [&](Duration time) {
        const Time end = world.now() + time;
        while (world.now() < end) {
            source.admin->turn();
            impacted.io->turn();
            world.run_for(milliseconds(10));
        }
    };
    turn(milliseconds(500));
    EXPECT_FALSE(answer.done);
    EXPECT_FALSE(written.done);
    turn(seconds(3));
    EXPECT_TRUE(written.done);
    EXPECT_TRUE(answer.done);
}

TEST_F(CrossReset, SaysLaterInTheLogAndByAnEventIfItTakesLong) {
    Side source = connect_side(), impacted = connect_side();
    ASSERT_EQ(source.admin->code(admin(wire::admin_opcode::set_features, wire::feature_id::async_event_config,
                                       wire::oaes::cross_reset)),
              status::success);
    Exchange& event = source.admin->start(admin(wire::admin_opcode::async_event_request));
    Exchange& written = start_write(impacted);
    const Exchange& answer = source.admin->run(reset(impacted.name));
    EXPECT_EQ(answer.code(), status::success);
    EXPECT_EQ(answer.result(), 0u);
    EXPECT_FALSE(written.done);
    const std::array<unsigned char, 16> under_way{1,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  static_cast<unsigned char>(impacted.name.id & 0xff),
                                                  static_cast<unsigned char>(impacted.name.id >> 8),
                                                  impacted.name.uniquifier,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  3};
    EXPECT_EQ(std::memcmp(log(source).data(), under_way.data(), under_way.size()), 0);
    EXPECT_EQ(std::memcmp(log(source, wire::log_cross_reset_remove).data(), under_way.data(), under_way.size()), 0)
        << "it is not over, so it stays";
    EXPECT_FALSE(event.done);
    run_for({&source, &impacted}, latency);
    EXPECT_TRUE(written.done);
    ASSERT_TRUE(event.done);
    EXPECT_EQ(event.result(), 0x1ef402u);
    Bytes page = log(source, wire::log_cross_reset_remove);
    EXPECT_EQ(as<le16>(page), 1u);
    EXPECT_EQ(as<wire::CrossResetLogEntry>(page, 8).status, wire::cross_reset_status::success);
    page = log(source);
    EXPECT_EQ(as<le16>(page), 0u);
    EXPECT_TRUE(std::ranges::all_of(page, [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_F(CrossReset, RefusesItself) {
    Side source = connect_side();
    const Exchange& answer = source.admin->run(reset(source.name));
    EXPECT_EQ(answer.completion.status >> 1, status::permanent(status::invalid_field));
    EXPECT_TRUE(alive(source));
}

TEST_F(CrossReset, LeavesOtherHostsAlone) {
    ConnectOptions other_nqn, other_id;
    other_nqn.host = "nqn.2026-01.io.mqblk:another";
    other_id.host_id = 9;
    for (const auto& options : {other_nqn, other_id}) {
        Side source = connect_side(), other = connect_side(options);
        EXPECT_EQ(source.admin->run(reset(other.name)).completion.status >> 1,
                  status::permanent(status::invalid_field));
        other.admin->turn();
        EXPECT_FALSE(other.admin->closed());
        EXPECT_TRUE(alive(other));
    }
}

TEST_F(CrossReset, WhatDoesNotExistHasEnded) {
    Side source = connect_side(), other = connect_side();
    ControllerInstance wrong_id = other.name, wrong_uniquifier = other.name, wrong_random = other.name;
    wrong_id.id = 77;
    ++wrong_uniquifier.uniquifier;
    ++wrong_random.random;
    for (const auto& name : {wrong_id, wrong_uniquifier, wrong_random, ControllerInstance{}}) {
        const Exchange& answer = source.admin->run(reset(name));
        EXPECT_EQ(answer.code(), status::success);
        EXPECT_EQ(answer.result(), wire::cross_reset_immediate);
    }
    other.admin->turn();
    EXPECT_FALSE(other.admin->closed());
    EXPECT_TRUE(alive(other));
}

TEST_F(CrossReset, OneAtATimeForAController) {
    Side source = connect_side(), impacted = connect_side(), third = connect_side();
    start_write(impacted);
    Exchange& first = source.admin->start(reset(impacted.name));
    EXPECT_EQ(source.admin->code(reset(impacted.name)), status::cross_reset_in_progress);
    Exchange& second = third.admin->start(reset(impacted.name));  // another controller may ask too
    run_for({&source, &third, &impacted}, milliseconds(500));
    EXPECT_FALSE(first.done);
    EXPECT_FALSE(second.done);
    run_for({&source, &third, &impacted}, latency);
    EXPECT_EQ(first.code(), status::success);
    EXPECT_EQ(second.code(), status::success);
}

TEST_F(CrossReset, NoMoreThanAnnouncedAndLogged) {
    using device::nvme::CrossResets;
    Side source = connect_side();
    unsigned logged = 0;
    for (unsigned round = 0; round < CrossResets::most_logged / CrossResets::limit; ++round) {
        std::vector<Side> impacted;
        for (unsigned i = 0; i <= CrossResets::limit; ++i) {
            impacted.push_back(connect_side());
            start_write(impacted.back());
        }
        for (unsigned i = 0; i < CrossResets::limit; ++i) source.admin->start(reset(impacted[i].name));
        if (round == 0) {
            EXPECT_EQ(source.admin->code(reset(impacted.back().name)), status::cross_reset_limit_exceeded);
        }
        const Time end = world.now() + 2 * latency;
        while (world.now() < end) {
            source.admin->turn();
            for (auto& side : impacted) side.io->turn();
            world.run_for(milliseconds(10));
        }
        logged += CrossResets::limit;
        EXPECT_EQ(as<le16>(log(source)), logged);
    }
    Side one_more = connect_side();
    EXPECT_EQ(source.admin->code(reset(one_more.name)), status::cross_reset_log_full);
    EXPECT_TRUE(alive(one_more));
    log(source, wire::log_cross_reset_remove);
    EXPECT_EQ(source.admin->code(reset(one_more.name)), status::success);
}

TEST_F(CrossReset, CanBeAborted) {
    Side source = connect_side(), impacted = connect_side();
    start_write(impacted);
    Exchange& answer = source.admin->start(reset(impacted.name));
    EXPECT_EQ(source.admin->run(admin(wire::admin_opcode::abort, answer.loop.command.command_id << 16)).result(), 0u);
    ASSERT_TRUE(answer.done);
    EXPECT_EQ(answer.code(), status::aborted_by_request);
    run_for({&source, &impacted}, 2 * latency);
    EXPECT_TRUE(impacted.admin->closed()) << "the reset itself goes on";
    EXPECT_EQ(as<le16>(log(source)), 0u);
}

TEST_F(CrossReset, ASourceThatLeavesTakesItsQuestionAlong) {
    Side source = connect_side(), impacted = connect_side();
    start_write(impacted);
    const Exchange& answer = source.admin->start(reset(impacted.name));
    source.admin->turn();
    source.admin->loop().on_closed(nullptr, nullptr);
    EXPECT_FALSE(answer.done);
    source.io.reset();
    source.admin.reset();  // ends the command, as the loop must
    run_for({&impacted}, 2 * latency);
    EXPECT_TRUE(impacted.admin->closed());
}

TEST_F(CrossReset, IsNotForDiscovery) {
    ConnectOptions options;
    options.subsystem = wire::discovery_nqn;
    Side discovery = connect_side(options);
    EXPECT_EQ(discovery.admin->code(reset(ControllerInstance{1, 1, 1})), status::invalid_opcode);
    EXPECT_EQ(identify(*discovery.admin).ccrl, 0u);
}

class NoCrossReset : public CrossReset {
  protected:
    NoCrossReset() : CrossReset({.cross_controller_reset = false}) {}
};

TEST_F(NoCrossReset, IsAsBeforeNvme23) {
    Side source = connect_side(), other = connect_side();
    const auto page = identify(*source.admin);
    EXPECT_EQ(page.ciu, 0u);
    EXPECT_EQ(page.cirn, 0u);
    EXPECT_EQ(page.ccrl, 0u);
    EXPECT_EQ(page.oaes & wire::oaes::cross_reset, 0u);
    EXPECT_EQ(source.admin->code(reset(other.name)), status::invalid_opcode);
    Bytes data_of_log(512);
    wire::Command command = admin(wire::admin_opcode::get_log_page);
    wire::set_log_request(command, wire::log_id::cross_reset, 0, data_of_log.size());
    EXPECT_EQ(source.admin->code(command, data_of_log), status::invalid_log_page);
    EXPECT_TRUE(alive(other));
}

}  // namespace
}  // namespace mqblk::nvme_test
