// SPDX-License-Identifier: Apache-2.0
//
// What every reactor has: the list of pollers and the timers. Callbacks may add, remove and destroy whatever they like,
// themselves and their neighbours included, and may run the reactor again from within.
#include "reactor/reactor.h"

#include "reactor/timer_heap.h"

#include <cassert>

namespace mqblk {

/// Pollers in a list with a cursor for each pass under way, which steps on when its poller is taken out.
class PollerList {
  public:
    ~PollerList() {
        while (first_ != nullptr) remove(*first_);
    }

    /// At the front, where passes under way have been already: a poller that takes itself out and in again is not
    /// visited twice in one pass.
    void add(Poller& poller) noexcept {
        if (poller.listed_) return;
        poller.listed_ = true;
        poller.previous_ = nullptr;
        poller.next_ = first_;
        if (first_ != nullptr) first_->previous_ = &poller;
        first_ = &poller;
    }

    void remove(Poller& poller) noexcept {
        if (!poller.listed_) return;
        for (Cursor* cursor = cursors_; cursor != nullptr; cursor = cursor->outer) {
            if (cursor->next == &poller) cursor->next = poller.next_;
        }
        (poller.previous_ != nullptr ? poller.previous_->next_ : first_) = poller.next_;
        if (poller.next_ != nullptr) poller.next_->previous_ = poller.previous_;
        poller.listed_ = false;
    }

    /// Visits each until `visit` returns false; returns whether all were visited.
    template <class Visit>
    bool for_each(Visit visit) noexcept {
        Cursor cursor{first_, cursors_};
        cursors_ = &cursor;
        bool go_on = true;
        while (go_on && cursor.next != nullptr) {
            Poller& poller = *cursor.next;
            cursor.next = poller.next_;
            go_on = visit(poller);
        }
        cursors_ = cursor.outer;
        return go_on;
    }

  private:
    struct Cursor {
        Poller* next;
        Cursor* outer;
    };
    Poller* first_ = nullptr;
    Cursor* cursors_ = nullptr;
};

struct Reactor::Lists {
    PollerList pollers;
    TimerHeap timers;
};

Reactor::Reactor(const Clock& clock, Random& random)
    : clock_(clock), random_(random), lists_(std::make_unique<Lists>()) {}

Reactor::~Reactor() = default;

void Reactor::add(Poller& poller) noexcept {
    lists_->pollers.add(poller);
}
void Reactor::remove(Poller& poller) noexcept {
    lists_->pollers.remove(poller);
}

Time Reactor::next_deadline() const noexcept {
    return lists_->timers.earliest();
}

unsigned Reactor::run_timers() noexcept {
    TimerHeap& timers = lists_->timers;
    return timers.empty() ? 0 : timers.run(now());
}

unsigned Reactor::run_pollers() noexcept {
    unsigned events = 0;
    lists_->pollers.for_each([&](Poller& poller) {
        events += poller.poll();
        return true;
    });
    return events;
}

bool Reactor::pollers_prepare_sleep() noexcept {
    return lists_->pollers.for_each([](Poller& poller) { return poller.prepare_sleep(); });
}

Timer::~Timer() {
    cancel();
}

void Timer::arm(Reactor& reactor, Time deadline) {
    assert(reactor_ == nullptr || reactor_ == &reactor);
    reactor.lists_->timers.arm(*this, reactor, deadline);
}

void Timer::cancel() noexcept {
    if (reactor_ != nullptr) reactor_->lists_->timers.cancel(*this);
}

}  // namespace mqblk
