// SPDX-License-Identifier: Apache-2.0
//
// The SRP initiator's one channel when several threads share it, and its connections end under them.
#include "driver/srp/srp.h"
#include "support/srp_scripted_target.h"
#include "unit/reactor_support.h"

#include <atomic>
#include <thread>

namespace mqblk::test {
namespace {

/// Writes of one thread, each again as soon as it has ended.
struct SharedWriter {
    static constexpr unsigned depth = 4, writes = 200;
    struct Slot {
        SharedWriter* owner = nullptr;
        Bio bio;
        Segment segment{};
        memory::Buffer memory = *memory::Buffer::allocate(4096);
    };
    std::unique_ptr<Channel> channel;
    std::array<Slot, depth> slots;
    unsigned begun = 0, good = 0, ended = 0;

    void begin(Slot& slot) {
        if (begun == writes) return;
        ++begun;
        slot.bio = {};
        slot.bio.op = Op::write;
        slot.bio.sectors = 8;
        slot.segment = {slot.memory.data(), 4096};
        slot.bio.data = {&slot.segment, 1};
        slot.bio.context = &slot;
        slot.bio.done = [](Bio& bio) noexcept {
            auto& of = *static_cast<Slot*>(bio.context);
            ++of.owner->ended;
            of.owner->good += bio.status == Status::ok;
            of.owner->begin(of);
        };
        channel->submit(slot.bio);
    }
    void run(Device& device) {
        const auto reactor = uring_reactor();
        channel = std::move(*device.channel(*reactor));
        for (Slot& slot : slots) {
            slot.owner = this;
            begin(slot);
        }
        EXPECT_TRUE(run_until(*reactor, [&] {
            channel->poll();
            return ended == writes;
        }));
        channel.reset();
    }
};

TEST(SrpShared, ConnectionsThatEndTakeNoRequestWithThem) {
    const auto home = uring_reactor();
    fabric::rdma::InProcessNetwork network;
    ScriptedTarget target(network, *home);
    target.listen();
    unsigned commands = 0, endings = 0;
    target.script = [&](ScriptedChannel& from, const SrpBytes&) {
        if (++commands % 40 != 0) return false;
        ++endings;
        from.end();
        return true;
    };
    driver::srp::Options options;
    options.ch_count = 1;
    options.reconnect_delay = std::chrono::milliseconds(5);
    std::optional<Result<std::shared_ptr<driver::srp::Initiator>>> result;
    spawn(driver::srp::Initiator::connect(*home, network, {.host = "target"}, options, nullptr),
          [&](auto value) { result = std::move(value); });
    ASSERT_TRUE(run_until(*home, [&] { return result.has_value(); }));
    ASSERT_TRUE(result->has_value()) << result->error().message();
    auto initiator = std::move(**result);
    auto device = *initiator->device(0);
    std::array<SharedWriter, 3> writers;
    {
        std::vector<std::jthread> threads;
        for (auto& writer : writers) threads.emplace_back([&] { writer.run(*device); });
    }
    for (const auto& writer : writers) {
        EXPECT_EQ(writer.ended, SharedWriter::writes);
        EXPECT_EQ(writer.good, SharedWriter::writes);
    }
    EXPECT_GT(endings, 5u);
    EXPECT_GE(initiator->counters().reconnects, endings);
    device.reset();
    initiator.reset();
    result.reset();
    for (unsigned i = 0; i < 10; ++i) home->run_once(Reactor::Sleep::no);
    EXPECT_TRUE(target.channels.empty());
}

}  // namespace
}  // namespace mqblk::test
