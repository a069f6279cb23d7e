// SPDX-License-Identifier: Apache-2.0
//
// Time as an interface, so that a simulation can own it. All times are monotonic; nothing in mqblk decides by wall
// clock.
#pragma once

#include <chrono>

namespace mqblk {

using Duration = std::chrono::nanoseconds;
struct Monotonic {};
using Time = std::chrono::time_point<Monotonic, Duration>;

inline constexpr Time never = Time::max();

class Clock {
  public:
    virtual ~Clock() = default;
    /// Cheap enough to call twice per I/O. Never goes back. Any thread.
    [[nodiscard]] virtual Time now() const noexcept = 0;
};

}  // namespace mqblk
