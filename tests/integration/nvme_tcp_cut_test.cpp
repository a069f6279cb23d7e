// SPDX-License-Identifier: Apache-2.0
//
// The connection is cut at every byte of the answer to a 64 KiB read, and of a 64 KiB write: nothing stays in flight,
// nothing leaks, and the queue can be had again at once. With digests (data in buffers) and without (memory lent).
#include "support/memory_served.h"

#include <gtest/gtest.h>

namespace mqblk::test {
namespace {

using namespace wire;
using namespace wire::nvme_tcp;
namespace io_opcode = wire::nvme::io_opcode;

constexpr std::uint32_t cut_transfer_bytes = 65536;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t stride = 37;  // dozens of times slower: a sample, with all that lies near PDU boundaries
#else
constexpr std::size_t stride = 1;
#endif

class CutTest : public testing::Test {
  protected:
    CutTest() : admin_(std::make_unique<MemoryLink>(served_)) {
        EXPECT_TRUE(admin_.initialize());
        const auto connected = admin_.connect(0, served_nqn, 0xffff);
        EXPECT_TRUE(connected && nvme::status_of(*connected) == 0);
        controller_ = connected ? static_cast<std::uint16_t>(connected->result) : 0;
        EXPECT_TRUE(admin_.enable());
    }
    static ServedOptions options() {
        ServedOptions result;
        result.target.max_transfer_bytes = 1u << 20;
        result.tcp.buffer_bytes = 2u << 20;
        return result;
    }
    struct Queue {
        MemoryLink* link;
        std::unique_ptr<ScriptedHost> host;
    };
    Queue connect(Digests digests) {
        auto link = std::make_unique<MemoryLink>(served_);
        MemoryLink* const raw = link.get();
        auto host = std::make_unique<ScriptedHost>(std::move(link));
        const bool initialized = host->initialize(digests);
        const auto joined = host->connect(1, served_nqn, controller_);
        EXPECT_TRUE(initialized && joined && nvme::status_of(*joined) == 0);
        return {raw, std::move(host)};
    }
    /// All that is left is the admin queue.
    [[nodiscard]] bool settled() {
        return served_.pump_until([this] { return served_.tcp->connections() == 1; });
    }
    /// Two transfers of the largest size at once need all the buffers there are.
    void expect_all_buffers_free() {
        auto queue = connect({true, true});
        for (std::uint16_t id = 0; id < 4; ++id) {
            ASSERT_TRUE(
                queue.host->send(queue.host->capsule(ScriptedHost::io(io_opcode::read, id, 0, (1u << 20) / 512))));
        }
        for (int i = 0; i < 8; ++i) ASSERT_TRUE(queue.host->receive()) << "two PDUs for each read";
    }
    static bool interesting(std::size_t cut, std::size_t total) {
        return cut % stride == 0 || cut < 200 || total - cut < 200;
    }

    MemoryServed served_{options()};
    ScriptedHost admin_;
    std::uint16_t controller_ = 0;
};

TEST_F(CutTest, ReadAnswer) {
    for (const Digests digests : {Digests{false, false}, Digests{true, true}}) {
        const std::size_t total = 24 + cut_transfer_bytes + (digests.header ? 4 : 0) + (digests.data ? 4 : 0);
        for (std::size_t cut = 0; cut <= total; ++cut) {
            if (!interesting(cut, total)) continue;
            auto queue = connect(digests);
            std::size_t left = cut;
            queue.link->line.target_end->send_limit = [&left] { return std::exchange(left, 0); };
            const std::size_t before = queue.link->line.to_host->bytes.size();
            ASSERT_TRUE(queue.host->send(
                queue.host->capsule(ScriptedHost::io(io_opcode::read, 1, 0, cut_transfer_bytes / 512))));
            ASSERT_TRUE(served_.pump_until([&] { return queue.link->line.to_host->bytes.size() == before + cut; }));
            served_.pump();
            queue.host.reset();
            ASSERT_TRUE(settled()) << "cut after " << cut << " bytes";
        }
    }
    expect_all_buffers_free();
}

TEST_F(CutTest, WriteData) {
    const Bytes data(cut_transfer_bytes, std::byte{0x5a});
    for (const Digests digests : {Digests{false, false}, Digests{true, true}}) {
        const std::size_t total = 24 + cut_transfer_bytes + (digests.header ? 4 : 0) + (digests.data ? 4 : 0);
        for (std::size_t cut = 0; cut <= total; ++cut) {
            if (!interesting(cut, total)) continue;
            auto queue = connect(digests);
            ASSERT_TRUE(queue.host->send(
                queue.host->capsule(ScriptedHost::io(io_opcode::write, 1, 0, cut_transfer_bytes / 512))));
            const auto r2t = queue.host->expect<R2T>();
            ASSERT_TRUE(r2t);
            const Bytes pdu = queue.host->h2c_data(1, r2t->ttag, 0, data, true);
            ASSERT_EQ(pdu.size(), total);
            ASSERT_TRUE(queue.host->send(std::span(pdu).first(cut)));
            if (cut % 2 != 0) served_.pump();
            queue.host.reset();
            ASSERT_TRUE(settled()) << "cut after " << cut << " bytes";
        }
    }
    expect_all_buffers_free();
}

// Also while it waits for a buffer, and in the capsule that carries its data.
TEST_F(CutTest, WaitingAndInCapsule) {
    const Bytes data(4096, std::byte{0x5a});
    for (std::size_t cut = 0; cut <= 72 + 8 + 4096; ++cut) {
        auto queue = connect({true, true});
        for (std::uint16_t id = 0; id < 5; ++id) {
            ASSERT_TRUE(queue.host->send(
                queue.host->capsule(ScriptedHost::io(id % 2 != 0 ? io_opcode::write : io_opcode::read, id, 0, 2048))));
        }
        queue.link->line.target_end->send_limit = [] { return std::size_t{0}; };
        const Bytes pdu = queue.host->capsule(ScriptedHost::io(io_opcode::write, 9, 0, 8, 512, true), data);
        ASSERT_TRUE(queue.host->send(std::span(pdu).first(std::min(cut, pdu.size()))));
        served_.pump();
        if (cut % 3 == 0) served_.pump();
        queue.host.reset();
        ASSERT_TRUE(settled()) << "cut after " << cut << " bytes";
    }
    expect_all_buffers_free();
}

}  // namespace
}  // namespace mqblk::test
