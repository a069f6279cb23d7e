// SPDX-License-Identifier: Apache-2.0
//
// A part of a test that mounts file systems: it runs in a child process with mounts of its own, which go with it.
#pragma once

#include "base/tsan.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

namespace mqblk::test {

/// False: this machine, or this user, may not. The calling process has one thread.
inline bool take_private_mounts() {
    const auto user = std::to_string(::geteuid()), group = std::to_string(::getegid());
    const bool root = ::geteuid() == 0;
    if (::unshare(root ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (!root) {
        std::ofstream("/proc/self/setgroups") << "deny";
        std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
        std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
    }
    return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// Runs `scenario`, which may use EXPECT_ and ASSERT_. It returns false where something cannot be mounted.
inline void run_with_private_mounts(const std::function<bool()>& scenario) {
#ifdef MQBLK_TSAN
    GTEST_SKIP() << "the thread sanitizer does not follow into child processes";
#endif
    constexpr int cannot = 77;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const bool ran = take_private_mounts() && scenario();
        std::fflush(nullptr);
        ::_exit(!ran ? cannot : testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "status " << status;
    if (WEXITSTATUS(status) == cannot) GTEST_SKIP() << "no mounts for this user";
    EXPECT_EQ(WEXITSTATUS(status), 0) << "see above";
}

}  // namespace mqblk::test
