// SPDX-License-Identifier: Apache-2.0
//
// Opening files: what is refused, with which sentence, and that nothing is left behind.
#include "driver/file/file.h"

#include "unit/disk_exerciser.h"
#include "unit/file_support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace mqblk::driver::file {
namespace {

using test::DiskUser;
using test::make_file;
using test::ScratchDirectory;

Options options_for(std::string path, std::optional<std::uint64_t> bytes = std::nullopt) {
    Options options;
    options.path = std::move(path);
    options.bytes = bytes;
    return options;
}

void expect_refused(const Options& options, Errc code, const std::string& message) {
    const auto opened = open(options);
    ASSERT_FALSE(opened) << message;
    EXPECT_EQ(opened.error().message(), message);
    EXPECT_EQ(opened.error().code(), code) << message;
}

TEST(FileOpen, RefusalsNameThePathAndTheRemedy) {
    const ScratchDirectory directory;
    const std::string path = directory.file("disk");
    const std::string name = "file " + path + ": ";

    expect_refused(options_for(""), Errc::invalid_argument, "file: no path; write file:///path/to/file");
    expect_refused(options_for(path), Errc::not_found, name + "no such file; give size= to create it, such as size=1G");
    Options options = options_for(path, 4096);
    options.disk.read_only = true;
    expect_refused(options, Errc::not_found, name + "no such file, and read-only cannot create it");
    expect_refused(options_for(path, 1000), Errc::invalid_argument,
                   name + "size=1000: must be a multiple of block=512; the next such size is 1024");
    EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is created by a refusal";
    options = options_for(path, 4096);
    options.disk.depth = 16385;
    expect_refused(options, Errc::invalid_argument, name + "depth=16385: must be from 1 to 16384");
    expect_refused(options_for(directory.file("no/such/directory"), 4096), Errc::not_found,
                   "file " + directory.file("no/such/directory") + ": cannot be created: No such file or directory");

    expect_refused(options_for(directory.path()), Errc::invalid_argument,
                   "file " + directory.path() + ": is a directory; name a file in it");
    ASSERT_EQ(::mkfifo(directory.file("fifo").c_str(), 0600), 0);
    expect_refused(options_for(directory.file("fifo")), Errc::invalid_argument,
                   "file " + directory.file("fifo") + ": is neither a regular file nor a block device");

    make_file(path, 0);
    expect_refused(options_for(path), Errc::invalid_argument, name + "is empty; give size=, such as size=1G");
    make_file(path, 1000);
    expect_refused(options_for(path), Errc::invalid_argument,
                   name + "its size of 1000 bytes is not a multiple of block=512; give size=1024 to grow it");
    EXPECT_TRUE(open(options_for(path, 1024)));
    expect_refused(options_for(path, 512), Errc::invalid_argument,
                   name + "is 1024 bytes long, size=512 is not; leave size= out");
    EXPECT_EQ(std::filesystem::file_size(path), 1024u);
    options = options_for(path, 2048);
    options.disk.read_only = true;
    expect_refused(options, Errc::invalid_argument,
                   name + "is 1024 bytes long and cannot grow to size=2048 read-only; leave one of them out");
    options = options_for(path);
    options.disk.block = 4096;
    expect_refused(options, Errc::invalid_argument,
                   name + "its size of 1024 bytes is not a multiple of block=4096; give size=4096 to grow it");
}

TEST(FileOpen, AFileOfTheWrongSizeIsRemovedAgain) {
    const ScratchDirectory directory;
    const std::string path = directory.file("disk");
    const auto opened = open(options_for(path, std::uint64_t{1} << 61));  // beyond what file systems can do
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message().find("cannot grow to 2305843009213693952 bytes"), std::string::npos)
        << opened.error().message();
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FileOpen, OneWriterOrManyReaders) {
    const ScratchDirectory directory;
    const std::string path = directory.file("disk");
    Options writer = options_for(path, 1 << 20);
    Options reader = options_for(path);
    reader.disk.read_only = true;
    {
        const auto first = open(writer);
        ASSERT_TRUE(first);
        expect_refused(writer, Errc::already_exists,
                       "file " + path + ": is in use elsewhere; close it there first, or give ro=1 to both");
        expect_refused(reader, Errc::already_exists,
                       "file " + path + ": is open for writing elsewhere; close it there first");
    }
    const auto first = open(reader);
    const auto second = open(reader);
    ASSERT_TRUE(first && second);
    EXPECT_TRUE((*first)->read_only());
    EXPECT_FALSE(open(writer));
}

// As after a kill: the process is gone, its lock goes a moment later.
TEST(FileOpen, ALockThatIsAboutToGoIsWaitedFor) {
    const ScratchDirectory directory;
    const std::string path = directory.file("disk");
    make_file(path, 1 << 20);
    const int held = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::flock(held, LOCK_EX), 0);
    std::thread dying([held] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ::close(held);
    });
    EXPECT_TRUE(open(options_for(path)));
    dying.join();
}

TEST(FileOpen, AFileThatMayNotBeWrittenIsServedReadOnly) {
    const ScratchDirectory directory;
    Options options = options_for(directory.file("disk"));
    make_file(options.path, 8192);
    ASSERT_EQ(::chmod(options.path.c_str(), 0444), 0);
    ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
    const uid_t user_id = ::geteuid();
    constexpr uid_t nobody = 65534;  // root may write everything
    ASSERT_TRUE(user_id != 0 || ::seteuid(nobody) == 0);
    const auto opened = open(options);
    ASSERT_TRUE(user_id != 0 || ::seteuid(user_id) == 0);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), Errc::permission_denied) << opened.error().message();
    EXPECT_NE(opened.error().message().find("give ro=1"), std::string::npos) << opened.error().message();

    options.disk.read_only = true;
    DiskUser user(open(options));
    std::vector<std::byte> data(8192);
    EXPECT_EQ(user.read(0, data), Status::ok);
    EXPECT_EQ(user.write(0, data), Status::read_only);
    EXPECT_EQ(user.run(Op::discard, 0, 8), Status::not_supported);
}

TEST(FileOpen, BlockDevices) {
    const ScratchDirectory directory;
    const std::string path = directory.file("image");
    make_file(path, 4 << 20);
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) GTEST_SKIP() << "no loop devices for this user";
    const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
    ::close(control);
    const std::string device = "/dev/loop" + std::to_string(number);
    const int loop = ::open(device.c_str(), O_RDWR | O_CLOEXEC);
    const int image = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    loop_config config{};
    config.fd = static_cast<__u32>(image);
    config.block_size = 4096;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (number < 0 || loop < 0 || ::ioctl(loop, LOOP_CONFIGURE, &config) != 0) GTEST_SKIP() << "no free loop device";

    expect_refused(options_for(device), Errc::invalid_argument,
                   "file " + device + ": has blocks of 4096 bytes, block=512 is smaller; give block=4096");
    Options options = options_for(device, 8 << 20);
    options.disk.block = 4096;
    expect_refused(options, Errc::invalid_argument,
                   "file " + device + ": is 4194304 bytes long, size=8388608 is not; leave size= out");
    options.bytes.reset();
    std::vector<std::byte> model;
    {
        DiskUser user(open(options));
        EXPECT_EQ(user.device().sectors(), 8192u);
        SeededRandom random(1);
        model = test::exercise(user, random, {.operations = 400, .in_flight = 8});
        EXPECT_EQ(user.run(Op::flush, 0, 0), Status::ok);
    }
    EXPECT_EQ(test::file_content(path), model);
    ::close(image);
    ::close(loop);
}

}  // namespace
}  // namespace mqblk::driver::file
