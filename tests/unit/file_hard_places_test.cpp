// SPDX-License-Identifier: Apache-2.0
//
// A file disk where the file system gives trouble: it is full, or it does not answer. In child processes that mount
// file systems of their own.
#include "block/channel_core.h"
#include "block/statistics.h"
#include "driver/file/file.h"
#include "support/fuse_file.h"
#include "support/private_mounts.h"
#include "unit/disk_exerciser.h"
#include "unit/file_support.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>

namespace mqblk::driver::file {
namespace {

using test::DiskUser;
using test::FuseFile;
using test::ScratchDirectory;

/// On a file system of 1 MiB: a disk of 8 MiB that has no room.
bool use_full_file_system(const std::string& directory, bool direct) {
    if (::mount("none", directory.c_str(), "tmpfs", 0, "size=1m") != 0) return false;
    Options options;
    options.path = directory + "/disk";
    options.bytes = 8 << 20;
    options.direct = direct;
    DiskUser user(*open(options));
    std::vector<std::byte> data = test::pattern(64 * 1024, 1), back(data.size());
    std::uint64_t sector = 0;
    Status status = Status::ok;
    for (; status == Status::ok && sector < (8 << 20) / 512; sector += 128) status = user.write(sector, data);
    EXPECT_EQ(status, Status::no_space);
    EXPECT_GE(sector, 8 * 128u) << "most of the room is used";
    EXPECT_LE(sector, 17 * 128u);
    EXPECT_EQ(user.write(sector, data, bio_fua), Status::no_space);
    EXPECT_EQ(user.run(Op::write_zeroes, sector + 4096, 2048), Status::no_space);
    // The disk lives: what is there is read and written, flushed, and given back to make room.
    EXPECT_EQ(user.read(0, back), Status::ok);
    EXPECT_EQ(back, data);
    EXPECT_EQ(user.write(128, data), Status::ok);
    EXPECT_EQ(user.run(Op::flush, 0, 0), Status::ok);
    EXPECT_EQ(user.run(Op::discard, 0, 256), Status::ok);
    EXPECT_EQ(user.write(sector + 8192 - 512, data), Status::ok);
    EXPECT_EQ(user.read(0, back), Status::ok);
    EXPECT_EQ(back, std::vector<std::byte>(data.size()));
    return true;
}

TEST(FileHardPlaces, AFullFileSystemIsNoSpaceAndNothingElse) {
    for (const bool direct : {true, false}) {
        const ScratchDirectory directory;
        test::run_with_private_mounts([&] { return use_full_file_system(directory.path(), direct); });
    }
}

struct Slow {
    Slow(const std::string& directory, bool direct) : file(directory, 1 << 20) {
        if (!file.mounted()) return;
        Options options;
        options.path = directory + "/disk";
        options.direct = direct;
        options.disk.queues = 1;
        auto opened = open(options);
        EXPECT_TRUE(opened) << (opened ? "" : opened.error().message());
        device = *opened;
        EXPECT_TRUE(device->set_attribute("io_timeout", "50"));
        channel = *device->channel();
    }
    struct Io {
        Bio bio;
        std::vector<std::byte> memory;
        Segment segment{nullptr, 0};
        bool ended = false;
    };
    Io& start(Op op, std::uint64_t sector) {
        Io& io = ios.emplace_back();
        io.bio.op = op;
        if (op == Op::read) {
            io.memory.assign(4096 + 4096, std::byte{0xee});
            void* at = io.memory.data();
            std::size_t room = io.memory.size();
            io.segment = {static_cast<std::byte*>(std::align(4096, 4096, at, room)), 4096};
            io.bio.sector = sector;
            io.bio.sectors = 8;
            io.bio.data = {&io.segment, 1};
        }
        io.bio.context = &io;
        io.bio.done = [](Bio& bio) noexcept { static_cast<Io*>(bio.context)->ended = true; };
        channel->submit(io.bio);
        return io;
    }
    /// Turns until `done`, for a minute at most.
    template <class Done>
    [[nodiscard]] bool turn_until(Done done) {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        while (!done()) {
            if (std::chrono::steady_clock::now() > give_up) return false;
            channel->poll();
            channel->core().lane().reactor().run_once(Reactor::Sleep::no);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return true;
    }
    [[nodiscard]] std::uint64_t timeouts() { return block::statistics(*device).timeouts; }

    FuseFile file;
    std::deque<Io> ios;
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;
};

/// The kernel asks, and the file system gives the request up.
bool use_slow(const std::string& directory, bool direct) {
    Slow slow(directory, direct);
    if (!slow.file.mounted()) return false;
    slow.file.hold(FuseFile::Hold::until_interrupted);
    const Slow::Io& read = slow.start(Op::read, 64);
    EXPECT_TRUE(slow.turn_until([&] { return read.ended; }));
    EXPECT_EQ(read.bio.status, Status::timed_out);
    EXPECT_GE(slow.timeouts(), 1u);
    const Slow::Io& flush = slow.start(Op::flush, 0);
    EXPECT_TRUE(slow.turn_until([&] { return flush.ended; }));
    EXPECT_EQ(flush.bio.status, Status::timed_out);
    slow.file.let_go();
    const Slow::Io& after = slow.start(Op::read, 128);
    EXPECT_TRUE(slow.turn_until([&] { return after.ended; }));
    EXPECT_EQ(after.bio.status, Status::ok);
    return true;
}

/// It does not: the request stays outstanding, because its memory may yet be written to, and others go on.
bool use_stuck(const std::string& directory, bool direct) {
    Slow slow(directory, direct);
    if (!slow.file.mounted()) return false;
    slow.file.hold(FuseFile::Hold::all);
    const Slow::Io& stuck = slow.start(Op::read, 64);
    EXPECT_TRUE(slow.turn_until([&] { return slow.timeouts() >= 3; }));
    EXPECT_FALSE(stuck.ended);
    EXPECT_TRUE(slow.turn_until([&] { return slow.file.held() == 1; }));
    EXPECT_EQ(slow.channel->outstanding(), 1u);
    slow.file.hold(FuseFile::Hold::nothing);
    const Slow::Io& other = slow.start(Op::read, 512);
    EXPECT_TRUE(slow.turn_until([&] { return other.ended; }));
    EXPECT_EQ(other.bio.status, Status::ok);
    EXPECT_FALSE(stuck.ended);
    slow.file.let_go();
    EXPECT_TRUE(slow.turn_until([&] { return stuck.ended; }));
    EXPECT_TRUE(stuck.bio.status == Status::ok || stuck.bio.status == Status::timed_out);
    return true;
}

TEST(FileHardPlaces, WhatTheFileSystemGivesUpTimesOut) {
    for (const bool direct : {true, false}) {
        const ScratchDirectory directory;
        test::run_with_private_mounts([&] { return use_slow(directory.path(), direct); });
    }
}

TEST(FileHardPlaces, ARequestThatNeverReturnsStaysAndHurtsNoOther) {
    for (const bool direct : {true, false}) {
        const ScratchDirectory directory;
        test::run_with_private_mounts([&] { return use_stuck(directory.path(), direct); });
    }
}

}  // namespace
}  // namespace mqblk::driver::file
