// SPDX-License-Identifier: Apache-2.0
//
// How long the card takes. Two parts: a pipe, which all commands pass one after the other and which bounds the rate,
// and a latency behind it, which any number of commands spend at the same time. With profile s1120 the published card's
// figures come out: IOPS of 512 B, 4 KiB and 64 KiB random reads and writes at depth, and latencies at depth 1.
#pragma once

#include "base/clock.h"

#include <mqblk/error.h>

#include <cstdint>
#include <string_view>

namespace mqblk::device::skd {

enum class Profile : std::uint8_t {
    none,   ///< as fast as it goes
    s1120,  ///< the published figures
};

[[nodiscard]] Result<Profile> parse_profile(std::string_view name);
[[nodiscard]] std::string_view to_string(Profile) noexcept;

enum class Work : std::uint8_t { read, write, flush, control };

class Timing {
  public:
    explicit Timing(Profile profile) noexcept : profile_(profile) {}

    [[nodiscard]] bool instant() const noexcept { return profile_ == Profile::none; }
    /// When a command that begins now may be told done.
    [[nodiscard]] Time due(Time now, Work work, std::uint32_t bytes) noexcept;
    /// Everything in the pipe is dropped.
    void reset() noexcept { pipe_free_ = Time{}; }

    /// From power-on, or from a soft reset, until the firmware is ready for the handshake.
    [[nodiscard]] Duration boot() const noexcept;
    [[nodiscard]] Duration soft_reset() const noexcept;

  private:
    const Profile profile_;
    Time pipe_free_{};
};

}  // namespace mqblk::device::skd
