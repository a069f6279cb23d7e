// SPDX-License-Identifier: Apache-2.0
//
// How commands end that are not carried out: by the target's shutdown, and by Abort.
#include "support/tcp_session.h"

#include <gtest/gtest.h>

#include <thread>

namespace mqblk::test {
namespace {

using namespace wire;
using namespace wire::nvme_tcp;
namespace io_opcode = wire::nvme::io_opcode;

std::shared_ptr<Device> slow_disk(Duration latency) {
    driver::null::Options disk;
    disk.bytes = 1u << 30;
    disk.latency = latency;
    return must(driver::null::open(disk));
}

TEST(NvmeTcpEnd, ShutdownAnswersWhatIsInTheBackend) {
    for (const unsigned threads : {1u, 2u}) {
        ServedOptions options;
        options.device = slow_disk(std::chrono::milliseconds(300));
        options.threads = threads;  // two: the admin queue's end must not take the other thread's queue along
        Served served(options);
        Session session(served, {true, true});  // nothing is lent
        for (std::uint16_t id = 0; id < 16; ++id)
            ASSERT_TRUE(session.io->send(session.io->capsule(ScriptedHost::io(io_opcode::read, id, 0, 8))));
        // Its data will not come: given up, and no answer.
        session.write(100);
        // On their way when their place is given up.
        const R2T half = session.write(101);
        const Bytes pdu = session.io->h2c_data(101, half.ttag, 0, Bytes(transfer_bytes), true);
        ASSERT_TRUE(session.io->send(std::span(pdu).first(pdu.size() / 2)));
        std::thread closing([&] { served.shut_down(); });
        unsigned answers = 0;
        for (; answers < 16; ++answers) {
            const auto data = session.io->expect<C2HData>();
            if (!data) break;
        }
        EXPECT_EQ(answers, 16u);
        session.io->send(std::span(pdu).subspan(pdu.size() / 2));  // who cares
        std::size_t dropped = 0;
        EXPECT_TRUE(session.io->link().ended(dropped));
        session.io.reset();
        closing.join();
    }
}

TEST(NvmeTcpEnd, ShutdownDoesNotWaitForHostsThatDoNotRead) {
    ServedOptions options;
    options.device = slow_disk({});
    Served served(options);
    Session session(served, {true, true});
    for (std::uint16_t id = 0; id < 100; ++id)  // more than the sockets hold
        ASSERT_TRUE(session.io->send(session.io->capsule(ScriptedHost::io(io_opcode::read, id, 0, 2048))));
    served.shut_down();
    EXPECT_EQ(served.tcp->connections(), 0u);
}

// With one buffer there is room for one command's data; the next waits for it, until it is aborted.
TEST(NvmeTcpEnd, AbortOfACommandThatWaitsForABuffer) {
    for (const unsigned threads : {1u, 2u}) {
        ServedOptions options;
        options.device = slow_disk(std::chrono::milliseconds(500));
        options.target.max_transfer_bytes = 1u << 20;
        options.tcp.buffer_bytes = 1u << 20;
        options.threads = threads;
        Served served(options);
        Session session(served, {true, true});
        const auto abort = [&](std::uint16_t id) {
            nvme::Command command;
            command.opcode = nvme::admin_opcode::abort;
            command.flags = nvme::flag_psdt_sgl;
            command.command_id = 0x999;
            command.cdw10 = 1u | std::uint32_t{id} << 16;
            EXPECT_TRUE(session.admin->send(session.admin->capsule(command)));
            const auto answer = session.admin->expect<CapsuleResp>();
            EXPECT_TRUE(answer && nvme::status_of(answer->completion) == 0);
            return answer ? answer->completion.result.value() : ~0ull;
        };
        for (std::uint16_t id = 1; id <= 3; ++id)
            ASSERT_TRUE(session.io->send(session.io->capsule(ScriptedHost::io(io_opcode::read, id, 0, 2048))));
        while (abort(2) != 0) {
        }  // until it has arrived and waits
        const auto aborted = session.io->expect<CapsuleResp>();
        ASSERT_TRUE(aborted);
        EXPECT_EQ(aborted->completion.command_id, 2);
        EXPECT_EQ(nvme::status_of(aborted->completion), nvme::status::aborted_by_request);
        EXPECT_EQ(abort(1), 1u) << "the disk has it";
        EXPECT_EQ(abort(2), 1u) << "it is gone";
        for (const std::uint16_t id : {std::uint16_t{1}, std::uint16_t{3}}) {
            for (int half = 0; half < 2; ++half) {
                const auto data = session.io->expect<C2HData>();
                ASSERT_TRUE(data);
                EXPECT_EQ(data->cccid, id);
            }
        }
    }
}

}  // namespace
}  // namespace mqblk::test
