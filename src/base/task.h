// SPDX-License-Identifier: Apache-2.0
//
// Task: a coroutine for control paths that wait for the other side (connect, identify, scan, reconnect), so that they
// read from top to bottom and run unchanged in real and in simulated time. Lazy: it starts when awaited or spawned.
// A Task has no cancel: whatever it waits for must end by itself, with an error when its object shuts down. The I/O
// path uses no coroutines.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

namespace mqblk {

template <class T>
class [[nodiscard]] Task;

namespace detail {

struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
        const auto next = self.promise().continuation;
        return next ? next : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
};

struct PromiseBase {
    std::coroutine_handle<> continuation;
    std::suspend_always initial_suspend() const noexcept { return {}; }
    FinalAwaiter final_suspend() const noexcept { return {}; }
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
  public:
    struct promise_type : detail::PromiseBase {
        std::optional<T> value;
        Task get_return_object() noexcept { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
        template <class U>
        void return_value(U&& result) {
            value.emplace(std::forward<U>(result));
        }
    };
    Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Task& operator=(Task&&) = delete;
    ~Task() {
        if (handle_) handle_.destroy();
    }

    auto operator co_await() && noexcept {
        struct Awaiter {
            std::coroutine_handle<promise_type> callee;
            bool await_ready() const noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
                callee.promise().continuation = caller;
                return callee;
            }
            T await_resume() const { return std::move(*callee.promise().value); }  // NOLINT: set when it ended
        };
        return Awaiter{handle_};
    }

  private:
    explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    std::coroutine_handle<promise_type> handle_;
};

template <>
class [[nodiscard]] Task<void> {
  public:
    struct promise_type : detail::PromiseBase {
        Task get_return_object() noexcept { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
        void return_void() const noexcept {}
    };
    Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Task& operator=(Task&&) = delete;
    ~Task() {
        if (handle_) handle_.destroy();
    }

    auto operator co_await() && noexcept {
        struct Awaiter {
            std::coroutine_handle<promise_type> callee;
            bool await_ready() const noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
                callee.promise().continuation = caller;
                return callee;
            }
            void await_resume() const noexcept {}
        };
        return Awaiter{handle_};
    }

  private:
    explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    std::coroutine_handle<promise_type> handle_;
};

namespace detail {
struct Detached {
    struct promise_type {
        Detached get_return_object() const noexcept { return {}; }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
};

template <class T, class Done>
Detached run_detached(Task<T> task, Done done) {
    done(co_await std::move(task));
}
template <class Done>
Detached run_detached(Task<void> task, Done done) {
    co_await std::move(task);
    done();
}
}  // namespace detail

/// Starts `task` now, on this thread; `done` gets its result when it has one. The caller sees to it that whatever the
/// task refers to outlives it.
template <class T, class Done>
void spawn(Task<T> task, Done done) {
    detail::run_detached(std::move(task), std::move(done));
}

/// A value that arrives later by a callback: `co_await` it once, `set` it once, on one thread.
template <class T>
class Promise {
  public:
    Promise() = default;
    Promise(const Promise&) = delete;
    Promise& operator=(const Promise&) = delete;

    void set(T value) {
        value_.emplace(std::move(value));
        if (const auto waiter = std::exchange(waiter_, nullptr)) waiter.resume();
    }

    // An awaiter of its own, since GCC 12 awaits a copy of what it is given in some expressions.
    auto operator co_await() noexcept {
        struct Awaiter {
            Promise& promise;
            bool await_ready() const noexcept { return promise.value_.has_value(); }
            void await_suspend(std::coroutine_handle<> waiter) const noexcept { promise.waiter_ = waiter; }
            T await_resume() const { return std::move(*promise.value_); }  // NOLINT: set, or not resumed
        };
        return Awaiter{*this};
    }

  private:
    std::optional<T> value_;
    std::coroutine_handle<> waiter_;
};

}  // namespace mqblk
