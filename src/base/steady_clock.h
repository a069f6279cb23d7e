// SPDX-License-Identifier: Apache-2.0
//
// The machine's monotonic clock, made cheap: where the kernel itself trusts the time stamp counter, time is one
// instruction and one multiplication. Counts the nanoseconds of CLOCK_MONOTONIC, to within its calibration (some parts
// per million), and never goes back, whichever threads compare their readings.
#pragma once

#include "base/clock.h"

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace mqblk {

namespace detail {
/// How to turn the counter into time; constant once `ready`.
struct TscScale {
    std::atomic<bool> ready{false};
    std::uint64_t base_ticks = 0;
    std::int64_t base_ns = 0;
    std::uint64_t ns_per_tick_q32 = 0;  ///< nanoseconds per tick, times 2^32
};
extern TscScale tsc_scale;
}  // namespace detail

class SteadyClock final : public Clock {
  public:
    [[nodiscard]] Time now() const noexcept override {
#if defined(__x86_64__)
        if (calibrated()) return from_ticks(ordered_ticks());
#endif
        return read_kernel();
    }

    /// The same for half the price (no virtual call, no waiting for earlier loads), for intervals that begin and end on
    /// one thread. Against another thread's reading it may be early by what a processor executes ahead: some 100 ns.
    [[nodiscard]] static Time read() noexcept {
#if defined(__x86_64__)
        if (calibrated()) return from_ticks(__rdtsc());
#endif
        return read_kernel();
    }

    /// Whether time comes from the counter by now. It takes the process's first milliseconds to find its rate.
    [[nodiscard]] static bool calibrated() noexcept { return detail::tsc_scale.ready.load(std::memory_order_acquire); }

  private:
    static Time read_kernel() noexcept;

#if defined(__x86_64__)
    /// Ordered after earlier loads, or a thread that has seen another's reading could read an earlier time.
    static std::uint64_t ordered_ticks() noexcept {
        _mm_lfence();
        return __rdtsc();
    }
    static Time from_ticks(std::uint64_t ticks) noexcept {
        const auto& scale = detail::tsc_scale;
        const auto elapsed = static_cast<unsigned __int128>(ticks - scale.base_ticks) * scale.ns_per_tick_q32;
        return Time(Duration(scale.base_ns + static_cast<std::int64_t>(elapsed >> 32)));
    }
    friend struct TscCalibration;
#endif
};

}  // namespace mqblk
