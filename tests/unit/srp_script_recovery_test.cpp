// SPDX-License-Identifier: Apache-2.0
//
// The SRP initiator when its target is late, says no, gives no credits or goes away: what ends how, and when.
#include "support/srp_scripted_world.h"

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using ScriptIo = ScriptedWorld::Io;

driver::srp::Options script_options(bool external = false) {
    driver::srp::Options options;
    options.use_imm_data = false;
    options.allow_ext_sg = external;
    return options;
}

/// Commands are not answered while `silent`.
struct SilentWorld : ScriptedWorld {
    bool silent = true;
    std::vector<std::uint64_t> ignored, aborts;
    std::optional<srpw::ResponseCode> code = srpw::ResponseCode::success;  ///< of an abort; nothing: it is ignored, too

    explicit SilentWorld(driver::srp::Options how = script_options()) : ScriptedWorld(std::move(how)) {
        target.script = [this](ScriptedChannel& from, const SrpBytes& unit) {
            if (unit_opcode(unit) == srpw::Opcode::tsk_mgmt) {
                const auto task = srpw::decode_tsk_mgmt(unit).value();
                EXPECT_EQ(task.function, static_cast<std::uint8_t>(srpw::TaskFunction::abort_task));
                aborts.push_back(task.task_tag);
                if (code) from.send(ScriptedChannel::task_answer(task.tag, *code));
                return true;
            }
            if (silent) ignored.push_back(unit_tag(unit));
            return silent;
        };
    }
};

TEST(SrpScript, ALateCommandIsAborted) {
    SilentWorld world;
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::write);
    EXPECT_EQ(world.run(io), Status::timed_out);
    EXPECT_GE(io.took(), 30s);
    EXPECT_LE(io.took(), 32s);
    EXPECT_EQ(world.aborts, world.ignored);
    EXPECT_EQ(world.initiator->counters().aborts, 1u);
    EXPECT_EQ(world.initiator->counters().reconnects, 0u);
    world.silent = false;
    EXPECT_EQ(world.write(), Status::ok);
}

TEST(SrpScript, AnAbortWithoutAnAnswerEndsTheConnection) {
    SilentWorld world;
    world.code.reset();
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::write);
    EXPECT_EQ(world.run(io), Status::timed_out);
    EXPECT_GE(io.took(), 35s);
    EXPECT_LE(io.took(), 37s);
    world.silent = false;
    EXPECT_EQ(world.write(), Status::ok);
    EXPECT_EQ(world.initiator->counters().reconnects, 1u);
}

TEST(SrpScript, AnAbortThatFailsEndsTheConnection) {
    for (const srpw::ResponseCode code : {srpw::ResponseCode::failed, srpw::ResponseCode::not_supported}) {
        SilentWorld world;
        world.code = code;
        ASSERT_TRUE(world.connect()) << world.error;
        ScriptIo io(world, Op::read);
        EXPECT_EQ(world.run(io), Status::timed_out);
        EXPECT_LE(io.took(), 32s);
        world.silent = false;
        EXPECT_EQ(world.write(), Status::ok);
        EXPECT_EQ(world.initiator->counters().reconnects, 1u);
    }
}

TEST(SrpScript, LateCommandsAreAbortedOneAfterAnother) {
    SilentWorld world;
    ASSERT_TRUE(world.connect()) << world.error;
    std::vector<std::unique_ptr<ScriptIo>> ios;
    for (unsigned i = 0; i < 20; ++i) ios.emplace_back(std::make_unique<ScriptIo>(world, Op::write))->submit();
    for (auto& io : ios) {
        EXPECT_EQ(world.finish(*io), Status::timed_out);
        EXPECT_LE(io->took(), 32s);
    }
    EXPECT_EQ(world.initiator->counters().aborts, 20u);
    EXPECT_EQ(world.initiator->counters().reconnects, 0u);
    world.silent = false;
    EXPECT_EQ(world.write(), Status::ok);
}

TEST(SrpScript, TheOthersGoOnWhenAnAbortEndsTheConnection) {
    SilentWorld world;
    world.code.reset();
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo late(world, Op::write), young(world, Op::write);
    late.submit();
    world.run_for(20s);
    young.submit();
    world.run_for(1ms);
    world.silent = false;
    EXPECT_EQ(world.finish(late), Status::timed_out);
    EXPECT_EQ(world.finish(young), Status::ok);
    EXPECT_EQ(world.initiator->counters().requeued, 1u);
}

TEST(SrpScript, AnAnswerThatCrossesItsAbortCounts) {
    SilentWorld world;
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::write);
    const auto before = world.target.script;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes& unit) {
        if (unit_opcode(unit) == srpw::Opcode::tsk_mgmt)
            from.send_unit(ScriptedChannel::good(srpw::decode_tsk_mgmt(unit)->task_tag));
        return before(from, unit);
    };
    EXPECT_EQ(world.run(io), Status::ok);
    world.silent = false;
    EXPECT_EQ(world.write(), Status::ok);
    EXPECT_EQ(world.initiator->counters().reconnects, 0u);
}

// A late command that is to be sent again has no time left; what is out is never taken for what was aborted.
TEST(SrpScript, ARefusalThatCrossesItsAbortIsTheEnd) {
    SilentWorld world;
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::write);
    const auto before = world.target.script;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes& unit) {
        if (unit_opcode(unit) == srpw::Opcode::tsk_mgmt) {
            srpw::Rsp rsp = ScriptedChannel::good(srpw::decode_tsk_mgmt(unit)->task_tag);
            rsp.status = static_cast<std::uint8_t>(wire::scsi::Status::task_aborted);
            from.send_unit(rsp);
        }
        return before(from, unit);
    };
    EXPECT_EQ(world.run(io), Status::timed_out);
    EXPECT_EQ(world.ignored.size(), 1u);
    world.silent = false;
    EXPECT_EQ(world.write(), Status::ok);
}

// The safety valve.

bool is_external_unit(const SrpBytes& unit) {
    if (unit_opcode(unit) != srpw::Opcode::cmd) return false;
    const auto view = srpw::decode_cmd(unit, {});
    return view && (view->out.external() || view->in.external());
}

struct ValveCase {
    const char* name;
    std::uint8_t status;
    bool invalid_fields, drops;
};
class SrpValve : public ::testing::TestWithParam<ValveCase> {};

TEST_P(SrpValve, WhoFetchesNoTablesGetsPieces) {
    const ValveCase& how = GetParam();
    ScriptedWorld world(script_options(true));
    unsigned refused = 0, commands = 0;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes& unit) {
        if (unit_opcode(unit) == srpw::Opcode::tsk_mgmt) return false;
        ++commands;
        if (!is_external_unit(unit)) return false;
        ++refused;
        if (how.drops) return true;
        srpw::Rsp rsp = ScriptedChannel::good(unit_tag(unit));
        rsp.status = how.status;
        SrpBytes bytes;
        if (how.invalid_fields) {
            bytes = ScriptedChannel::task_answer(unit_tag(unit), srpw::ResponseCode::invalid_fields);
        } else {
            append(bytes, rsp);
        }
        from.send(bytes);
        return true;
    };
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo first(world, Op::write, 64, 1024), second(world, Op::read, 64, 1024);
    EXPECT_EQ(world.run(first), Status::ok);
    EXPECT_EQ(commands, 7u) << "once in all, then 64 pieces of 12 at once";
    EXPECT_EQ(world.run(second), Status::ok);
    EXPECT_EQ(refused, 1u) << "it is not tried again";
    EXPECT_EQ(commands, 13u);
    EXPECT_EQ(world.initiator->counters().external, 1u);
    EXPECT_EQ(world.initiator->counters().reconnects, 0u);
}

INSTANTIATE_TEST_SUITE_P(Refusals, SrpValve,
                         ::testing::Values(ValveCase{"busy", 0x08, false, false},
                                           ValveCase{"invalid_fields", 0, true, false},
                                           ValveCase{"dropped", 0, false, true}),
                         [](const auto& each) { return each.param.name; });

TEST(SrpScript, AFullTaskSetIsNoRefusalOfTables) {
    ScriptedWorld world(script_options(true));
    unsigned commands = 0;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes& unit) {
        if (commands++ != 0) return false;
        srpw::Rsp rsp = ScriptedChannel::good(unit_tag(unit));
        rsp.status = static_cast<std::uint8_t>(wire::scsi::Status::task_set_full);
        from.send_unit(rsp);
        return true;
    };
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::write, 64, 1024);
    EXPECT_EQ(world.run(io), Status::ok);
    EXPECT_EQ(commands, 2u);
    EXPECT_EQ(world.initiator->counters().external, 2u);
}

// Who has fetched tables is busy when he says so, and late when he is.
TEST(SrpScript, WhoHasFetchedTablesIsNotCutLater) {
    ScriptedWorld world(script_options(true));
    unsigned commands = 0;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes& unit) {
        if (unit_opcode(unit) == srpw::Opcode::tsk_mgmt) return false;
        EXPECT_TRUE(is_external_unit(unit));
        if (++commands == 3) return true;
        if (commands != 2) return false;
        srpw::Rsp rsp = ScriptedChannel::good(unit_tag(unit));
        rsp.status = static_cast<std::uint8_t>(wire::scsi::Status::busy);
        from.send_unit(rsp);
        return true;
    };
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo works(world, Op::write, 64, 1024), late(world, Op::write, 64, 1024), again(world, Op::write, 64, 1024);
    EXPECT_EQ(world.run(works), Status::ok);
    EXPECT_EQ(world.run(late), Status::timed_out);
    EXPECT_EQ(world.run(again), Status::ok);
    EXPECT_EQ(commands, 4u);
}

// A connection that is lost says nothing of the target either.
TEST(SrpScript, ALostConnectionCutsNoRequests) {
    SilentWorld world(script_options(true));
    world.code.reset();
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo lost(world, Op::write, 64, 1024), again(world, Op::write, 64, 1024);
    EXPECT_EQ(world.run(lost), Status::timed_out);
    world.silent = false;
    EXPECT_EQ(world.run(again), Status::ok);
    EXPECT_EQ(world.initiator->counters().external, 2u);
    EXPECT_EQ(world.initiator->counters().pieces, 0u);
}

// Without a target.

TEST(SrpScript, WithoutATargetRequestsFailThenTheTargetIsGivenUp) {
    auto options = script_options();
    options.reconnect_delay = 3s;
    ScriptedWorld world(options);
    ASSERT_TRUE(world.connect()) << world.error;
    ASSERT_EQ(world.write(), Status::ok);
    world.target.script = [](ScriptedChannel&, const SrpBytes&) { return true; };
    ScriptIo lost(world, Op::write), queued(world, Op::write), failing(world, Op::write), gone(world, Op::write);
    lost.submit();
    world.run_for(1ms);
    world.target.stop_listening();
    world.target.end_all();
    world.run_for(1s);
    queued.submit();
    EXPECT_EQ(world.finish(lost), Status::transport);
    EXPECT_GE(lost.took(), 15s);
    EXPECT_LE(lost.took(), 16s);
    EXPECT_EQ(world.finish(queued), Status::transport);
    EXPECT_LE(queued.took(), 15s);
    EXPECT_EQ(world.run(failing), Status::transport);
    EXPECT_LE(failing.took(), 1ms);
    world.run_for(590s);
    EXPECT_EQ(world.run(gone), Status::removed);
    EXPECT_LE(gone.took(), 1ms);
}

TEST(SrpScript, ATargetThatComesBackIsUsedAgain) {
    auto options = script_options();
    options.reconnect_delay = 3s;
    ScriptedWorld world(options);
    ASSERT_TRUE(world.connect()) << world.error;
    ASSERT_EQ(world.write(), Status::ok);
    world.target.stop_listening();
    world.target.end_all();
    world.run_for(100s);
    EXPECT_EQ(world.write(), Status::transport);
    world.target.listen();
    world.run_for(4s);
    EXPECT_EQ(world.write(), Status::ok);
    // And the clock of a loss begins anew.
    world.target.stop_listening();
    world.target.end_all();
    ScriptIo io(world, Op::write);
    world.run_for(5s);
    io.submit();
    world.target.listen();
    EXPECT_EQ(world.finish(io), Status::ok);
    EXPECT_LE(io.took(), 4s);
}

// A connection that is lost again and again takes no request with it for ever.
TEST(SrpScript, ARequestThatEveryConnectionIsLostWithFails) {
    ScriptedWorld world(script_options());
    unsigned seen = 0;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes&) {
        ++seen;
        from.end();
        return true;
    };
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::write);
    EXPECT_EQ(world.run(io), Status::transport);
    EXPECT_EQ(seen, 4u);
    world.target.script = {};
    EXPECT_EQ(world.write(), Status::ok);
}

TEST(SrpScript, ATargetThatLogsOutIsLoggedInToAgain) {
    ScriptedWorld world(script_options());
    unsigned commands = 0;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes&) {
        if (commands++ != 0) return false;
        from.send_unit(srpw::TLogout{});
        return true;
    };
    ASSERT_TRUE(world.connect()) << world.error;
    EXPECT_EQ(world.write(), Status::ok);
    EXPECT_EQ(commands, 2u);
    EXPECT_EQ(world.initiator->counters().reconnects, 1u);
    EXPECT_EQ(world.initiator->counters().requeued, 1u);
}

TEST(SrpScript, WhoLeavesWaitsForNobody) {
    SilentWorld world;
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::read);
    io.submit();
    world.run_for(10ms);
    world.channel.reset();
    EXPECT_EQ(io.ends, 1u);
    EXPECT_EQ(io.bio.status, Status::aborted);
    EXPECT_LE(io.took(), 2s);
}

// A first answer of a new nexus is its unit attention, which tells nothing of the command: it is sent again at once.
TEST(SrpScript, AUnitAttentionCostsOneMoreCommand) {
    ScriptedWorld world(script_options());
    unsigned commands = 0;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes& unit) {
        if (commands++ != 0) return false;
        const auto sense = wire::scsi::build_fixed_sense({.key = wire::scsi::SenseKey::unit_attention});
        srpw::Rsp rsp = ScriptedChannel::good(unit_tag(unit));
        rsp.status = static_cast<std::uint8_t>(wire::scsi::Status::check_condition);
        rsp.flags = srpw::sense_valid;
        rsp.sense_data_len = sizeof sense;
        SrpBytes bytes;
        append(bytes, rsp);
        append(bytes, sense);
        from.send(bytes);
        return true;
    };
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::write);
    EXPECT_EQ(world.run(io), Status::ok);
    EXPECT_LE(io.took(), 1ms);
    EXPECT_EQ(commands, 2u);
    EXPECT_EQ(world.write(), Status::ok);
    EXPECT_EQ(commands, 3u);
}

}  // namespace
}  // namespace mqblk::test
