// SPDX-License-Identifier: Apache-2.0
//
// Reactor: one thread's event loop. It runs pollers, timers and tasks posted by other threads, polls for a short while
// when there is nothing to do, then sleeps in the kernel until something happens. Everything but post() and wake() is
// for the thread that runs it. A simulated reactor (reactor/simulated.h) runs the same code in virtual time.
#pragma once

#include "base/clock.h"
#include "base/random.h"

#include <cassert>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace mqblk {

class Reactor;

/// Something that may have work at any pass. Intrusive: it is in at most one reactor's list.
class Poller {
  public:
    Poller() = default;
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;

    /// Does what can be done without blocking; returns the number of events handled.
    virtual unsigned poll() noexcept = 0;

    /// The reactor is about to sleep. Arrange that it is woken (watch a descriptor, arm a timer, tell the other thread)
    /// and return true, or return false: there is work already, do not sleep. May remove itself from the reactor, as
    /// an idle connection does, and add itself again when its descriptor is ready.
    virtual bool prepare_sleep() noexcept = 0;

  protected:
    virtual ~Poller() { assert(!listed_); }  ///< take it out of its reactor first

  private:
    friend class PollerList;
    Poller* next_ = nullptr;
    Poller* previous_ = nullptr;
    bool listed_ = false;
};

/// Runs `expired` once at or after its time. Intrusive; re-arm it as often as wanted. Destroying it cancels it.
class Timer {
  public:
    explicit Timer(std::function<void()> expired) : expired_(std::move(expired)) {}
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

    void arm(Reactor&, Time deadline);  ///< moves it when it is armed already (same reactor)
    void cancel() noexcept;
    [[nodiscard]] bool armed() const noexcept { return reactor_ != nullptr; }

  private:
    friend class Reactor;
    friend class TimerHeap;
    std::function<void()> expired_;
    Reactor* reactor_ = nullptr;
    Time deadline_ = never;
    std::size_t position_ = 0;
};

/// A descriptor that wakes the reactor. One shot: after `ready` it must be armed again.
class Watch {
  public:
    virtual ~Watch() = default;            ///< disarms
    virtual void arm(bool for_write) = 0;  ///< ready to read, or else to write; idempotent while armed
    virtual void disarm() noexcept = 0;
};

class Reactor {
  public:
    enum class Sleep : bool { no, yes };

    virtual ~Reactor();
    Reactor(const Reactor&) = delete;
    Reactor& operator=(const Reactor&) = delete;

    [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
    [[nodiscard]] Time now() const noexcept { return clock_.now(); }
    [[nodiscard]] Random& random() noexcept { return random_; }

    void add(Poller&) noexcept;     ///< no effect if it is listed already
    void remove(Poller&) noexcept;  ///< also from within its own poll()

    /// Runs `task` on the reactor's thread, in order of posting. Any thread.
    virtual void post(std::function<void()> task) = 0;
    /// Ends a sleep now, or the next one at once. Any thread.
    virtual void wake() noexcept = 0;

    /// One pass: timers due, posted tasks, every poller once. With Sleep::yes, and nothing done, it goes on polling
    /// for the spin time and then sleeps until something happens or `deadline`. Returns events handled.
    virtual unsigned run_once(Sleep, Time deadline = never) = 0;

    /// How long to poll before sleeping. Zero sleeps at once, Duration::max() never.
    virtual void set_spin(Duration) noexcept = 0;

    /// Calls `ready` from a pass when `fd` is readable (or writable). Real reactors only; null from simulated ones.
    [[nodiscard]] virtual std::unique_ptr<Watch> watch(int fd, std::function<void()> ready) = 0;

    /// A reactor that several threads may run in turn under a lock of their own and that a sleeping reactor can watch
    /// through `fd()`: what a hardware queue lives in when channels outnumber queues. A simulated one returns itself.
    /// Null when the kernel has no more of them to give. It may outlive this one, but not this one's clock.
    [[nodiscard]] virtual std::shared_ptr<Reactor> shareable() = 0;
    /// Readable when run_once(Sleep::no) would find kernel events; -1 if there is no such descriptor.
    [[nodiscard]] virtual int fd() const noexcept { return -1; }
    /// Earliest armed timer.
    [[nodiscard]] Time next_deadline() const noexcept;
    /// For whoever sleeps on fd() in this reactor's stead: asks its pollers; false as soon as one objects.
    [[nodiscard]] bool prepare_sleep() noexcept { return pollers_prepare_sleep(); }

  protected:
    Reactor(const Clock& clock, Random& random);
    unsigned run_timers() noexcept;
    unsigned run_pollers() noexcept;
    bool pollers_prepare_sleep() noexcept;  ///< false as soon as one objects

  private:
    friend class Timer;
    struct Lists;
    const Clock& clock_;
    Random& random_;
    std::unique_ptr<Lists> lists_;
};

}  // namespace mqblk
