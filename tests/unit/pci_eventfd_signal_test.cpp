// SPDX-License-Identifier: Apache-2.0
//
// Eventfds that the other side owns: never waited for, whatever it does to them.
#include "pci/eventfd_signal.h"
#include "pci/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace mqblk::test {
namespace {

constexpr std::uint64_t full = 0xfffffffffffffffe;  // write(2) of any more would wait

TEST(EventfdSignal, CountsAndIsTaken) {
    ASSERT_TRUE(pci::prepare_eventfd_signals());
    const pci::OwnedFd event(::eventfd(0, EFD_CLOEXEC));
    EXPECT_EQ(pci::take_eventfd(event.get()), 0u) << "nothing there, and the descriptor would block";
    constexpr unsigned more_than_the_ring_holds = 5000;
    for (unsigned i = 0; i < more_than_the_ring_holds; ++i) ASSERT_TRUE(pci::signal_eventfd(event.get()));
    EXPECT_EQ(pci::take_eventfd(event.get()), more_than_the_ring_holds);
    EXPECT_EQ(pci::take_eventfd(event.get()), 0u);
}

TEST(EventfdSignal, AFullCounterIsNotWaitedFor) {
    ASSERT_TRUE(pci::prepare_eventfd_signals());
    const pci::OwnedFd event(::eventfd(0, EFD_CLOEXEC));
    ASSERT_EQ(::eventfd_write(event.get(), full), 0);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(pci::signal_eventfd(event.get()));
    EXPECT_GE(pci::take_eventfd(event.get()), full);
    EXPECT_TRUE(pci::signal_eventfd(event.get()));
    EXPECT_EQ(pci::take_eventfd(event.get()), 1u);
}

TEST(EventfdSignal, NothingIsLostBetweenThreads) {
    ASSERT_TRUE(pci::prepare_eventfd_signals());
    const pci::OwnedFd event(::eventfd(0, EFD_CLOEXEC));
    constexpr unsigned each = 2000;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (unsigned i = 0; i < each; ++i) EXPECT_TRUE(pci::signal_eventfd(event.get()));
        });
    }
    threads.clear();
    EXPECT_EQ(pci::take_eventfd(event.get()), 4u * each);
}

TEST(EventfdSignal, WhatIsNoEventfdIsNotTouched) {
    ASSERT_TRUE(pci::prepare_eventfd_signals());
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC | O_NONBLOCK), 0);
    const pci::OwnedFd read_end(pipe[0]), write_end(pipe[1]);
    EXPECT_FALSE(pci::signal_eventfd(write_end.get()));
    EXPECT_FALSE(pci::signal_eventfd(-1));
    EXPECT_EQ(pci::take_eventfd(read_end.get()), 0u);
}

}  // namespace
}  // namespace mqblk::test
