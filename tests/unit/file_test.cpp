// SPDX-License-Identifier: Apache-2.0
//
// Data through a file disk, on the file system of temporary files and on tmpfs, with and without O_DIRECT.
#include "driver/file/file.h"

#include "block/device_core.h"
#include "block/queue.h"
#include "unit/disk_exerciser.h"
#include "unit/file_support.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>

namespace mqblk::driver::file {
namespace {

using test::DiskUser;
using test::ScratchDirectory;

Options options_for(const ScratchDirectory& directory, std::uint64_t bytes) {
    Options options;
    options.path = directory.file("disk");
    options.bytes = bytes;
    options.disk.queues = 2;
    return options;
}

struct Place {
    const char* parent;  // empty: the directory of temporary files
    bool direct;
    unsigned block;
    unsigned depth;
};

class FilePlaces : public testing::TestWithParam<Place> {};

TEST_P(FilePlaces, RandomUseAgreesWithTheModelAndTheFile) {
    const Place place = GetParam();
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const ScratchDirectory directory(place.parent);
        Options options = options_for(directory, 2 << 20);
        options.direct = place.direct;
        options.disk.block = place.block;
        options.disk.depth = place.depth;
        std::vector<std::byte> model;
        {
            SeededRandom random(seed);
            auto device = open(options);
            ASSERT_TRUE(device) << device.error().message();
            DiskUser user(*device);
            model = test::exercise(user, random, {.operations = 600, .in_flight = 12, .max_bytes = 256 * 1024});
            std::vector<std::byte> content(2 << 20);
            ASSERT_EQ(user.read(0, content), Status::ok);
            ASSERT_EQ(content, model);
        }
        ASSERT_EQ(test::file_content(options.path), model);
        options.bytes.reset();
        options.disk.read_only = true;
        DiskUser again(open(options));
        std::vector<std::byte> content(2 << 20);
        ASSERT_EQ(again.read(0, content), Status::ok);
        ASSERT_EQ(content, model);
    }
}

INSTANTIATE_TEST_SUITE_P(File, FilePlaces,
                         testing::Values(Place{"", true, 512, 128}, Place{"", true, 4096, 8}, Place{"", false, 512, 8},
                                         Place{"/dev/shm", true, 512, 3}, Place{"/dev/shm", false, 4096, 1}),
                         [](const auto& given) {
                             const Place& place = given.param;
                             return std::string(*place.parent != 0 ? "shm" : "tmp") +
                                    (place.direct ? "_direct_" : "_cached_") + std::to_string(place.block) + "_" +
                                    std::to_string(place.depth);
                         });

TEST(File, DiscardGivesSpaceBackAndReadsAsZero) {
    const ScratchDirectory directory;
    const Options options = options_for(directory, 4 << 20);
    DiskUser user(open(options));
    if (user.device().limits().max_discard_sectors == 0) GTEST_SKIP() << "this file system has no holes";
    auto data = test::pattern(4 << 20, 1);
    ASSERT_EQ(user.write(0, data, bio_fua), Status::ok);
    struct stat full{}, holed{};
    ASSERT_EQ(::stat(options.path.c_str(), &full), 0);
    ASSERT_EQ(user.run(Op::discard, 2048, 4096), Status::ok);
    ASSERT_EQ(user.run(Op::flush, 0, 0), Status::ok);
    ASSERT_EQ(::stat(options.path.c_str(), &holed), 0);
    EXPECT_LE(holed.st_blocks + 4000, full.st_blocks);
    std::vector<std::byte> content(4 << 20);
    ASSERT_EQ(user.read(0, content), Status::ok);
    std::fill_n(data.begin() + (1 << 20), 2 << 20, std::byte{0});
    EXPECT_EQ(content, data);
}

TEST(File, GrowsAndKeepsWhatItHad) {
    const ScratchDirectory directory;
    Options options = options_for(directory, 1 << 20);
    auto data = test::pattern(1 << 20, 2);
    {
        DiskUser user(open(options));
        ASSERT_EQ(user.write(0, data), Status::ok);
    }
    options.bytes = 3 << 20;
    DiskUser user(open(options));
    EXPECT_EQ(user.device().sectors(), 6144u);
    std::vector<std::byte> content(3 << 20);
    ASSERT_EQ(user.read(0, content), Status::ok);
    data.resize(3 << 20);
    EXPECT_EQ(content, data);
}

TEST(File, SaysHowItReachesTheFile) {
    const ScratchDirectory directory;
    Options options = options_for(directory, 1 << 20);
    options.direct = false;
    const auto device = *open(options);
    const auto& details = block::disk_of(device->core()).details;
    ASSERT_GE(details.size(), 2u);
    EXPECT_EQ(details[0].second, options.path);
    EXPECT_EQ(details[1].second, "through the page cache");
    EXPECT_EQ(device->identity().name, "disk");
    EXPECT_EQ(device->identity().driver, "file");
    EXPECT_TRUE(device->limits().write_cache);
    EXPECT_TRUE(device->limits().fua);
}

TEST(File, AFileThatBecameShorterFailsReadsOnly) {
    const ScratchDirectory directory;
    const Options options = options_for(directory, 1 << 20);
    DiskUser user(open(options));
    std::filesystem::resize_file(options.path, 512 * 1024);
    std::vector<std::byte> data(8192);
    EXPECT_EQ(user.read(1024 - 8, data), Status::io_error) << "half of it is beyond the end";
    EXPECT_EQ(user.read(1500, data), Status::io_error);
    EXPECT_EQ(user.read(1024 - 16, data), Status::ok);
    EXPECT_EQ(user.write(1500, data), Status::ok);
}

/// A limit on the size of files stands in for a full disk: the same path, without a disk to fill.
TEST(File, NoRoomIsNoSpace) {
    const ScratchDirectory directory;
    const Options options = options_for(directory, 1 << 20);
    DiskUser user(open(options));
    std::vector<std::byte> data(8192, std::byte{1});
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit low = before;
    low.rlim_cur = 512 * 1024;
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    const Status beyond = user.write(1200, data);
    const Status across = user.write(1024 - 8, data);
    const Status below = user.write(0, data);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ::signal(SIGXFSZ, handler);
    EXPECT_EQ(beyond, Status::no_space);
    EXPECT_EQ(across, Status::no_space) << "the first half went in, the second did not";
    EXPECT_EQ(below, Status::ok);
}

TEST(File, ClosingAChannelEndsEachRequestOnce) {
    const ScratchDirectory directory;
    const auto device = *open(options_for(directory, 16 << 20));
    auto memory = test::pattern(1 << 20, 3);
    const Segment segment{memory.data() + 1, 128 * 1024};  // odd: some wait for memory to bounce through
    for (int round = 0; round < 5; ++round) {
        auto channel = *device->channel();
        std::vector<Bio> bios(100);
        std::vector<int> ended(bios.size());
        for (std::size_t i = 0; i < bios.size(); ++i) {
            bios[i].op = i % 3 == 0 ? Op::flush : Op::write;
            if (bios[i].op == Op::write) {
                bios[i].sector = i * 256;
                bios[i].sectors = 256;
                bios[i].data = Segments(&segment, 1);
            }
            bios[i].context = &ended[i];
            bios[i].done = [](Bio& bio) noexcept { ++*static_cast<int*>(bio.context); };
            channel->submit(bios[i]);
        }
        channel.reset();
        for (std::size_t i = 0; i < bios.size(); ++i) {
            ASSERT_EQ(ended[i], 1) << i;
            ASSERT_TRUE(bios[i].status == Status::ok || bios[i].status == Status::aborted) << to_string(bios[i].status);
        }
    }
}

// Without the check a write beyond the end would make the file longer again.
TEST(File, RequestsBeyondANewEndEndOutOfRange) {
    const ScratchDirectory directory;
    const Options options = options_for(directory, 1 << 20);
    const auto device = *open(options);
    test::expect_shrinking_spares_what_is_below(*device, 1024, [&] { return resize(*device, 512 << 10).has_value(); });
    EXPECT_EQ(test::file_content(options.path).size(), 512u << 10);
    ASSERT_TRUE(resize(*device, 2 << 20));
    EXPECT_EQ(test::file_content(options.path).size(), 2u << 20);
    DiskUser user(device);
    std::vector<std::byte> data = test::pattern(8192, 1);
    EXPECT_EQ(user.write(4080, data), Status::ok);
}

}  // namespace
}  // namespace mqblk::driver::file
