// SPDX-License-Identifier: Apache-2.0
//
// PairWait: lets a coroutine wait for something on a queue pair that nobody else polls yet: the initialization of a
// connection, the answer to Connect. The coroutine may be destroyed while it waits.
#pragma once

#include "driver/nvme/queue_pair.h"
#include "reactor/reactor.h"

#include <coroutine>
#include <functional>
#include <utility>

namespace mqblk::driver::nvme {

/// `co_await PairWait(…)` ends when `done` says so, when the pair is lost, or at `deadline`, from a pass of the reactor
/// and outside of any call into the pair: then the pair may be destroyed.
class PairWait final : public Poller {
  public:
    PairWait(Reactor& reactor, QueuePair& pair, std::function<bool()> done, Time deadline)
        : reactor_(reactor), pair_(pair), done_(std::move(done)), deadline_(deadline), timer_([] {}) {}
    ~PairWait() { reactor_.remove(*this); }

    bool await_ready() const noexcept { return over(); }
    void await_suspend(std::coroutine_handle<> waiter) {
        waiter_ = waiter;
        timer_.arm(reactor_, deadline_);  // only to be awake then
        reactor_.add(*this);
        arm();
    }
    void await_resume() const noexcept {}

    unsigned poll() noexcept override {
        const unsigned events = pair_.poll();
        pair_.commit();
        if (!over()) {
            arm();
            return events;
        }
        reactor_.remove(*this);
        timer_.cancel();
        waiter_.resume();  // may end this object
        return 1;
    }
    bool prepare_sleep() noexcept override { return pair_.prepare_sleep() && !over(); }

  private:
    /// At every pass, not only before sleep: a reactor that is shared is slept on from outside, by its descriptor.
    void arm() noexcept { static_cast<void>(pair_.prepare_sleep()); }
    [[nodiscard]] bool over() const { return pair_.lost() || done_() || reactor_.now() >= deadline_; }

    Reactor& reactor_;
    QueuePair& pair_;
    std::function<bool()> done_;
    const Time deadline_;
    Timer timer_;
    std::coroutine_handle<> waiter_;
};

}  // namespace mqblk::driver::nvme
