// SPDX-License-Identifier: Apache-2.0
//
// WaitBudget: how long one thread may still wait for a peer that hands over its memory piece by piece. Each answer may
// be slow once, but slow answers add up: in one pass of the event loop to a bound, and from pass to pass as a debt that
// is worked off by time in which nobody waits. Quick answers cost nothing from pass to pass, however many they are.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mqblk::pci {

class WaitBudget {
  public:
    /// A monitor that is stopped for a moment is forgiven.
    static constexpr std::int64_t bound_ns = 2'000'000'000;
    static constexpr std::int64_t quick_ns = 50'000'000;  ///< also on a loaded machine
    /// Of this much time one part may be spent on waiting for slow answers.
    static constexpr std::int64_t worked_off_by = 8;

    /// A pass of the event loop begins.
    void next_pass() noexcept { pass_ns_ = 0; }

    /// How long the wait that begins at `now_ns` may take; none is left at 0.
    [[nodiscard]] std::int64_t left_ns(std::int64_t now_ns) noexcept {
        debt_ns_ = std::max<std::int64_t>(debt_ns_ - (now_ns - seen_ns_) / worked_off_by, 0);
        seen_ns_ = now_ns;
        return std::max<std::int64_t>(bound_ns - std::max(pass_ns_, debt_ns_), 0);
    }

    /// The wait that left_ns() was asked about has ended.
    void spent(std::int64_t now_ns) noexcept {
        const std::int64_t took_ns = now_ns - seen_ns_;
        seen_ns_ = now_ns;
        pass_ns_ += took_ns;
        if (took_ns > quick_ns) debt_ns_ += took_ns;
    }

  private:
    std::int64_t pass_ns_ = 0, debt_ns_ = 0;
    std::int64_t seen_ns_ = 0;  ///< up to here the debt is right
};

}  // namespace mqblk::pci
