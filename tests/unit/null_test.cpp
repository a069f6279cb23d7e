// SPDX-License-Identifier: Apache-2.0
#include "driver/null/null.h"

#include "block/queue.h"
#include "unit/disk_exerciser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace mqblk::driver::null {
namespace {

using namespace std::chrono_literals;
using test::DiskUser;

/// Submits `count` reads at once; returns how each ended, in the order of ending.
struct Load {
    explicit Load(unsigned count) : bios(count) {}
    void submit(Channel& channel) {
        for (Bio& bio : bios) {
            bio.op = Op::read;
            bio.sectors = 1;
            bio.data = Segments(&segment, 1);
            bio.context = this;
            bio.done = [](Bio& ended) noexcept { static_cast<Load*>(ended.context)->statuses.push_back(ended.status); };
            channel.submit(bio);
        }
    }
    std::byte memory[512]{std::byte{0x77}};
    Segment segment{memory, sizeof memory};
    std::vector<Bio> bios;
    std::vector<Status> statuses;
};

Options options_for(Duration latency, CompletionMode completion) {
    Options options;
    options.bytes = 1 << 20;
    options.latency = latency;
    options.completion = completion;
    options.disk.depth = 8;
    return options;
}

TEST(Null, EveryModeCompletesEveryOperation) {
    for (const CompletionMode completion : {CompletionMode::inline_, CompletionMode::thread}) {
        for (const Duration latency : {Duration(0), Duration(200us)}) {
            SCOPED_TRACE(testing::Message()
                         << latency.count() << " ns, thread " << (completion == CompletionMode::thread));
            DiskUser user(open(options_for(latency, completion)));
            Load load(100);
            const auto start = std::chrono::steady_clock::now();
            load.submit(user.channel());
            EXPECT_TRUE(load.statuses.empty()) << "completions never run from submit()";
            while (user.channel().outstanding() > 0) user.channel().wait();
            EXPECT_EQ(load.statuses, std::vector<Status>(100, Status::ok));
            // 100 at a depth of 8: at least 13 times the latency.
            EXPECT_GE(std::chrono::steady_clock::now() - start, 12 * latency);
            for (const Op op : {Op::flush, Op::discard, Op::write_zeroes}) {
                EXPECT_EQ(user.run(op, 0, 2048), Status::ok) << to_string(op);
            }
            EXPECT_EQ(load.memory[0], std::byte{0x77}) << "a read leaves memory as it was";
        }
    }
}

TEST(Null, ClosingAChannelEndsWhatIsOutstanding) {
    for (const CompletionMode completion : {CompletionMode::inline_, CompletionMode::thread}) {
        const auto device = *open(options_for(10s, completion));
        auto channel = *device->channel();
        Load load(20);
        load.submit(*channel);
        const auto start = std::chrono::steady_clock::now();
        channel.reset();
        EXPECT_EQ(load.statuses, std::vector<Status>(20, Status::aborted));
        EXPECT_LT(std::chrono::steady_clock::now() - start, 9s);
    }
}

TEST(Null, LendsZeroesToReaders) {
    Options options = options_for({}, CompletionMode::inline_);
    options.bytes = 8 << 20;
    const auto device = *open(options);
    block::DirectAccess* const direct = block::direct_access(*device);
    ASSERT_NE(direct, nullptr);
    const Segment lent = direct->map(100, 8192, false);
    ASSERT_EQ(lent.bytes, std::size_t{4} << 20);
    EXPECT_TRUE(std::all_of(lent.data, lent.data + lent.bytes, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(direct->map(100, 8193, false).data, nullptr) << "more than it lends at once";
    EXPECT_EQ(direct->map(16383, 1, false).bytes, 512u);
    EXPECT_EQ(direct->map(16383, 2, false).data, nullptr) << "beyond the end";
    EXPECT_EQ(direct->map(~0ull, 1, false).data, nullptr);
    EXPECT_EQ(direct->map(0, 1, true).data, nullptr) << "nothing to fill";
    EXPECT_EQ(block::direct_access(**open(options_for(1us, CompletionMode::inline_))), nullptr)
        << "lending would skip the latency";
}

TEST(Null, RefusesALatencyOutOfRange) {
    const auto opened = open(options_for(11s, CompletionMode::inline_));
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message(), "null: latency=11s: must be from 0 to 10s");
    EXPECT_FALSE(open(options_for(-1ns, CompletionMode::inline_)));
}

}  // namespace
}  // namespace mqblk::driver::null
