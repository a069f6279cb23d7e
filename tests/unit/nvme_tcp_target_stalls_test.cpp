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

}  // namespace
}  // namespace mqblk::test
