// SPDX-License-Identifier: Apache-2.0
#include "cli/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>

namespace mqblk::cli {

namespace {

// A handler reaches nothing but what is global.
std::atomic<int> caught_signal{0};
std::atomic<int> signals_caught{0};
std::atomic<int> most_signals{2};  // one more ends the process
std::atomic<int> wake_descriptor{-1};
std::atomic<bool> is_bounded{false};

void tell_waiter() noexcept {
    const std::uint64_t one = 1;
    const int fd = wake_descriptor.load();
    if (fd >= 0) [[maybe_unused]]
        const auto written = ::write(fd, &one, sizeof one);
}

void on_signal(int number) {
    const int saved = errno;
    if (signals_caught.fetch_add(1) >= most_signals.load()) ::_exit(128 + number);
    caught_signal.store(number);
    if (is_bounded.load()) ::alarm(Signals::Bounded::patience);
    tell_waiter();
    errno = saved;
}

void on_alarm(int) {
    if (is_bounded.load()) ::_exit(128 + caught_signal.load());
}

void handle_signals_with(void (*handler)(int)) noexcept {
    struct sigaction action{};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

Signals::Signals(Second second) {
    most_signals = second == Second::is_told ? 2 : 1;
    wake_descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    handle_signals_with(on_signal);
}

Signals::~Signals() {
    handle_signals_with(SIG_DFL);
    ::close(wake_descriptor.exchange(-1));
}

Signals::Bounded::Bounded() noexcept {
    struct sigaction action{};
    action.sa_handler = on_alarm;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, nullptr);
    is_bounded = true;
    if (caught() != 0) ::alarm(patience);
}

Signals::Bounded::~Bounded() {
    is_bounded = false;
    ::alarm(0);
}

int Signals::caught() noexcept {
    return caught_signal.load(std::memory_order_relaxed);
}

bool Signals::gave_up() noexcept {
    return signals_caught.load(std::memory_order_relaxed) >= 2;
}

void Signals::wait(Duration time) noexcept {
    pollfd entry{wake_descriptor.load(), POLLIN, 0};
    using std::chrono::milliseconds;
    const auto ms = time < Duration::zero() ? -1 : std::chrono::ceil<milliseconds>(time).count();
    if (::poll(&entry, 1, static_cast<int>(std::min<long>(ms, 1000000000))) <= 0) return;
    std::uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(entry.fd, &count, sizeof count);
}

void Signals::wake() noexcept {
    tell_waiter();
}

int Signals::fd() const noexcept {
    return wake_descriptor.load();
}

}  // namespace mqblk::cli
