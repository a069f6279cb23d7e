// SPDX-License-Identifier: Apache-2.0
//
// Standard error that is full, closed, or whose reader has gone: what the program has to say is lost, its exit code is
// not, and it ends.
#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

namespace mqblk::test {
namespace {

struct Case {
    std::vector<std::string> arguments;
    int code;
};

/// Wherever the program speaks to standard error: errors of each kind, progress, log lines.
const std::vector<Case> cases{
    {{"bogus"}, 2},
    {{}, 2},
    {{"info", "ram://"}, 2},
    {{"info", "file:///nonexistent/disk"}, 1},
    {{"info", "null://"}, 0},
    {{"info", "nvme+loop:///1?ns=[ram://?size=1M]", "-vv"}, 0},
    {{"bench", "null://", "--time", "700ms", "--progress"}, 0},
    {{"bench", "null://", "--size", "1M", "-vv"}, 0},
    {{"bench", "ram://?size=1M", "--rw", "read", "--verify", "--size", "1M", "--depth", "1"}, 3},
    {{"copy", "null://?size=64M", "ram://?size=64M", "--progress"}, 0},
    {{"zero", "ram://?size=64M", "--progress"}, 0},
};

TEST(StandardError, LostWordsChangeNothing) {
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    int gone[2];
    ASSERT_EQ(::pipe2(gone, O_CLOEXEC), 0);
    ::close(gone[0]);
    for (const auto& [arguments, code] : cases) {
        SCOPED_TRACE(testing::PrintToString(arguments));
        EXPECT_EQ(run_program_to(nowhere, full, arguments), code) << "full";
        EXPECT_EQ(run_program_to(nowhere, gone[1], arguments), code) << "gone";
        EXPECT_EQ(run_program_to(nowhere, -1, arguments), code) << "closed";
    }
    ::close(full);
    ::close(nowhere);
    ::close(gone[1]);
}

TEST(StandardError, BothLostIsStillTheRightCode) {
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    int gone[2];
    ASSERT_EQ(::pipe2(gone, O_CLOEXEC), 0);
    ::close(gone[0]);
    EXPECT_EQ(run_program_to(full, full, {"read", "null://?size=1M"}), 1);
    EXPECT_EQ(run_program_to(full, full, {"bogus"}), 2);
    EXPECT_EQ(run_program_to(-1, -1, {"info", "null://"}), 1);
    EXPECT_EQ(run_program_to(gone[1], gone[1], {"info", "null://"}), 128 + SIGPIPE);
    EXPECT_EQ(run_program_to(gone[1], gone[1], {"bogus"}), 2);
    ::close(full);
    ::close(gone[1]);
}

}  // namespace
}  // namespace mqblk::test
