// SPDX-License-Identifier: Apache-2.0
//
// Signal: how callbacks wake the one coroutine that looks after something. It resumes from a timer of the reactor,
// never from within notify(), so that whoever notifies is not destroyed by what follows. Pause: a wait that is only
// time.
#pragma once

#include "reactor/reactor.h"

#include <coroutine>
#include <utility>

namespace mqblk {

/// One waiter at a time. Notifications before the wait are not lost; several count as one.
class Signal {
  public:
    explicit Signal(Reactor& reactor) : reactor_(reactor), timer_([this] { wake(); }) {}

    void notify() {
        pending_ = true;
        if (waiter_) timer_.arm(reactor_, reactor_.now());
    }

    /// `co_await` it: ends after notify(), or at `deadline`.
    auto wait(Time deadline = never) {
        struct Awaiter {
            Signal& signal;
            Time deadline;
            bool await_ready() const noexcept { return std::exchange(signal.pending_, false); }
            void await_suspend(std::coroutine_handle<> waiter) {
                signal.waiter_ = waiter;
                if (deadline != never) signal.timer_.arm(signal.reactor_, deadline);
            }
            void await_resume() const noexcept {}
        };
        return Awaiter{*this, deadline};
    }

  private:
    void wake() {
        pending_ = false;
        if (const auto waiter = std::exchange(waiter_, nullptr)) waiter.resume();
    }

    Reactor& reactor_;
    Timer timer_;
    std::coroutine_handle<> waiter_;
    bool pending_ = false;
};

/// `co_await Pause(reactor, duration)`; may be destroyed while it waits.
class Pause {
  public:
    Pause(Reactor& reactor, Duration duration)
        : reactor_(reactor), duration_(duration), timer_([this] { waiter_.resume(); }) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) {
        waiter_ = waiter;
        timer_.arm(reactor_, reactor_.now() + duration_);
    }
    void await_resume() const noexcept {}

  private:
    Reactor& reactor_;
    const Duration duration_;
    Timer timer_;
    std::coroutine_handle<> waiter_;
};

}  // namespace mqblk
