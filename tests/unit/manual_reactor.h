// SPDX-License-Identifier: Apache-2.0
//
// A reactor whose time moves only when the test says so, or when it would sleep.
#pragma once

#include "reactor/reactor.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace mqblk::test {

class ManualClock final : public Clock {
  public:
    [[nodiscard]] Time now() const noexcept override { return Time(Duration(ns_.load())); }
    void advance(Duration by) noexcept { ns_.fetch_add(by.count()); }

  private:
    std::atomic<std::int64_t> ns_{1'000'000'000};
};

/// Never sleeps: where it would, time jumps to the next timer. Several threads may each have one.
class ManualReactor final : public Reactor {
  public:
    ManualReactor(ManualClock& clock, Random& random) : Reactor(clock, random), manual_(clock) {}

    void post(std::function<void()> task) override {
        const std::scoped_lock lock(mutex_);
        posted_.push_back(std::move(task));
    }
    void wake() noexcept override { woken_.store(true); }
    unsigned run_once(Sleep sleep, Time deadline = never) override {
        unsigned events = run_timers();
        std::deque<std::function<void()>> tasks;
        {
            const std::scoped_lock lock(mutex_);
            tasks.swap(posted_);
        }
        for (auto& task : tasks) task();
        events += static_cast<unsigned>(tasks.size()) + run_pollers();
        if (events == 0 && sleep == Sleep::yes && !woken_.exchange(false) && pollers_prepare_sleep()) {
            ++sleeps;
            const Time until = std::min(deadline, next_deadline());
            if (until != never && until > now()) manual_.advance(until - now());
        }
        return events;
    }
    void set_spin(Duration) noexcept override {}
    std::unique_ptr<Watch> watch(int, std::function<void()>) override { return nullptr; }
    std::shared_ptr<Reactor> shareable() override { return {std::shared_ptr<void>(), this}; }

    unsigned sleeps = 0;

  private:
    ManualClock& manual_;
    std::mutex mutex_;
    std::deque<std::function<void()>> posted_;
    std::atomic<bool> woken_{false};
};

}  // namespace mqblk::test
