// SPDX-License-Identifier: Apache-2.0
//
// Fused Compare-and-Write: halves that match, halves that do not, and atomicity against writes of other threads.
#include "nvme_target_harness.h"

#include <atomic>
#include <thread>

namespace mqblk::nvme_test {
namespace {

namespace opcode = wire::io_opcode;

[[nodiscard]] wire::Command fused(std::uint8_t what, std::uint8_t half, std::uint32_t nsid, std::uint64_t block = 0,
                                  std::uint32_t blocks = 1) {
    wire::Command command = io(what, nsid, block, blocks);
    command.flags = half;
    return command;
}

class Fused : public TargetTest {
  protected:
    Fused() {
        nsid = add(ram(1 << 20));
        admin_queue = open_admin();
        queue = open_io(1);
    }
    std::pair<std::uint16_t, std::uint16_t> pair(wire::Command first, wire::Command second, Bytes& expected,
                                                 Bytes& next) {
        Exchange& a = queue->start(first, expected);
        Exchange& b = queue->start(second, next);
        queue->turn_until([&] { return a.done && b.done; });
        return {a.code(), b.code()};
    }
    Bytes read(std::uint64_t block) {
        Bytes data(512);
        EXPECT_EQ(queue->code(io(opcode::read, nsid, block), data), status::success);
        return data;
    }
    using Codes = std::pair<std::uint16_t, std::uint16_t>;
    static constexpr std::uint8_t first_half = wire::flag_fuse_first, second_half = wire::flag_fuse_second;

    std::uint32_t nsid = 0;
    std::unique_ptr<Queue> admin_queue, queue;
};

TEST_F(Fused, WritesIfEqual) {
    Bytes zero(512), one = pattern(512, 1), two = pattern(512, 2);
    const auto compare = fused(opcode::compare, first_half, nsid), write = fused(opcode::write, second_half, nsid);
    EXPECT_EQ(pair(compare, write, zero, one), (Codes{status::success, status::success}));
    EXPECT_EQ(read(0), one);
    EXPECT_EQ(pair(compare, write, zero, two), (Codes{status::compare_failure, status::fused_failed}));
    EXPECT_EQ(read(0), one);
    EXPECT_EQ(pair(compare, write, one, two), (Codes{status::success, status::success}));
    EXPECT_EQ(read(0), two);
}

TEST_F(Fused, HalvesThatDoNotMatch) {
    Bytes zero(512), one = pattern(512, 1), more(1024);
    EXPECT_EQ(pair(fused(opcode::compare, first_half, nsid), fused(opcode::write, second_half, nsid, 1), zero, one),
              (Codes{status::fused_failed, status::invalid_field}));
    EXPECT_EQ(pair(fused(opcode::compare, first_half, nsid), fused(opcode::write, second_half, nsid, 0, 2), zero, more),
              (Codes{status::fused_failed, status::invalid_field}));
    EXPECT_EQ(pair(fused(opcode::write, first_half, nsid), fused(opcode::write, second_half, nsid), zero, one),
              (Codes{status::invalid_field, status::fused_failed}));
    EXPECT_EQ(pair(fused(opcode::compare, first_half, nsid), io(opcode::write, nsid, 3), zero, one),
              (Codes{status::fused_missing, status::success}));
    EXPECT_EQ(
        pair(fused(opcode::compare, first_half, nsid, 9999), fused(opcode::write, second_half, nsid, 9999), zero, one),
        (Codes{status::lba_out_of_range, status::fused_failed}));
    Bytes data(512);
    EXPECT_EQ(queue->code(fused(opcode::write, second_half, nsid), data), status::fused_missing);
    EXPECT_EQ(queue->code(fused(opcode::compare, 3, nsid), data), status::invalid_field);
    EXPECT_EQ(queue->code(fused(opcode::flush, first_half, nsid)), status::invalid_field);
    Bytes large(17 * 512);
    EXPECT_EQ(queue->code(fused(opcode::compare, first_half, nsid, 0, 17), large), status::atomic_write_unit_exceeded);
    EXPECT_EQ(read(0), zero);
}

TEST_F(Fused, AFirstHalfAloneEndsWithItsQueue) {
    Bytes zero(512);
    Exchange& alone = queue->start(fused(opcode::compare, first_half, nsid), zero);
    queue->turn();
    EXPECT_FALSE(alone.done);
    // The exchange lives in the queue; what it heard is checked by a copy taken on the way.
    static std::uint16_t heard;
    heard = 0;
    alone.loop.done = [](fabric::LoopCommand&, const wire::Completion& completion) noexcept {
        heard = wire::status_of(completion) & status::code_mask;
    };
    queue.reset();
    EXPECT_EQ(heard, status::aborted_queue_deleted);
}

TEST_F(Fused, OneAfterAnother) {
    Bytes zero(512), one = pattern(512, 1), two = pattern(512, 2), scratch = one;
    const auto other = open_io(2);
    const auto compare = fused(opcode::compare, first_half, nsid), write = fused(opcode::write, second_half, nsid);
    Exchange& a = queue->start(compare, zero);
    Exchange& b = queue->start(write, one);
    Exchange& c = other->start(compare, scratch);
    Exchange& d = other->start(write, two);
    Exchange& plain = queue->start(io(opcode::write, nsid, 5), zero);
    queue->turn_until([&] {
        other->turn();
        return a.done && b.done && c.done && d.done && plain.done;
    });
    EXPECT_EQ(b.code(), status::success);
    EXPECT_EQ(d.code(), status::success) << "ran after the first pair, and saw what it wrote";
    EXPECT_EQ(plain.code(), status::success);
    EXPECT_EQ(read(0), two);
}

/// Threads increment a counter by compare-and-write, others write elsewhere and over a neighbour: no increment is lost.
TEST_F(Fused, IncrementsOfManyThreads) {
    constexpr unsigned threads = 3, rounds = 20;
    const std::uint16_t id = controller_id;
    std::atomic<unsigned> increments{0}, running{threads};
    std::vector<std::thread> pool;
    for (unsigned t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            SteadyClock own_clock;
            SeededRandom own_random{t};
            auto own_reactor = std::move(*make_uring_reactor(own_clock, own_random));
            {
                Queue own(*own_reactor, *loop->open_queue(*own_reactor));
                ConnectOptions options;
                options.queue_id = static_cast<std::uint16_t>(t + 2);
                options.controller_id = id;
                EXPECT_EQ(connect(own, options).code(), status::success);
                Bytes old_value(512), new_value(512), noise = pattern(512, t);
                // The counter is never read, which would race with other threads' writes: a failed comparison says
                // that it is larger than thought.
                std::uint32_t count = 0;
                for (unsigned done = 0; done < rounds; ++count) {
                    const le32 before = count, after = count + 1;
                    std::memcpy(old_value.data(), &before, sizeof before);
                    std::memcpy(new_value.data(), &after, sizeof after);
                    Exchange& noise_write = own.start(io(opcode::write, nsid, 8 + t), noise);
                    Exchange& a = own.start(fused(opcode::compare, first_half, nsid, 7), old_value);
                    Exchange& b = own.start(fused(opcode::write, second_half, nsid, 7), new_value);
                    own.turn_until([&] { return a.done && b.done && noise_write.done; });
                    if (b.code() != status::success) continue;
                    ++done;
                    increments.fetch_add(1);
                }
                // Others may wait for this thread to hold its writes back: it turns until all are through.
                running.fetch_sub(1);
                own.turn_until([&] { return running.load() == 0; });
            }
        });
    }
    // This thread has a channel to the namespace as well.
    read(100);
    queue->turn_until([&] { return running.load() == 0; });
    for (auto& thread : pool) thread.join();
    EXPECT_EQ(increments.load(), threads * rounds);
    EXPECT_EQ(as<le32>(read(7)), increments.load());
}

}  // namespace
}  // namespace mqblk::nvme_test
