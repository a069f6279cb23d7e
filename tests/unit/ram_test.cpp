// SPDX-License-Identifier: Apache-2.0
#include "driver/ram/ram.h"

#include "block/device_core.h"
#include "block/queue.h"
#include "unit/disk_exerciser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace mqblk::driver::ram {
namespace {

using test::DiskUser;

TEST(Ram, RandomUseAgreesWithTheModel) {
    for (const unsigned block : {512u, 4096u}) {
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
            SCOPED_TRACE(testing::Message() << "block " << block << " seed " << seed);
            SeededRandom random(seed);
            Options options;
            options.bytes = 1 << 20;
            options.disk.block = block;
            options.disk.depth = 4;
            DiskUser user(open(options));
            const auto model = test::exercise(user, random, {.operations = 1500});
            std::vector<std::byte> content(options.bytes);
            ASSERT_EQ(user.read(0, content), Status::ok);
            ASSERT_EQ(content, model);
        }
    }
}

TEST(Ram, ThreadsHaveQueuesOfTheirOwnAndSeeOneDisk) {
    Options options;
    options.bytes = 4 << 20;
    options.disk.queues = 2;
    const auto device = *open(options);
    constexpr unsigned threads = 4;
    const std::size_t part = options.bytes / threads;
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads; ++i) {
        workers.emplace_back([&, i] {
            DiskUser user(device);
            auto data = test::pattern(part, i);
            EXPECT_EQ(user.write(i * part / 512, data), Status::ok);
        });
    }
    for (auto& worker : workers) worker.join();
    DiskUser user(device);
    for (unsigned i = 0; i < threads; ++i) {
        std::vector<std::byte> content(part);
        ASSERT_EQ(user.read(i * part / 512, content), Status::ok);
        EXPECT_EQ(content, test::pattern(part, i));
    }
}

TEST(Ram, PopulatedIsZero) {
    Options options;
    options.bytes = 1 << 20;
    options.populate = true;
    DiskUser user(open(options));
    std::vector<std::byte> content(options.bytes, std::byte{1});
    ASSERT_EQ(user.read(0, content), Status::ok);
    EXPECT_TRUE(std::ranges::all_of(content, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Ram, LendsItsMemory) {
    Options options;
    options.bytes = 1 << 20;
    const auto device = *open(options);
    block::DirectAccess* const direct = block::direct_access(*device);
    ASSERT_NE(direct, nullptr);
    const Segment lent = direct->map(8, 16, true);
    ASSERT_EQ(lent.bytes, 16u * 512);
    std::memset(lent.data, 0x3c, lent.bytes);
    DiskUser user(device);
    std::vector<std::byte> content(lent.bytes);
    ASSERT_EQ(user.read(8, content), Status::ok);
    EXPECT_TRUE(std::ranges::all_of(content, [](std::byte b) { return b == std::byte{0x3c}; }));
    EXPECT_EQ(direct->map(2047, 1, false).bytes, 512u);
    EXPECT_EQ(direct->map(2047, 2, false).data, nullptr);
    EXPECT_EQ(direct->map(~0ull, 2, false).data, nullptr);
    EXPECT_EQ(direct->map(1, ~0ull, false).data, nullptr);
}

TEST(Ram, ReadOnlyRefusesEveryChange) {
    Options options;
    options.bytes = 1 << 20;
    options.disk.read_only = true;
    DiskUser user(open(options));
    std::vector<std::byte> data(512);
    EXPECT_EQ(user.read(0, data), Status::ok);
    EXPECT_EQ(user.write(0, data), Status::read_only);
    EXPECT_EQ(user.run(Op::discard, 0, 8), Status::read_only);
    EXPECT_EQ(user.run(Op::write_zeroes, 0, 8), Status::read_only);
    EXPECT_EQ(block::direct_access(user.device())->map(0, 8, true).data, nullptr);
    EXPECT_NE(block::direct_access(user.device())->map(0, 8, false).data, nullptr);
}

TEST(Ram, RefusesWhatIsOutOfRange) {
    struct Case {
        Options options;
        const char* message;
    };
    const Case cases[] = {
        {{.bytes = 0, .disk = {}}, "ram: size=0: must be at least one block; give size=, such as size=1G"},
        {{.bytes = 1000, .disk = {}}, "ram: size=1000: must be a multiple of block=512; the next such size is 1024"},
        {{.bytes = 512, .disk = {.block = 4096}},
         "ram: size=512: must be a multiple of block=4096; the next such size is 4096"},
        {{.bytes = 4096, .disk = {.block = 1024}}, "ram: block=1024: must be 512 or 4096"},
        {{.bytes = 4096, .disk = {.queues = 1025}},
         "ram: queues=1025: must be from 1 to 1024, or 0 for one per processor"},
        {{.bytes = 4096, .disk = {.depth = 0}}, "ram: depth=0: must be from 1 to 65536"},
        {{.bytes = 4096, .disk = {.depth = 65537}}, "ram: depth=65537: must be from 1 to 65536"},
    };
    for (const Case& c : cases) {
        const auto opened = open(c.options);
        ASSERT_FALSE(opened) << c.message;
        EXPECT_EQ(opened.error().message(), c.message);
    }
}

// What was checked against the old size and comes to the disk when it is smaller.
TEST(Ram, RequestsBeyondANewEndEndOutOfRange) {
    Options options;
    options.bytes = 1 << 20;
    const auto device = *open(options);
    test::expect_shrinking_spares_what_is_below(*device, 1024, [&] { return resize(*device, 512 << 10).has_value(); });
    ASSERT_TRUE(resize(*device, 1 << 20));
    DiskUser user(device);
    std::vector<std::byte> back(4096, std::byte{1});
    EXPECT_EQ(user.read(1024, back), Status::ok);
    EXPECT_EQ(back, std::vector<std::byte>(4096)) << "what is new is zero";
}

TEST(Ram, ResizingUnderLoadEndsEachRequestWellOrOutOfRange) {
    Options options;
    options.bytes = 1 << 20;
    options.disk.queues = 2;
    const auto device = *open(options);
    std::atomic<bool> stop{false};
    std::vector<std::thread> users;
    for (unsigned i = 0; i < 3; ++i) {  // two of them share a queue
        users.emplace_back([&, i] {
            DiskUser user(device);
            SeededRandom random(i);
            std::vector<std::byte> data(8192);
            while (!stop) {
                const std::uint64_t sector = random.below(2048 - 16);
                const Status status = random.below(2) == 0 ? user.read(sector, data) : user.write(sector, data);
                ASSERT_TRUE(status == Status::ok || (status == Status::out_of_range && sector + 16 > 1024))
                    << to_string(status) << " at " << sector;
            }
        });
    }
    for (unsigned i = 0; i < 200; ++i) ASSERT_TRUE(resize(*device, i % 2 == 0 ? 512 << 10 : 1 << 20));
    stop = true;
    for (auto& user : users) user.join();
}

}  // namespace
}  // namespace mqblk::driver::ram
