// SPDX-License-Identifier: Apache-2.0
//
// A thread that turns a reactor until it is told to stop: the control thread of a Context, and each core of a served
// target. Idle, it sleeps in the kernel.
#pragma once

#include "base/random.h"
#include "base/task.h"
#include "reactor/reactor.h"

#include <mqblk/error.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace mqblk::registry {

/// From the machine's entropy: another one at every call.
[[nodiscard]] std::uint64_t machine_seed();

class ReactorThread {
  public:
    struct Options {
        std::string name;   ///< of the thread, as the system shows it; 15 characters at most
        int core = -1;      ///< CPU to pin it to; -1: none
        bool poll = false;  ///< never sleeps
        std::uint64_t seed = machine_seed();
    };

    [[nodiscard]] static Result<std::unique_ptr<ReactorThread>> start(const Clock&, Options);
    /// Stops; whatever lives in the reactor must be gone.
    ~ReactorThread();
    ReactorThread(const ReactorThread&) = delete;
    ReactorThread& operator=(const ReactorThread&) = delete;

    [[nodiscard]] Reactor& reactor() noexcept { return *reactor_; }

    /// Runs `work` on the thread and returns when it has run. Not from the thread itself.
    void run(const std::function<void()>& work);

    /// Starts the task that `make` returns, on the thread, and returns its result when it has one.
    template <class Make>
    auto wait_for(Make make) {
        using Value = typename decltype(value_of(make()))::type;
        auto promise = std::make_shared<std::promise<Value>>();  // shared: set_value may outlast get
        auto result = promise->get_future();
        reactor_->post([&make, promise] {
            const std::function<void(Value)> done = [promise](Value value) { promise->set_value(std::move(value)); };
            spawn(make(), done);
        });
        return result.get();
    }

  private:
    template <class T>
    struct Type {
        using type = T;
    };
    template <class T>
    static Type<T> value_of(const Task<T>&);

    ReactorThread(std::unique_ptr<SeededRandom> random, std::unique_ptr<Reactor> reactor);
    void turn(const Options& options);

    std::unique_ptr<SeededRandom> random_;
    std::unique_ptr<Reactor> reactor_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace mqblk::registry
