// SPDX-License-Identifier: Apache-2.0
//
// A world of its own: virtual time, randomness from one seed, and reactors that take turns on one thread in an order
// that the seed decides. Time stands still while anybody has something to do and then jumps to the next event, so an
// hour passes in a moment and one seed replays a whole session to the byte. Nothing in it may block in the kernel.
#pragma once

#include "base/clock.h"
#include "base/random.h"
#include "reactor/reactor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace mqblk {

class SimulatedReactor;

class SimulatedWorld {
  public:
    explicit SimulatedWorld(std::uint64_t seed);
    ~SimulatedWorld();  ///< its reactors are gone
    SimulatedWorld(const SimulatedWorld&) = delete;
    SimulatedWorld& operator=(const SimulatedWorld&) = delete;

    [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
    [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
    [[nodiscard]] Time now() const noexcept { return clock_.now(); }
    /// For the world itself and its network; each reactor has its own.
    [[nodiscard]] Random& random() noexcept { return random_; }

    /// A "thread" more. Its run_once(Sleep::yes) lets the world go on until that reactor has something to do; it throws
    /// std::runtime_error when nothing can ever happen again and there is no deadline (a hang, in real life). Waits
    /// nest on the one stack: of two reactors that wait, the one that began later must be able to end first.
    [[nodiscard]] std::unique_ptr<Reactor> make_reactor();

    /// Runs `event` at `time` (now, if that is past); events of equal time in order of this call.
    using EventId = std::pair<Time, std::uint64_t>;
    EventId at(Time time, std::function<void()> event);
    void cancel(const EventId&) noexcept;  ///< no effect once it has run

    /// Lets the world go on until `done()`, which is asked after every pass, or for `bound` of virtual time. Returns
    /// whether it was done. Ends at once when nothing can ever happen again.
    bool run_until(const std::function<bool()>& done, Duration bound);
    void run_for(Duration);

  private:
    friend class SimulatedReactor;
    class VirtualClock final : public Clock {
      public:
        // Not zero: nobody may take zero for "not set".
        Time time{std::chrono::seconds(1000)};
        [[nodiscard]] Time now() const noexcept override { return time; }
    };

    /// One turn of a reactor or, if none has anything to do, one jump in time, to `limit` at most. False: it is
    /// `limit`, or nothing can happen.
    bool step(Time limit);
    bool advance(Time limit);
    void run_events();

    const std::uint64_t seed_;
    VirtualClock clock_;
    SeededRandom random_;
    std::vector<SimulatedReactor*> reactors_;  ///< in order of creation
    std::vector<SimulatedReactor*> runnable_;  ///< scratch for step()
    std::map<EventId, std::function<void()>> events_;
    std::uint64_t next_event_ = 0;
    std::uint64_t turns_at_this_time_ = 0;
    Duration tick_{};
};

}  // namespace mqblk
