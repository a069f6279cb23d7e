// SPDX-License-Identifier: Apache-2.0
#include "block/timer_wheel.h"

#include <algorithm>
#include <bit>

namespace mqblk::block {

TimerWheel::TimerWheel(Duration timeout) noexcept {
    // The usual time-out spans 64 to 128 of the 256 slots.
    const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 1024));
    shift_ = static_cast<unsigned>(std::bit_width(ns)) - 7;
}

void TimerWheel::insert(Request& request, Time now) noexcept {
    const std::uint64_t today = std::max(tick_of(now), current_);
    const std::uint64_t tick = std::clamp(slot_tick(request.deadline), today + 1, today + slots - 1);
    Request*& head = heads_[tick % slots];
    request.wheel_next_ = head;
    request.wheel_slot_ = &head;
    if (head != nullptr) head->wheel_slot_ = &request.wheel_next_;
    head = &request;
}

Time TimerWheel::next() const noexcept {
    for (std::uint64_t tick = current_ + 1; tick <= current_ + slots; ++tick)
        if (heads_[tick % slots] != nullptr) return Time(Duration(static_cast<std::int64_t>(tick << shift_)));
    return never;
}

}  // namespace mqblk::block
