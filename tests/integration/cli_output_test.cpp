// SPDX-License-Identifier: Apache-2.0
//
// Standard output that is full, closed, or whose reader has gone, for every command that writes there.
#include "program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace mqblk::test {
namespace {

using testing::HasSubstr;
using Arguments = std::vector<std::string>;

class OutputTest : public testing::Test {
  protected:
    OutputTest() {
        write_file(data_, std::string(8192, 'x'));
        server_ = std::make_unique<Running>(
            Arguments{"serve", "--listen", "127.0.0.1:0", "--control", socket_, "ram://?size=1M"});
        EXPECT_EQ(server_->wait_for_line("ready"), "ready");
        const std::string listing = run_program({"ctl", "--control", socket_, "list"}).out;
        const std::string before = "listening on ";
        const auto begin = listing.find(before) + before.size();
        address_ = listing.substr(begin, listing.find('\n') - begin);
    }
    /// Every command that has something to say.
    [[nodiscard]] std::vector<Arguments> commands() const {
        const std::string disk = "ram://?size=1M", file = "file://" + dir_.file("disk") + "?size=1M";
        std::vector<Arguments> all{
            {"--version"},
            {"--help"},
            {"version"},
            {"help"},
            {"help", "uris"},
            {"completion", "bash"},
            {"info", disk},
            {"bench", "--help"},
            {"bench", disk, "--time", "100ms"},
            {"iops", disk, "-t", "100ms"},
            {"latency", disk, "-t", "100ms"},
            {"copy", disk, "ram://?size=1M"},
            {"write", file, "-i", data_},
            {"verify", data_, file, "--length", "8k"},
            {"read", disk},
            {"read", disk, "-o", dir_.file("out")},
            {"flush", disk},
            {"zero", file, "--length", "4k"},
            {"discover", address_},
            {"list", address_},
            {"serve", disk, "--listen", "127.0.0.1:0"},
        };
        for (const char* what : {"list", "hosts", "save"}) all.push_back({"ctl", "--control", socket_, what});
        return all;
    }
    static std::string joined(const Arguments& arguments) {
        std::string text;
        for (const auto& each : arguments) text += each + " ";
        return text;
    }
    /// What a command would write, to know which are silent by nature.
    static bool says_something(const Arguments& arguments) {
        return arguments[0] == "serve" || !run_program(arguments).out.empty();
    }

    TemporaryDirectory dir_;
    std::string socket_ = dir_.file("control"), data_ = dir_.file("data"), address_;
    std::unique_ptr<Running> server_;
};

TEST_F(OutputTest, FullIsAnErrorThatNamesIt) {
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(full, 0);
    unsigned speaking = 0;
    for (const Arguments& arguments : commands()) {
        const bool speaks = says_something(arguments);
        speaking += speaks ? 1 : 0;
        const Ended ended = run_program_to(full, arguments);
        EXPECT_EQ(ended.code, speaks ? 1 : 0) << joined(arguments) << ended.err;
        if (!speaks) continue;
        EXPECT_THAT(ended.err, HasSubstr("standard output")) << joined(arguments);
        EXPECT_THAT(ended.err, HasSubstr("No space left")) << joined(arguments);
        const auto last = ended.err.find("mqblk: ");
        EXPECT_EQ(std::count(ended.err.begin() + static_cast<std::ptrdiff_t>(last), ended.err.end(), '\n'), 1)
            << joined(arguments) << ended.err;
    }
    EXPECT_GE(speaking, 18u);
    ::close(full);
}

TEST_F(OutputTest, AReaderThatHasGoneEndsItQuietly) {
    for (Arguments arguments : commands()) {
        if (!says_something(arguments)) continue;
        int ends[2];
        ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        ::close(ends[0]);
        const Ended ended = run_program_to(ends[1], arguments);
        ::close(ends[1]);
        EXPECT_EQ(ended.code, 128 + SIGPIPE) << joined(arguments) << ended.err;
        EXPECT_THAT(ended.err, testing::Not(HasSubstr("mqblk:"))) << joined(arguments);
    }
}

TEST_F(OutputTest, AReaderThatTakesTheFirstBytesOnly) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    std::string first(10, 0);
    std::thread head([&] {
        EXPECT_EQ(::read(ends[0], first.data(), first.size()), 10);
        ::close(ends[0]);
    });
    const Ended ended = run_program_to(ends[1], {"read", "null://?size=1G"});
    head.join();
    ::close(ends[1]);
    EXPECT_EQ(first, std::string(10, 0));
    EXPECT_EQ(ended.code, 128 + SIGPIPE) << ended.err;
    EXPECT_EQ(ended.err, "");
}

TEST_F(OutputTest, ADiskNeverBecomesStandardOutput) {
    const std::string image = dir_.file("image"), uri = "file://" + image + "?size=1M";
    const Ended ended = run_program_to(-1, {"write", uri, "-i", data_});
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.err, HasSubstr("standard output"));
    const std::string content = read_file(image);
    ASSERT_EQ(content.size(), 1u << 20);
    EXPECT_EQ(content.substr(0, 8192), std::string(8192, 'x')) << "and not a report";
    EXPECT_EQ(run_program_to(-1, {"read", uri}).code, 1);
}

}  // namespace
}  // namespace mqblk::test
