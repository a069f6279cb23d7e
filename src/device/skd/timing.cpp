// SPDX-License-Identifier: Apache-2.0
#include "device/skd/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mqblk::device::skd {

using std::chrono::milliseconds;

namespace {

struct Point {
    std::uint32_t bytes;
    double nanoseconds;
};

constexpr double per_second(double operations) noexcept {
    return 1e9 / operations;
}
constexpr std::array<Point, 3> read_cost{
    {{512, per_second(103'000)}, {4096, per_second(81'000)}, {65536, per_second(15'700)}}};
constexpr std::array<Point, 3> write_cost{
    {{512, per_second(62'000)}, {4096, per_second(69'000)}, {65536, per_second(13'900)}}};
// Latency at depth 1 with 512 bytes, published: 88 us and 26 us. The pipe's share comes off.
constexpr double read_latency = 88'000 - read_cost[0].nanoseconds;
constexpr double write_latency = 26'000 - write_cost[0].nanoseconds;
// Not published; of the order of a write.
constexpr Duration control_latency = std::chrono::microseconds(20);
constexpr Duration flush_latency = std::chrono::microseconds(50);

/// Straight lines between the points; beyond the last, its line goes on; below the first, the first.
double cost(const std::array<Point, 3>& points, std::uint32_t bytes) noexcept {
    if (bytes <= points[0].bytes) return points[0].nanoseconds;
    const std::size_t last = bytes <= points[1].bytes ? 1 : 2;
    const Point &from = points[last - 1], &to = points[last];
    return from.nanoseconds + (to.nanoseconds - from.nanoseconds) * (bytes - from.bytes) / (to.bytes - from.bytes);
}

Duration duration_of(double nanoseconds) noexcept {
    return Duration(static_cast<std::int64_t>(nanoseconds + 0.5));
}

}  // namespace

Result<Profile> parse_profile(std::string_view name) {
    for (const Profile profile : {Profile::none, Profile::s1120})
        if (name == to_string(profile)) return profile;
    return fail(Errc::invalid_argument, fmt::format("profile={}: must be none or s1120", name));
}

std::string_view to_string(Profile profile) noexcept {
    return profile == Profile::none ? "none" : "s1120";
}

Time Timing::due(Time now, Work work, std::uint32_t bytes) noexcept {
    if (instant()) return now;
    if (work == Work::control) return now + control_latency;
    if (work == Work::flush) return std::max(now, pipe_free_) + flush_latency;
    const bool read = work == Work::read;
    pipe_free_ = std::max(now, pipe_free_) + duration_of(cost(read ? read_cost : write_cost, bytes));
    return pipe_free_ + duration_of(read ? read_latency : write_latency);
}

Duration Timing::boot() const noexcept {
    return instant() ? Duration{} : milliseconds(500);
}

Duration Timing::soft_reset() const noexcept {
    return instant() ? Duration{} : milliseconds(100);
}

}  // namespace mqblk::device::skd
