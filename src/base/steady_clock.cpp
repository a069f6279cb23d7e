// SPDX-License-Identifier: Apache-2.0
//
// Calibration of the time stamp counter against CLOCK_MONOTONIC. The first reading of the process starts it; the first
// one at least `window` later ends it. Until then, and for ever where the kernel does not use the counter itself (it
// knows better whether the counters of all processors agree), readings are the kernel's.
#include "base/steady_clock.h"

#include <ctime>
#include <fstream>
#include <mutex>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mqblk {

namespace detail {
TscScale tsc_scale;
}

namespace {
std::int64_t kernel_ns() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
}  // namespace

#if defined(__x86_64__)

struct TscCalibration {
    struct Pair {
        std::uint64_t ticks;
        std::int64_t ns;
    };

    // 10 ms: the two ends are each known to some 30 ns, which makes the rate right to a few parts per million.
    static constexpr std::int64_t window_ns = 10'000'000;
    // Added at the change-over, so that a reading by the counter is never before one just made by the kernel.
    static constexpr std::int64_t guard_ns = 1'000;

    const bool usable = counter_is_trusted();
    const Pair start = usable ? pair() : Pair{0, 0};
    std::mutex mutex;

    static bool counter_is_trusted() noexcept {
        unsigned a = 0, b = 0, c = 0, d = 0;
        const bool invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
        if (!invariant) return false;
        std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        std::string source;
        return file >> source && source == "tsc";
    }

    /// Both clocks at one moment: the closest of several attempts, in case one is interrupted.
    static Pair pair() noexcept {
        Pair best{0, 0};
        std::uint64_t best_width = ~0ull;
        for (int attempt = 0; attempt < 8; ++attempt) {
            const std::uint64_t before = SteadyClock::ordered_ticks();
            const std::int64_t ns = kernel_ns();
            const std::uint64_t width = SteadyClock::ordered_ticks() - before;
            if (width < best_width) {
                best_width = width;
                best = {before + width / 2, ns};
            }
        }
        return best;
    }

    void finish() noexcept {
        const std::unique_lock lock(mutex, std::try_to_lock);
        auto& scale = detail::tsc_scale;
        if (!lock || scale.ready.load(std::memory_order_relaxed)) return;
        const Pair end = pair();
        const auto ns = static_cast<std::uint64_t>(end.ns - start.ns);
        scale.ns_per_tick_q32 =
            static_cast<std::uint64_t>((static_cast<unsigned __int128>(ns) << 32) / (end.ticks - start.ticks));
        scale.base_ticks = end.ticks;
        scale.base_ns = end.ns + guard_ns;
        scale.ready.store(true, std::memory_order_release);
    }
};

Time SteadyClock::read_kernel() noexcept {
    static TscCalibration calibration;
    std::int64_t ns = kernel_ns();
    if (calibration.usable) {
        if (ns - calibration.start.ns >= TscCalibration::window_ns) calibration.finish();
        // Another thread may have changed over meanwhile and be ahead of the kernel by the guard.
        if (calibrated()) return from_ticks(ordered_ticks());
    }
    return Time(Duration(ns));
}

#else

Time SteadyClock::read_kernel() noexcept {
    return Time(Duration(kernel_ns()));
}

#endif

}  // namespace mqblk
