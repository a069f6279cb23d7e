// SPDX-License-Identifier: Apache-2.0
//
// Verify and Compare on a device that lends no memory: several at once, in large pieces, a bounded number of them; and
// Abort of those that wait.
#include "nvme_target_harness.h"
#include "unit/block_support.h"

#include <algorithm>
#include <vector>

namespace mqblk::nvme_test {
namespace {

namespace opcode = wire::io_opcode;
using test::TestDriver;

class Check : public TargetTest {
  protected:
    static constexpr std::uint32_t piece_blocks = 256 * 1024 / 512;
    static constexpr unsigned most = 8;

    Check() {
        driver_->mode = TestDriver::Mode::hold;
        block::Disk disk;
        disk.sectors = 1 << 20;
        nsid = add(block::QueueSet::create(driver_)->add_disk(std::move(disk)));
        admin_queue = open_admin();
        queue = open_io(1);
    }
    test::TestQueue& disk() { return *driver_->queues.at(0); }
    void turn() {
        for (int i = 0; i < 3; ++i) queue->turn();
    }
    /// Ends all that the disk has, and what follows from that.
    void serve(std::span<Exchange* const> exchanges) {
        queue->turn_until([&] {
            while (disk().complete_one()) {
            }
            return std::ranges::all_of(exchanges, &Exchange::done);
        });
    }
    /// The Abort's result: 0 aborted, 1 not.
    std::uint64_t abort(const Exchange& which) {
        const Exchange& answer =
            admin_queue->run(admin(wire::admin_opcode::abort, 1u | std::uint32_t{which.loop.command.command_id} << 16));
        EXPECT_EQ(answer.code(), status::success);
        return answer.result();
    }

    std::shared_ptr<TestDriver> driver_ = std::make_shared<TestDriver>(test::Bench::shape(64, 1));
    std::uint32_t nsid = 0;
    std::unique_ptr<Queue> admin_queue, queue;
};

TEST_F(Check, SeveralReadAtOnceInLargePieces) {
    std::vector<Exchange*> all;
    for (unsigned i = 0; i < 20; ++i) all.push_back(&queue->start(io(opcode::verify, nsid, i * 2048, 2048)));
    turn();
    ASSERT_EQ(disk().seen.size(), most);  // the others wait for memory
    for (unsigned i = 0; i < most; ++i) {
        EXPECT_EQ(disk().seen[i].sector, i * 2048);
        EXPECT_EQ(disk().seen[i].sectors, piece_blocks);
    }
    ASSERT_TRUE(disk().complete_one());
    turn();
    EXPECT_EQ(disk().seen.back().sector, piece_blocks) << "the next piece of the first";
    EXPECT_EQ(disk().held(), most);
    serve(all);
    EXPECT_EQ(disk().seen.size(), 20 * 4u);
    for (const Exchange* each : all) EXPECT_EQ(each->code(), status::success);
}

TEST_F(Check, EachSeesItsOwnData) {
    driver_->result = [](const block::Request& request) {
        request.for_each_segment([&](std::byte* at, std::size_t bytes) {
            for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>((request.sector * 512 + i) / 1000);
        });
        return Status::ok;
    };
    driver_->mode = TestDriver::Mode::next_poll;
    constexpr unsigned commands = 24;
    std::vector<Bytes> data;
    std::vector<Exchange*> all;
    for (unsigned i = 0; i < commands; ++i) {
        const std::uint64_t first = i * 100;
        Bytes& mine = data.emplace_back((i % 4 * 500 + 1) * 512);  // 512 bytes to three pieces
        for (std::size_t at = 0; at < mine.size(); ++at) mine[at] = static_cast<std::byte>((first * 512 + at) / 1000);
        if (i % 3 == 2) mine.back() ^= std::byte{1};
    }
    for (unsigned i = 0; i < commands; ++i) {
        all.push_back(&queue->start(
            io(opcode::compare, nsid, i * 100, static_cast<std::uint32_t>(data[i].size() / 512)), data[i]));
    }
    queue->turn_until([&] { return std::ranges::all_of(all, &Exchange::done); });
    for (unsigned i = 0; i < commands; ++i)
        EXPECT_EQ(all[i]->code(), i % 3 == 2 ? status::compare_failure : status::success) << i;
}

TEST_F(Check, AbortTakesOutWhatWaitsAndNothingElse) {
    std::vector<Exchange*> all;
    for (unsigned i = 0; i < most + 3; ++i) all.push_back(&queue->start(io(opcode::verify, nsid, i * 8, 8)));
    turn();
    for (const unsigned which : {most + 1, most + 2}) {  // in the middle, and the last
        EXPECT_EQ(abort(*all[which]), 0u);
        ASSERT_TRUE(all[which]->done);
        EXPECT_EQ(all[which]->code(), status::aborted_by_request);
        EXPECT_EQ(abort(*all[which]), 1u) << "it has ended";
    }
    EXPECT_EQ(abort(*all[0]), 1u) << "the disk has it";
    EXPECT_FALSE(all[0]->done);
    const Exchange& absent = admin_queue->run(admin(wire::admin_opcode::abort, 77u));
    EXPECT_EQ(absent.result(), 1u) << "no such queue";
    all.push_back(&queue->start(io(opcode::verify, nsid, 800, 8)));
    serve(all);
    EXPECT_EQ(disk().seen.size(), most + 2);
    EXPECT_EQ(all[most]->code(), status::success);
    EXPECT_EQ(all.back()->code(), status::success);
}

}  // namespace
}  // namespace mqblk::nvme_test
