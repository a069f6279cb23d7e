// SPDX-License-Identifier: Apache-2.0
//
// A reactor whose time moves only when the test says so.
#pragma once

#include "reactor/reactor.h"

namespace mqblk::test {

class ManualClock final : public Clock {
  public:
    [[nodiscard]] Time now() const noexcept override { return now_; }
    Time now_{Duration(1)};
};

struct ManualParts {
    ManualClock manual_clock;
    SeededRandom seeded{1};
};

class ManualReactor final : private ManualParts, public Reactor {
  public:
    ManualReactor() : Reactor(ManualParts::manual_clock, ManualParts::seeded) {}
    void advance(Duration by) {
        manual_clock.now_ += by;
        run_timers();
    }
    void post(std::function<void()> task) override { task(); }
    void wake() noexcept override {}
    unsigned run_once(Sleep, Time) override { return run_timers() + run_pollers(); }
    void set_spin(Duration) noexcept override {}
    std::unique_ptr<Watch> watch(int, std::function<void()>) override { return nullptr; }
    std::shared_ptr<Reactor> shareable() override { return nullptr; }
};

}  // namespace mqblk::test
