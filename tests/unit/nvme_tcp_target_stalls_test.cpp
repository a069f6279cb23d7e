// SPDX-License-Identifier: Apache-2.0
//
// Hosts that owe the target something and let it wait: bytes that drip, data that were asked for, answers not read. In
// time that the test moves.
#include "support/memory_served.h"

#include <gtest/gtest.h>

namespace mqblk::test {
namespace {

using namespace wire;
using namespace wire::nvme_tcp;
namespace io_opcode = wire::nvme::io_opcode;
using std::chrono::seconds;

class Stalls : public testing::Test {
  protected:
    Stalls() {
        EXPECT_TRUE(admin_.initialize());
        const auto connected = admin_.connect(0, served_nqn, 0xffff);
        EXPECT_TRUE(connected && nvme::status_of(*connected) == 0);
        EXPECT_TRUE(admin_.enable());
        auto link = std::make_unique<MemoryLink>(served_);
        link_ = link.get();
        io_ = std::make_unique<ScriptedHost>(std::move(link));
        EXPECT_TRUE(io_->initialize({}, 0));
        const auto joined = io_->connect(1, served_nqn, static_cast<std::uint16_t>(connected->result));
        EXPECT_TRUE(joined && nvme::status_of(*joined) == 0);
    }
    [[nodiscard]] bool closed() { return link_->line.to_host->ended; }
    /// Sends `bytes`, `step` of them every `pause`; how long it was until the target closed the connection.
    std::optional<Duration> drip(std::span<const std::byte> bytes, std::size_t step, Duration pause) {
        Duration passed{};
        for (std::size_t at = 0; at < bytes.size(); at += step) {
            EXPECT_TRUE(io_->send(bytes.subspan(at, std::min(step, bytes.size() - at))));
            served_.advance(pause);
            passed += pause;
            if (closed()) return passed;
        }
        return std::nullopt;
    }
    static nvme::Command read_one(std::uint16_t id) { return ScriptedHost::io(io_opcode::read, id, 0, 1); }

    MemoryServed served_{};
    ScriptedHost admin_{std::make_unique<MemoryLink>(served_)};
    MemoryLink* link_ = nullptr;
    std::unique_ptr<ScriptedHost> io_;
};

TEST_F(Stalls, APduThatDripsIsEnded) {
    const auto passed = drip(io_->capsule(read_one(1)), 1, seconds(29));
    ASSERT_TRUE(passed);
    EXPECT_GE(*passed, seconds(58));
    EXPECT_LE(*passed, seconds(120));
}

TEST_F(Stalls, DataOfACapsuleThatDripIsEnded) {
    const Bytes data(512, std::byte{1});
    const Bytes pdu = io_->capsule(ScriptedHost::io(io_opcode::write, 1, 0, 1, 512, true), data);
    ASSERT_TRUE(io_->send(std::span(pdu).first(72)));
    const auto passed = drip(std::span(pdu).subspan(72), 1, seconds(29));
    ASSERT_TRUE(passed);
    EXPECT_LE(*passed, seconds(120));
}

TEST_F(Stalls, APduBegunAndLeftIsEnded) {
    ASSERT_TRUE(io_->send(Bytes(5)));
    served_.advance(seconds(31));
    EXPECT_FALSE(closed());
    served_.advance(seconds(31));
    EXPECT_TRUE(closed());
}

TEST_F(Stalls, AskedForDataThatDripAreEnded) {
    ASSERT_TRUE(io_->send(io_->capsule(ScriptedHost::io(io_opcode::write, 1, 0, 128))));
    const auto asked = io_->expect<R2T>();
    ASSERT_TRUE(asked);
    // In whole PDUs, so that only the rate gives it away.
    bool ended = false;
    for (unsigned i = 0; i < 8 && !ended; ++i) {
        ASSERT_TRUE(io_->send(io_->h2c_data(1, asked->ttag, i * 4, Bytes(4), false)));
        served_.advance(seconds(29));
        ended = closed();
    }
    EXPECT_TRUE(ended);
}

TEST_F(Stalls, AnswersThatAreNotReadAreEnded) {
    link_->line.target_end->send_limit = [] { return std::size_t{0}; };
    ASSERT_TRUE(io_->send(io_->capsule(read_one(1))));
    served_.advance(seconds(31));
    served_.advance(seconds(31));
    EXPECT_TRUE(closed());
}

TEST_F(Stalls, ASlowHostThatKeepsGoingIsServed) {
    // A command in three pieces with pauses, again and again; and long silence in between.
    for (std::uint16_t id = 1; id < 20; ++id) {
        const Bytes pdu = io_->capsule(read_one(id));
        EXPECT_FALSE(drip(pdu, 24, seconds(19)));
        ASSERT_TRUE(io_->receive()) << id;
        served_.advance(seconds(id % 4 == 0 ? 60 : 1));
        ASSERT_FALSE(closed()) << id;
    }
    // One small write after another: something is owed whenever one looks, but never the same.
    for (std::uint16_t id = 20; id < 30; ++id) {
        const auto command = ScriptedHost::io(io_opcode::write, id, 0, 1);
        ASSERT_TRUE(io_->send(io_->capsule(command)));
        const auto asked = io_->expect<R2T>();
        ASSERT_TRUE(asked);
        served_.advance(seconds(20));
        ASSERT_TRUE(io_->send(io_->h2c_data(id, asked->ttag, 0, Bytes(512), true)));
        ASSERT_TRUE(io_->receive());
    }
    EXPECT_FALSE(closed());
}

// Some progress all the time, but none of the transfers is ever whole.
TEST_F(Stalls, AskedForDataHaveADeadlineAsAWhole) {
    ASSERT_TRUE(io_->send(io_->capsule(ScriptedHost::io(io_opcode::write, 1, 0, 2048))));
    const auto asked = io_->expect<R2T>();
    ASSERT_TRUE(asked);
    std::uint32_t sent = 0;
    Duration passed{};
    while (!closed() && sent + 8192 < asked->r2tl) {
        ASSERT_TRUE(io_->send(io_->h2c_data(1, asked->ttag, sent, Bytes(8192), false)));
        sent += 8192;
        served_.advance(seconds(5));
        passed += seconds(5);
    }
    EXPECT_TRUE(closed());
    EXPECT_LE(passed, seconds(75));
}

TEST_F(Stalls, AnswersThatAreReadInDripsAreEnded) {
    std::size_t budget = 0;
    link_->line.target_end->send_limit = [&budget] { return std::exchange(budget, 0); };
    ASSERT_TRUE(io_->send(io_->capsule(ScriptedHost::io(io_opcode::read, 1, 0, 2048))));
    Duration passed{};
    while (!closed() && passed < seconds(200)) {
        budget = 8192;
        served_.advance(seconds(5));
        passed += seconds(5);
    }
    EXPECT_TRUE(closed());
    EXPECT_LE(passed, seconds(75));
}

/// A disk that lends no memory for writes, so that each needs a buffer.
std::shared_ptr<Device> buffered_disk(Duration latency = {}, unsigned depth = 128) {
    driver::null::Options options;
    options.bytes = 64u << 20;
    options.latency = latency;
    options.disk.depth = depth;
    options.disk.queues = 1;
    return must(driver::null::open(options));
}

/// A host with an admin and an I/O queue over memory.
struct TwoQueues {
    TwoQueues(MemoryServed& served, const std::string& host_nqn, std::uint16_t entries = 127)
        : admin(std::make_unique<MemoryLink>(served)) {
        auto own = std::make_unique<MemoryLink>(served);
        link = own.get();
        io = std::make_unique<ScriptedHost>(std::move(own));
        admin.host_nqn = io->host_nqn = host_nqn;
        EXPECT_TRUE(admin.initialize());
        const auto connected = admin.connect(0, served_nqn, 0xffff);
        EXPECT_TRUE(connected && nvme::status_of(*connected) == 0);
        EXPECT_TRUE(admin.enable());
        EXPECT_TRUE(io->initialize());
        const auto joined = io->connect(1, served_nqn, static_cast<std::uint16_t>(connected->result), entries);
        EXPECT_TRUE(joined && nvme::status_of(*joined) == 0);
    }
    ScriptedHost admin;
    MemoryLink* link = nullptr;
    std::unique_ptr<ScriptedHost> io;
};

TEST(Shared, OneHostLeavesBuffersForOthers) {
    ServedOptions options;
    options.device = buffered_disk();
    options.tcp.buffer_bytes = 16u << 20;
    MemoryServed served(options);
    TwoQueues hog(served, "nqn.2026-01.org.example:hog"), other(served, "nqn.2026-01.org.example:other");
    for (std::uint16_t id = 1; id <= 100; ++id) {
        ASSERT_TRUE(hog.io->send(hog.io->capsule(ScriptedHost::io(io_opcode::write, id, 0, 2048))));
    }
    served.advance({});
    std::size_t granted = 0;
    while (hog.link->line.to_host->waiting() > 0) granted += hog.io->expect<R2T>() ? 1 : 0;
    EXPECT_GE(granted, 4u);
    EXPECT_LE(granted, 8u) << "of 12 MiB, half";
    ASSERT_TRUE(other.io->send(other.io->capsule(ScriptedHost::io(io_opcode::write, 1, 0, 2048))));
    const auto asked = other.io->expect<R2T>();
    ASSERT_TRUE(asked) << "while the first host sends nothing";
    ASSERT_TRUE(other.io->send(other.io->h2c_data(1, asked->ttag, 0, Bytes(asked->r2tl), true)));
    const auto answer = other.io->expect<CapsuleResp>();
    ASSERT_TRUE(answer);
    EXPECT_EQ(nvme::status_of(answer->completion), 0u);
}

TEST(Shared, CommandsOfAHostThatLeftDoNotWaitForTheirTurn) {
    ServedOptions options;
    options.device = buffered_disk(seconds(10), 1);
    MemoryServed served(options);
    auto host = std::make_unique<TwoQueues>(served, "nqn.2026-01.org.example:one");
    const Bytes data(512);
    for (std::uint16_t id = 1; id <= 100; ++id) {
        const auto command = ScriptedHost::io(io_opcode::write, id, id * 64, 1, 512, true);
        ASSERT_TRUE(host->io->send(host->io->capsule(command, data)));
    }
    served.advance({});
    host.reset();
    served.advance({});
    EXPECT_EQ(served.tcp->connections(), 1u) << "one command is in the backend";
    served.advance(seconds(11));
    EXPECT_EQ(served.tcp->connections(), 0u) << "not a thousand seconds";
}

// The same while the host is there and the target goes: what is in the backend has its time, the rest does not.
TEST(Shared, ShutdownDoesNotWaitForTurns) {
    ServedOptions options;
    options.device = buffered_disk(seconds(10), 1);
    MemoryServed served(options);
    TwoQueues host(served, "nqn.2026-01.org.example:one");
    const Bytes data(512);
    for (std::uint16_t id = 1; id <= 100; ++id) {
        const auto command = ScriptedHost::io(io_opcode::write, id, id * 64, 1, 512, true);
        ASSERT_TRUE(host.io->send(host.io->capsule(command, data)));
    }
    served.advance({});
    bool done = false;
    served.tcp->shutdown([&done] { done = true; });
    for (int i = 0; i < 6 && !done; ++i) served.advance(seconds(4));
    EXPECT_TRUE(done);
    while (!done) served.advance(seconds(10));
}

}  // namespace
}  // namespace mqblk::test
