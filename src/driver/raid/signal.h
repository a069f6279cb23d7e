// SPDX-License-Identifier: Apache-2.0
//
// Signal: wakes the one coroutine that keeps an array. It resumes from a timer of the reactor, never from within
// notify(). The reactor's thread only.
#pragma once

#include "reactor/reactor.h"

#include <coroutine>
#include <utility>

namespace mqblk::driver::raid {

class Signal {
  public:
    explicit Signal(Reactor& reactor) : reactor_(reactor), timer_([this] { wake(); }) {}

    void notify() {
        pending_ = true;
        if (waiter_) timer_.arm(reactor_, reactor_.now());
    }
    /// `co_await` it: ends after notify(), also one that came before, or at `deadline`.
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

}  // namespace mqblk::driver::raid
