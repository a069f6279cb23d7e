// SPDX-License-Identifier: Apache-2.0
//
// A target that lies, over a real socket. Whatever it says, the host closes that connection, tries again a bounded
// number of times, and the I/O ends with an error; a target that then tells the truth is used as if nothing had been.
#include "host_support.h"
#include "scripted_target.h"

#include "wire/nvme_logs.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <mutex>

namespace mqblk::test {
namespace {

namespace tcp = wire::nvme_tcp;
namespace nvme = wire::nvme;
using namespace std::chrono_literals;
using Wire = ScriptedTarget::Wire;

/// How a target lies about one I/O command.
struct Lie {
    const char* name;
    Op op;
    std::size_t bytes;
    std::function<void(Wire&, const nvme::Command&)> tell;
};

std::vector<std::byte> zeroes(std::size_t count) {
    return std::vector<std::byte>(count);
}

/// A C2HData header for `command` whose fields a lie then spoils.
tcp::C2HData c2h(const nvme::Command& command, std::uint32_t bytes) {
    tcp::C2HData pdu;
    pdu.ch.type = static_cast<std::uint8_t>(tcp::PduType::c2h_data);
    pdu.ch.flags = tcp::flag_last;
    pdu.ch.hlen = sizeof(pdu);
    pdu.ch.pdo = sizeof(pdu);
    pdu.ch.plen = static_cast<std::uint32_t>(sizeof(pdu)) + bytes;
    pdu.cccid = command.command_id;
    pdu.datal = bytes;
    return pdu;
}

void send_c2h(Wire& wire, const tcp::C2HData& pdu, std::size_t data_bytes) {
    wire.send(&pdu, sizeof(pdu));
    const auto data = zeroes(data_bytes);
    wire.send(data.data(), data.size());
}

std::vector<Lie> lies() {
    const auto id = [](const nvme::Command& c) { return c.command_id.value(); };
    return {
        {"response_to_unknown_command", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) { w.respond(static_cast<std::uint16_t>(id(c) ^ 5)); }},
        {"response_of_stale_generation", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) { w.respond(static_cast<std::uint16_t>(id(c) + 0x1000)); }},
        {"response_to_tag_out_of_range", Op::read, 4096, [](Wire& w, const nvme::Command&) { w.respond(0xfff); }},
        {"success_without_data", Op::read, 4096, [=](Wire& w, const nvme::Command& c) { w.respond(id(c)); }},
        {"success_after_half_the_data", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) {
             w.data(id(c), 0, zeroes(2048), tcp::flag_last);
             w.respond(id(c));
         }},
        {"data_beyond_the_end", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) { w.data(id(c), 0, zeroes(8192), tcp::flag_last); }},
        {"data_at_offset_beyond_the_end", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) { w.data(id(c), 4096, zeroes(512), 0); }},
        {"data_at_the_last_offset_there_is", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) { w.data(id(c), 0xfffffe00, zeroes(512), 0); }},
        {"second_half_first", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) { w.data(id(c), 2048, zeroes(2048), 0); }},
        {"overlap_by_a_byte", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) {
             w.data(id(c), 0, zeroes(2048), 0);
             w.data(id(c), 2047, zeroes(2049), tcp::flag_last);
         }},
        {"data_after_last", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) {
             w.data(id(c), 0, zeroes(2048), tcp::flag_last);
             w.data(id(c), 2048, zeroes(2048), tcp::flag_last);
         }},
        {"success_flag_before_the_end", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) { w.data(id(c), 0, zeroes(2048), tcp::flag_last | tcp::flag_success); }},
        {"success_flag_without_last", Op::read, 4096,
         [=](Wire& w, const nvme::Command& c) { w.data(id(c), 0, zeroes(4096), tcp::flag_success); }},
        {"datal_differs_from_plen", Op::read, 4096,
         [](Wire& w, const nvme::Command& c) {
             auto pdu = c2h(c, 4096);
             pdu.datal = 4095;
             send_c2h(w, pdu, 4096);
         }},
        {"no_data_in_a_data_pdu", Op::read, 4096, [](Wire& w, const nvme::Command& c) { send_c2h(w, c2h(c, 0), 0); }},
        {"plen_of_four_gigabytes", Op::read, 4096,
         [](Wire& w, const nvme::Command& c) {
             auto pdu = c2h(c, 4096);
             pdu.ch.plen = 0xffffffff;
             pdu.datal = 0xffffffff - 24;
             send_c2h(w, pdu, 4096);
         }},
        {"plen_zero", Op::read, 4096,
         [](Wire& w, const nvme::Command& c) {
             auto pdu = c2h(c, 4096);
             pdu.ch.plen = 0;
             send_c2h(w, pdu, 4096);
         }},
        {"data_for_a_write", Op::write, 4096,
         [=](Wire& w, const nvme::Command& c) { w.data(id(c), 0, zeroes(4096), tcp::flag_last); }},
        {"data_for_a_flush", Op::flush, 0,
         [=](Wire& w, const nvme::Command& c) { w.data(id(c), 0, zeroes(512), tcp::flag_last); }},
        {"r2t_for_a_read", Op::read, 4096, [=](Wire& w, const nvme::Command& c) { w.ready(id(c), 1, 0, 4096); }},
        {"r2t_for_in_capsule_data", Op::write, 4096,
         [=](Wire& w, const nvme::Command& c) { w.ready(id(c), 1, 0, 4096); }},
        {"r2t_for_unknown_command", Op::write, 65536,
         [=](Wire& w, const nvme::Command& c) { w.ready(static_cast<std::uint16_t>(id(c) ^ 3), 1, 0, 512); }},
        {"r2t_of_zero_bytes", Op::write, 65536, [=](Wire& w, const nvme::Command& c) { w.ready(id(c), 1, 0, 0); }},
        {"r2t_beyond_the_data", Op::write, 65536,
         [=](Wire& w, const nvme::Command& c) { w.ready(id(c), 1, 0, 65537); }},
        {"r2t_of_four_gigabytes", Op::write, 65536,
         [=](Wire& w, const nvme::Command& c) { w.ready(id(c), 1, 0, 0xffffffff); }},
        {"r2t_beginning_later", Op::write, 65536,
         [=](Wire& w, const nvme::Command& c) { w.ready(id(c), 1, 512, 512); }},
        {"r2t_repeated", Op::write, 65536,
         [=](Wire& w, const nvme::Command& c) {
             w.ready(id(c), 1, 0, 4096);
             w.ready(id(c), 1, 0, 4096);
         }},
        {"success_without_asking_for_the_data", Op::write, 65536,
         [=](Wire& w, const nvme::Command& c) { w.respond(id(c)); }},
        {"second_ic_resp", Op::read, 4096,
         [](Wire& w, const nvme::Command&) {
             tcp::IcResp pdu;
             pdu.ch.type = static_cast<std::uint8_t>(tcp::PduType::ic_resp);
             pdu.ch.hlen = sizeof(pdu);
             pdu.ch.plen = sizeof(pdu);
             pdu.maxh2cdata = 8192;
             w.send(&pdu, sizeof(pdu));
         }},
        {"termination", Op::read, 4096,
         [](Wire& w, const nvme::Command&) {
             tcp::TermReq pdu;
             pdu.ch.type = static_cast<std::uint8_t>(tcp::PduType::c2h_term_req);
             pdu.ch.hlen = sizeof(pdu);
             pdu.ch.plen = sizeof(pdu) + 8;
             pdu.fes = 2;
             w.send(&pdu, sizeof(pdu));
             w.send(zeroes(8).data(), 8);
         }},
    };
}

class HostileTarget : public testing::TestWithParam<Lie> {};

// Every lie costs a connection each time it is told; after the bounded number of retries the I/O fails. Then the target
// tells the truth and the same channel works.
TEST_P(HostileTarget, CostsItsConnectionAndEndsTheIo) {
    const Lie& lie = GetParam();
    std::atomic<bool> lying{true};
    std::atomic<unsigned> told{0}, not_closed{0};
    ScriptedTarget target({.command = [&](Wire& wire, const nvme::Command& command, auto) {
        if (wire.queue_id == 0 || command.opcode == nvme::admin_opcode::fabrics || !lying) return false;
        ++told;
        lie.tell(wire, command);
        if (!wire.await_close()) ++not_closed;
        return true;
    }});
    HostSide host;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, quick_options());
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const OpenNamespace ns(**controller);
        std::vector<std::byte> memory(lie.bytes + 64, std::byte{0x5a});
        const Status status = run_bio(*ns.channel, lie.op, 0, std::span(memory).first(lie.bytes));
        EXPECT_NE(status, Status::ok);
        EXPECT_EQ(not_closed, 0u);
        EXPECT_GE(told, 2u) << "it was not tried again";
        EXPECT_LE(told, 8u) << "it was tried without bound";
        for (std::size_t i = lie.bytes; i < memory.size(); ++i) {
            ASSERT_EQ(memory[i], std::byte{0x5a}) << "written beyond the buffer at " << i;
        }

        lying = false;
        std::vector<std::byte> block(4096);
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 8, block), Status::ok);
        EXPECT_EQ(std::memcmp(block.data(), target.memory().data() + 4096, block.size()), 0);
    }
    host.shut_down(**controller);
}

INSTANTIATE_TEST_SUITE_P(Lies, HostileTarget, testing::ValuesIn(lies()),
                         [](const auto& of) { return std::string(of.param.name); });

// Before anything else: an independent target that tells the truth is understood.
TEST(HostileTarget, HonestTargetWorks) {
    ScriptedTarget target({});
    HostSide host;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, quick_options());
    ASSERT_TRUE(controller) << controller.error().message();
    EXPECT_EQ((*controller)->namespaces(), std::vector<std::uint32_t>{1});
    {
        const OpenNamespace ns(**controller);
        EXPECT_EQ(ns.device->sectors(), ScriptedTarget::blocks);
        EXPECT_EQ(ns.device->limits().max_sectors, 256u);
        std::vector<std::byte> written(300 * 1024), read(300 * 1024);
        for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 31 + i / 999);
        EXPECT_EQ(run_bio(*ns.channel, Op::write, 16, written), Status::ok);
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 16, read), Status::ok);
        EXPECT_TRUE(written == read);
        EXPECT_EQ(run_bio(*ns.channel, Op::flush, 0, {}), Status::ok);
    }
    const auto wrong = (*controller)->device(2);
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().message().find("it has 1"), std::string::npos) << wrong.error().message();
    host.shut_down(**controller);
}

// A target that has not yet seen that a queue's last connection is closed refuses its next one: Linux's does, with
// "qid 1 has already been created". That passes in a moment, and is no reason to wait as if the target were gone.
TEST(HostileTarget, QueueStillTakenIsTriedAgainAtOnce) {
    std::atomic<unsigned> refused{0};
    ScriptedTarget target({.command = [&](Wire& wire, const nvme::Command& command, auto) {
        if (command.opcode != nvme::admin_opcode::fabrics) return false;
        const auto connect = std::bit_cast<nvme::ConnectCommand>(command);
        if (connect.type != nvme::fabrics_type::connect || connect.queue_id == 0 || refused == 3) return false;
        ++refused;
        wire.respond(command.command_id, nvme::status::command_sequence_error | nvme::status::do_not_retry);
        return true;
    }});
    HostSide host;
    auto options = quick_options();
    options.reconnect_delay = 1h;
    options.ctrl_loss_tmo = 2h;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, options);
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const OpenNamespace ns(**controller);
        std::vector<std::byte> block(4096);
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 8, block), Status::ok);
    }
    host.shut_down(**controller);
    EXPECT_EQ(refused, 3u);
}

// A second response to a command that has ended.
TEST(HostileTarget, DuplicateResponseCostsTheConnection) {
    std::atomic<unsigned> closed{0};
    std::atomic<bool> lying{true};
    ScriptedTarget target({.command = [&](Wire& wire, const nvme::Command& command, auto) {
        if (wire.queue_id == 0 || command.opcode != nvme::io_opcode::flush || !lying) return false;
        wire.respond(command.command_id);
        wire.respond(command.command_id);
        closed += wire.await_close();
        return true;
    }});
    HostSide host;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, quick_options());
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const OpenNamespace ns(**controller);
        EXPECT_EQ(run_bio(*ns.channel, Op::flush, 0, {}), Status::ok);
        lying = false;
        std::vector<std::byte> block(4096);
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 8, block), Status::ok);
        EXPECT_EQ(std::memcmp(block.data(), target.memory().data() + 4096, block.size()), 0);
    }
    host.shut_down(**controller);
    EXPECT_EQ(closed, 1u);
}

// Lengths and offsets across 0 to 255 for each type of PDU, by a stride: no crash, and the I/O ends. Every pair of them
// test takes the table of them.
class HostileHeader : public testing::TestWithParam<int> {};
TEST_P(HostileHeader, EveryLengthAndOffset) {
    const auto type = static_cast<std::uint8_t>(GetParam());
    std::atomic<unsigned> variant{0}, not_closed{0};
    ScriptedTarget target({.command = [&](Wire& wire, const nvme::Command& command, auto) {
        if (wire.queue_id == 0 || command.opcode != nvme::io_opcode::read) return false;
        const unsigned now = variant++;
        tcp::CommonHeader header;
        header.type = type;
        header.hlen = static_cast<std::uint8_t>(now * 5);
        header.pdo = static_cast<std::uint8_t>(255 - now * 3);
        header.plen = now % 3 == 0 ? 0xffffffff : now % 3 == 1 ? now : 4096 + 24;
        wire.raw(header, zeroes(8192));
        if (!wire.await_close()) ++not_closed;
        return true;
    }});
    HostSide host;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, quick_options());
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const OpenNamespace ns(**controller);
        std::vector<std::byte> memory(4096);
        for (int i = 0; i < 9; ++i) EXPECT_NE(run_bio(*ns.channel, Op::read, 0, memory), Status::ok);
    }
    host.shut_down(**controller);
    EXPECT_EQ(not_closed, 0u);
    EXPECT_GE(variant, 18u);
}
INSTANTIATE_TEST_SUITE_P(Types, HostileHeader, testing::Values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255));

TEST(HostileTarget, SmallestKeepAliveMakesNoFlood) {
    std::atomic<unsigned> keep_alives{0};
    ScriptedTarget target({.command = [&](Wire&, const nvme::Command& command, auto) {
        if (command.opcode == nvme::admin_opcode::keep_alive) ++keep_alives;
        return false;
    }});
    HostSide host;
    auto options = quick_options();
    options.keep_alive = 1ms;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, options);
    ASSERT_TRUE(controller) << controller.error().message();
    const auto before = std::chrono::steady_clock::now();
    while (keep_alives < 3 && std::chrono::steady_clock::now() - before < 60s) std::this_thread::sleep_for(10ms);
    const unsigned sent = keep_alives;
    const auto elapsed = std::chrono::steady_clock::now() - before;
    EXPECT_GE(sent, 3u);
    EXPECT_LE(sent, elapsed / 100ms + 2);
    host.shut_down(**controller);
}

// Events without end: each is answered, none sooner than the host cares to ask.
TEST(HostileTarget, EventsMakeNoFlood) {
    std::atomic<unsigned> events{0};
    ScriptedTarget target(
        {.command =
             [&](Wire& wire, const nvme::Command& command, auto) {
                 if (wire.queue_id != 0 || command.opcode != nvme::admin_opcode::async_event_request) {
                     return false;
                 }
                 ++events;
                 wire.respond(command.command_id, 0,
                              nvme::event_result(nvme::event_type::notice, nvme::notice::firmware, 3));
                 return true;
             },
         .controller = [](auto& c) { c.oaes = nvme::oaes::namespace_attributes; }});
    HostSide host;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, quick_options());
    ASSERT_TRUE(controller) << controller.error().message();
    const auto before = std::chrono::steady_clock::now();
    while (events < 5 && std::chrono::steady_clock::now() - before < 60s) std::this_thread::sleep_for(10ms);
    const auto elapsed = std::chrono::steady_clock::now() - before;
    const unsigned sent = events;
    EXPECT_GE(sent, 5u);
    EXPECT_LE(sent, elapsed / 10ms + 6);
    host.shut_down(**controller);
}

// A command that is never answered: Abort, then reset, then an error, all within twice the time-out and a little.
TEST(HostileTarget, SilenceEndsTheCommand) {
    std::atomic<unsigned> aborts{0};
    ScriptedTarget target({.command = [&](Wire& wire, const nvme::Command& command, auto) {
        if (wire.queue_id == 0 && command.opcode == nvme::admin_opcode::abort) {
            ++aborts;
            return false;
        }
        return wire.queue_id != 0 && command.opcode == nvme::io_opcode::read;
    }});
    HostSide host;
    auto options = quick_options();
    options.io_timeout = 200ms;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, options);
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const OpenNamespace ns(**controller);
        std::vector<std::byte> memory(4096);
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 0, memory), Status::timed_out);
        EXPECT_EQ(aborts, 1u);
        EXPECT_EQ(run_bio(*ns.channel, Op::flush, 0, {}), Status::ok);
    }
    host.shut_down(**controller);
}

// A controller that asks for time before a command is sent again (CRD) gets it, if it has said how much (CRDT).
TEST(HostileTarget, RetryDelaysAreKept) {
    constexpr std::uint16_t hundreds_of_ms = 4;
    std::atomic<bool> enabled{false};
    std::mutex mutex;
    std::vector<std::chrono::steady_clock::time_point> reads;
    ScriptedTarget target({.command =
                               [&](Wire& wire, const nvme::Command& command, std::span<const std::byte> data) {
                                   if (wire.queue_id == 0) {
                                       const bool behavior = command.opcode == nvme::admin_opcode::set_features &&
                                                             (command.cdw10 & 0xff) == nvme::feature_id::host_behavior;
                                       if (!behavior) return false;
                                       enabled = data.size() == 512 && data[0] == std::byte{1};
                                       wire.respond(command.command_id);
                                       return true;
                                   }
                                   if (command.opcode != nvme::io_opcode::read) return false;
                                   const std::scoped_lock lock(mutex);
                                   reads.push_back(std::chrono::steady_clock::now());
                                   if (reads.size() > 1) return false;
                                   wire.respond(command.command_id, nvme::status::namespace_not_ready | 2u << 11);
                                   return true;
                               },
                           .controller = [](nvme::IdentifyController& page) { page.crdt2 = hundreds_of_ms; }});
    HostSide host;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, quick_options());
    ASSERT_TRUE(controller) << controller.error().message();
    EXPECT_TRUE(enabled);
    {
        const OpenNamespace ns(**controller);
        std::vector<std::byte> memory(4096);
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 0, memory), Status::ok);
    }
    ASSERT_EQ(reads.size(), 2u);
    EXPECT_GE(reads[1] - reads[0], std::chrono::milliseconds(100) * hundreds_of_ms);
    host.shut_down(**controller);
}

// Gone for good: what waits fails when the loss time is over.
TEST(HostileTarget, LossTimeBoundsEverything) {
    auto target = std::make_unique<ScriptedTarget>(ScriptedTarget::Script{});
    HostSide host;
    auto options = quick_options();
    options.ctrl_loss_tmo = 300ms;
    const auto controller = host.connect(target->port(), ScriptedTarget::nqn, options);
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const OpenNamespace ns(**controller);
        std::vector<std::byte> memory(4096);
        ASSERT_EQ(run_bio(*ns.channel, Op::read, 0, memory), Status::ok);
        target.reset();
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 0, memory), Status::transport);
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 0, memory), Status::transport);
        EXPECT_EQ((*controller)->state(), driver::nvme::ControllerState::dead);
    }
    host.shut_down(**controller);
}

}  // namespace
}  // namespace mqblk::test
