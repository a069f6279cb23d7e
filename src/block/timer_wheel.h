// SPDX-License-Identifier: Apache-2.0
//
// TimerWheel: requests in flight by deadline. Putting in and taking out is a few stores; nothing is sorted. A request
// is found late by at most one tick, which is about a hundredth of the queue's time-out. Deadlines beyond the wheel's
// round wait in its last slot and are put in again from there.
#pragma once

#include "block/request.h"

#include <array>
#include <cstdint>

namespace mqblk::block {

class TimerWheel {
  public:
    /// `timeout`: what most deadlines lie ahead; sets the tick.
    explicit TimerWheel(Duration timeout) noexcept;

    void insert(Request&, Time now) noexcept;
    static void remove(Request& request) noexcept {
        if (request.wheel_slot_ == nullptr) return;
        *request.wheel_slot_ = request.wheel_next_;
        if (request.wheel_next_ != nullptr) request.wheel_next_->wheel_slot_ = request.wheel_slot_;
        request.wheel_slot_ = nullptr;
    }

    /// Takes out every request whose deadline has passed and calls late(Request&), which may insert and remove.
    template <class Fn>
    void expire(Time now, Fn&& late) noexcept;

    /// When expire() is worth calling next; never if the wheel is empty. Walks the slots: not for each I/O.
    [[nodiscard]] Time next() const noexcept;
    /// When the slot of a request that was put in comes due.
    [[nodiscard]] Time due(const Request& request) const noexcept {
        return Time(Duration(static_cast<std::int64_t>(slot_tick(request.deadline) << shift_)));
    }
    [[nodiscard]] Duration tick() const noexcept { return Duration(std::int64_t{1} << shift_); }

  private:
    static constexpr unsigned slots = 256;

    [[nodiscard]] std::uint64_t tick_of(Time time) const noexcept {
        return static_cast<std::uint64_t>(time.time_since_epoch().count()) >> shift_;
    }
    /// The first tick at whose start the deadline has passed.
    [[nodiscard]] std::uint64_t slot_tick(Time deadline) const noexcept { return tick_of(deadline) + 1; }

    std::array<Request*, slots> heads_{};
    std::uint64_t current_ = 0;  // every slot up to this tick has been looked at
    unsigned shift_;
};

template <class Fn>
void TimerWheel::expire(Time now, Fn&& late) noexcept {
    const std::uint64_t until = tick_of(now);
    // One round at most: after a long sleep every slot is due once.
    if (until > current_ + slots) current_ = until - slots;
    while (current_ < until) {
        ++current_;
        Request* list = heads_[current_ % slots];
        heads_[current_ % slots] = nullptr;
        if (list != nullptr) list->wheel_slot_ = &list;
        while (list != nullptr) {
            Request& request = *list;
            remove(request);
            if (request.deadline > now) {
                insert(request, now);
            } else {
                late(request);
            }
        }
    }
}

}  // namespace mqblk::block
