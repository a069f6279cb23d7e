// SPDX-License-Identifier: Apache-2.0
//
// The SRP initiator and credits; and answers that no target should give. Nothing crashes, hangs or leaks: a request
// ends once, and either the answer counts for nothing or the connection is at its end and the next one serves.
#include "support/srp_scripted_world.h"

#include <limits>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using ScriptIo = ScriptedWorld::Io;

driver::srp::Options hostile_options() {
    driver::srp::Options options;
    options.use_imm_data = false;
    return options;
}

TEST(SrpCredits, OneAtATimeIsEnough) {
    ScriptedWorld world(hostile_options());
    world.target.login.req_lim_delta = 2;
    unsigned out = 0, most = 0;
    std::vector<std::pair<ScriptedChannel*, std::uint64_t>> held;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes& unit) {
        most = std::max(most, ++out);
        held.emplace_back(&from, unit_tag(unit));
        return true;
    };
    ASSERT_TRUE(world.connect()) << world.error;
    std::vector<std::unique_ptr<ScriptIo>> ios;
    for (unsigned i = 0; i < 20; ++i) ios.emplace_back(std::make_unique<ScriptIo>(world, Op::write))->submit();
    for (unsigned i = 0; i < 20; ++i) {
        ASSERT_TRUE(world.turn_until([&] { return !held.empty(); }, 1s));
        --out;
        held.front().first->send_unit(ScriptedChannel::good(held.front().second));
        held.clear();
    }
    for (auto& io : ios) EXPECT_EQ(world.finish(*io), Status::ok);
    EXPECT_EQ(most, 1u);
}

TEST(SrpCredits, ALoginWithTooFewIsRefused) {
    for (const std::int32_t credits : {1, 0, -1, std::numeric_limits<std::int32_t>::min()}) {
        ScriptedWorld world(hostile_options());
        world.target.login.req_lim_delta = static_cast<std::uint32_t>(credits);
        EXPECT_FALSE(world.connect());
        EXPECT_NE(world.error.find("too few credits"), std::string::npos) << world.error;
    }
}

/// Each answer takes its credit away for good.
struct StarvedWorld : ScriptedWorld {
    unsigned commands = 0;
    ScriptedChannel* last = nullptr;
    std::int32_t delta = 0;
    StarvedWorld() : ScriptedWorld(hostile_options()) {
        target.login.req_lim_delta = 2;
        target.script = [this](ScriptedChannel& from, const SrpBytes& unit) {
            ++commands;
            last = &from;
            from.send_unit(ScriptedChannel::good(unit_tag(unit), delta));
            return true;
        };
    }
};

TEST(SrpCredits, ComeWithCreditRequestsAndEventReports) {
    StarvedWorld world;
    ASSERT_TRUE(world.connect()) << world.error;
    ASSERT_EQ(world.write(), Status::ok);
    ScriptIo second(world, Op::write), third(world, Op::write);
    second.submit();
    third.submit();
    world.run_for(1s);
    EXPECT_EQ(world.commands, 1u);
    srpw::CredReq request;
    request.tag = 0x1234567890abcdef;
    request.req_lim_delta = 1;
    world.last->send_unit(request);
    EXPECT_EQ(world.finish(second, 1s), Status::ok);
    world.run_for(1s);
    EXPECT_FALSE(third.done);
    srpw::AerReq report;
    report.tag = 77;
    report.req_lim_delta = 1;
    report.sense_data_len = 18;
    SrpBytes bytes;
    append(bytes, report);
    bytes.resize(bytes.size() + 18);
    world.last->send(bytes);
    EXPECT_EQ(world.finish(third, 1s), Status::ok);
    world.run_for(1ms);
    ASSERT_EQ(world.target.replies.size(), 2u);
    EXPECT_EQ(world.target.replies[0].opcode, static_cast<std::uint8_t>(srpw::Opcode::cred_rsp));
    EXPECT_EQ(world.target.replies[0].tag.value(), 0x1234567890abcdefu);
    EXPECT_EQ(world.target.replies[1].opcode, static_cast<std::uint8_t>(srpw::Opcode::aer_rsp));
    EXPECT_EQ(world.target.replies[1].tag.value(), 77u);
    EXPECT_EQ(world.initiator->counters().reconnects, 0u);
}

TEST(SrpCredits, WhoGivesNoneIsLoggedInToAgain) {
    for (const std::int32_t delta : {0, -5, std::numeric_limits<std::int32_t>::min()}) {
        StarvedWorld world;
        world.delta = delta;
        ASSERT_TRUE(world.connect()) << world.error;
        ASSERT_EQ(world.write(), Status::ok);
        std::vector<std::unique_ptr<ScriptIo>> ios;
        for (unsigned i = 0; i < 4; ++i) ios.emplace_back(std::make_unique<ScriptIo>(world, Op::write))->submit();
        unsigned good = 0;
        for (auto& io : ios) {
            const Status status = world.finish(*io);
            EXPECT_TRUE(status == Status::ok || status == Status::timed_out);
            EXPECT_LE(io->took(), 32s);
            good += status == Status::ok;
        }
        EXPECT_GE(good, 1u);
        EXPECT_GE(world.initiator->counters().reconnects, 1u);
    }
}

// Memory that cannot be registered now may be soon; what waits for it for ever is late, and ends.
TEST(SrpScript, WithoutRegistrationsRequestsEndInTime) {
    bool refuse = false;
    ScriptedWorld world(hostile_options(), {.limits = {}, .refuse_registration = [&] { return refuse; }});
    ASSERT_TRUE(world.connect()) << world.error;
    ASSERT_EQ(world.write(), Status::ok);
    refuse = true;
    std::vector<std::unique_ptr<ScriptIo>> ios;
    for (unsigned i = 0; i < 5; ++i) ios.emplace_back(std::make_unique<ScriptIo>(world, Op::write))->submit();
    for (auto& io : ios) {
        EXPECT_EQ(world.finish(*io), Status::timed_out);
        EXPECT_LE(io->took(), 32s);
    }
    ScriptIo soon(world, Op::write);
    soon.submit();
    world.run_for(1s);
    refuse = false;
    EXPECT_EQ(world.finish(soon, 1s), Status::ok);
}

struct HostileCase {
    const char* name;
    /// Instead of the answer to the first write; true: the good answer follows.
    std::function<bool(ScriptedChannel&, std::uint64_t tag)> answer;
    Status status = Status::ok;
    bool ends_connection = false;
};
class SrpHostileAnswer : public ::testing::TestWithParam<HostileCase> {};

SrpBytes hostile_unit(std::size_t size, std::uint8_t first) {
    SrpBytes bytes(size, std::byte{0xff});
    if (size != 0) bytes[0] = std::byte{first};
    return bytes;
}
template <class Change>
SrpBytes changed_answer(std::uint64_t tag, std::size_t behind, Change&& change) {
    srpw::Rsp rsp = ScriptedChannel::good(tag);
    change(rsp);
    SrpBytes bytes;
    append(bytes, rsp);
    bytes.resize(bytes.size() + behind);
    return bytes;
}

TEST_P(SrpHostileAnswer, HarmsNobody) {
    const HostileCase& how = GetParam();
    ScriptedWorld world(hostile_options());
    unsigned commands = 0;
    world.target.script = [&](ScriptedChannel& from, const SrpBytes& unit) {
        if (commands++ != 0) return false;
        return !how.answer(from, unit_tag(unit));
    };
    ASSERT_TRUE(world.connect()) << world.error;
    ScriptIo io(world, Op::write);
    EXPECT_EQ(world.run(io), how.status);
    EXPECT_LE(io.took(), 1s);
    EXPECT_EQ(world.initiator->counters().reconnects, how.ends_connection ? 1u : 0u);
    for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(world.write(), Status::ok);
    EXPECT_EQ(io.ends, 1u);
}

const HostileCase hostile_cases[] = {
    {"unknown_tag",
     [](ScriptedChannel& from, std::uint64_t tag) {
         for (unsigned bit = 0; bit < 64; ++bit) from.send_unit(ScriptedChannel::good(tag ^ std::uint64_t{1} << bit));
         return true;
     }},
    {"twice",
     [](ScriptedChannel& from, std::uint64_t tag) {
         from.send_unit(ScriptedChannel::good(tag));
         return true;
     }},
    {"residual_beyond_what_was_asked",
     [](ScriptedChannel& from, std::uint64_t tag) {
         from.send(changed_answer(tag, 0, [](srpw::Rsp& rsp) {
             rsp.flags = srpw::data_out_underflow;
             rsp.data_out_res_cnt = 0xffffffff;
         }));
         return false;
     },
     Status::io_error},
    {"all_flags_and_no_data",
     [](ScriptedChannel& from, std::uint64_t tag) {
         from.send(changed_answer(tag, 0, [](srpw::Rsp& rsp) { rsp.flags = 0xff; }));
         return false;
     }},
    {"sense_past_the_unit",
     [](ScriptedChannel& from, std::uint64_t tag) {
         from.send(changed_answer(tag, 18, [](srpw::Rsp& rsp) {
             rsp.flags = srpw::sense_valid;
             rsp.sense_data_len = 19;
         }));
         return false;
     },
     Status::ok, true},
    {"response_data_past_the_unit",
     [](ScriptedChannel& from, std::uint64_t tag) {
         from.send(changed_answer(tag, 4, [](srpw::Rsp& rsp) {
             rsp.flags = srpw::rsp_valid;
             rsp.resp_data_len = 0xffffffff;
         }));
         return false;
     },
     Status::ok, true},
    {"lengths_that_wrap",
     [](ScriptedChannel& from, std::uint64_t tag) {
         from.send(changed_answer(tag, 32, [](srpw::Rsp& rsp) {
             rsp.flags = srpw::rsp_valid | srpw::sense_valid;
             rsp.resp_data_len = 8;
             rsp.sense_data_len = 0xfffffff8;
         }));
         return false;
     },
     Status::ok, true},
    {"a_flood_of_credits",
     [](ScriptedChannel& from, std::uint64_t tag) {
         for (unsigned i = 0; i < 40; ++i)
             from.send_unit(ScriptedChannel::good(~tag, std::numeric_limits<std::int32_t>::max()));
         return true;
     }},
    {"unknown_opcodes",
     [](ScriptedChannel& from, std::uint64_t) {
         for (const std::uint8_t opcode : {0x00, 0x01, 0x02, 0x03, 0x41, 0x42, 0x7f, 0x83, 0xc0, 0xc2, 0xff})
             from.send(hostile_unit(64, opcode));
         return true;
     }},
    {"units_of_no_length",
     [](ScriptedChannel& from, std::uint64_t) {
         for (unsigned i = 0; i < 100; ++i) from.send({});
         return true;
     }},
    {"a_response_of_one_byte",
     [](ScriptedChannel& from, std::uint64_t) {
         from.send(hostile_unit(1, 0xc1));
         return false;
     },
     Status::ok, true},
    {"a_credit_request_cut_short",
     [](ScriptedChannel& from, std::uint64_t) {
         from.send(hostile_unit(15, 0x81));
         return false;
     },
     Status::ok, true},
    {"an_event_report_cut_short",
     [](ScriptedChannel& from, std::uint64_t) {
         from.send(hostile_unit(36, 0x82));
         return false;
     },
     Status::ok, true},
    {"a_unit_longer_than_agreed",
     [](ScriptedChannel& from, std::uint64_t) {
         from.send(hostile_unit(8192, 0xc1));
         return false;
     },
     Status::ok, true},
    {"a_flood_of_credit_requests",
     [](ScriptedChannel& from, std::uint64_t) {
         // One may be unanswered.
         for (unsigned i = 0; i < 60; ++i) from.send_unit(srpw::CredReq{});
         return false;
     },
     Status::ok, true},
};
INSTANTIATE_TEST_SUITE_P(All, SrpHostileAnswer, ::testing::ValuesIn(hostile_cases),
                         [](const auto& each) { return each.param.name; });

TEST(SrpHostileLogin, IsRefusedInWords) {
    const auto with = [](auto change) {
        srpw::LoginRsp rsp;
        rsp.req_lim_delta = 63;
        rsp.max_it_iu_len = 8276;
        rsp.max_ti_iu_len = 1024;
        change(rsp);
        SrpBytes bytes;
        append(bytes, rsp);
        return bytes;
    };
    const SrpBytes bad[] = {
        {},
        hostile_unit(51, 0xc0),
        with([](srpw::LoginRsp& rsp) { rsp.opcode = 0xc1; }),
        with([](srpw::LoginRsp& rsp) { rsp.max_it_iu_len = 63; }),
        with([](srpw::LoginRsp& rsp) { rsp.max_ti_iu_len = 35; }),
    };
    for (const SrpBytes& login : bad) {
        ScriptedWorld world(hostile_options());
        world.target.raw_login = login;
        EXPECT_FALSE(world.connect());
        EXPECT_NE(world.error.find("not sound"), std::string::npos) << world.error;
    }
    // As large as can be said counts for what can be used.
    ScriptedWorld world(hostile_options());
    world.target.raw_login = with([](srpw::LoginRsp& rsp) {
        rsp.req_lim_delta = 0x7fffffff;
        rsp.max_it_iu_len = rsp.max_ti_iu_len = 0xffffffff;
    });
    EXPECT_TRUE(world.connect()) << world.error;
    EXPECT_EQ(world.write(), Status::ok);
}

TEST(SrpHostileLogin, RejectionsOfAnyBytesAreInWords) {
    srpw::LoginRej rejection;
    SrpBytes good;
    rejection.reason = 0x00010006;
    append(good, rejection);
    for (const SrpBytes& bytes : {SrpBytes{}, hostile_unit(31, 0xc2), hostile_unit(32, 0xc2), good}) {
        ScriptedWorld world(hostile_options());
        world.target.rejection = bytes;
        EXPECT_FALSE(world.connect());
        EXPECT_NE(world.error.find("reject"), std::string::npos) << world.error;
    }
}

// The least unit that a target may take: a direct descriptor fits, a list of them does not.
TEST(SrpScript, NoUnitIsLongerThanTheTargetTakes) {
    for (std::uint32_t most = 64; most <= 120; most += 4) {
        auto options = hostile_options();
        options.allow_ext_sg = true;
        ScriptedWorld world(options);
        world.target.login.max_it_iu_len = most;
        std::size_t longest = 0;
        world.target.script = [&](ScriptedChannel&, const SrpBytes& unit) {
            longest = std::max(longest, unit.size());
            EXPECT_TRUE(srpw::decode_cmd(unit, {}).has_value());
            return false;
        };
        ASSERT_TRUE(world.connect()) << world.error;
        ScriptIo io(world, Op::write, 8, 1024);
        EXPECT_EQ(world.run(io), Status::ok);
        EXPECT_LE(longest, most);
    }
}

}  // namespace
}  // namespace mqblk::test
