// SPDX-License-Identifier: Apache-2.0
//
// OwnedTask: a task that its owner may give up. Destroying a waiting coroutine destroys its frames from the outside in,
// and with them whatever they wait on; so only tasks may be owned whose every wait withdraws itself when destroyed (a
// connection attempt, PairWait).
#pragma once

#include "base/task.h"

#include <coroutine>
#include <exception>
#include <utility>

namespace mqblk::driver::nvme {

class OwnedTask {
  public:
    OwnedTask() = default;
    ~OwnedTask() { cancel(); }
    OwnedTask(const OwnedTask&) = delete;
    OwnedTask& operator=(const OwnedTask&) = delete;

    /// Starts it now. The one before has ended or was given up. Must not be destroyed or cancelled from within.
    void start(Task<void> task) {
        cancel();
        handle_ = run(std::move(task)).handle;
        handle_.resume();
    }
    void cancel() noexcept {
        if (const auto handle = std::exchange(handle_, nullptr)) handle.destroy();
    }

  private:
    struct Frame {
        struct promise_type {
            Frame get_return_object() noexcept { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
            std::suspend_always initial_suspend() const noexcept { return {}; }
            std::suspend_always final_suspend() const noexcept { return {}; }
            void return_void() const noexcept {}
            [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
        };
        std::coroutine_handle<promise_type> handle;
    };
    static Frame run(Task<void> task) { co_await std::move(task); }

    std::coroutine_handle<Frame::promise_type> handle_;
};

}  // namespace mqblk::driver::nvme
