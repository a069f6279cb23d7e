// SPDX-License-Identifier: Apache-2.0
//
// How long an idle reactor polls before it sleeps. It learns from how each wait ended: polling that found work earns
// the full time; polling that found none halves it, down to none. What brings it back are sleeps so short that polling
// on would have caught their end, and ever more of them each time that this turned out to be an error (as it does where
// the peer needs the processor that polls).
#pragma once

#include "base/clock.h"

#include <algorithm>

namespace mqblk {

class SpinBudget {
  public:
    explicit SpinBudget(Duration full) noexcept : full_(full), now_(full) {}

    void set(Duration full) noexcept { *this = SpinBudget(full); }
    [[nodiscard]] Duration now() const noexcept { return now_; }

    /// Work came while polling.
    void paid() noexcept {
        now_ = full_;
        short_sleeps_needed_ = 1;
        short_sleeps_ = 0;
    }

    /// Polling for now() found nothing, and the sleep after it lasted for `slept`.
    void failed(Duration slept) noexcept {
        if (now_ == Duration::max()) return;
        if (now_ > Duration::zero()) {
            now_ = now_ > least ? now_ / 2 : Duration::zero();
            if (now_ == Duration::zero()) short_sleeps_needed_ = std::min(2 * short_sleeps_needed_, 1024u);
        }
        if (slept >= full_) {
            short_sleeps_ = 0;
        } else if (++short_sleeps_ >= short_sleeps_needed_) {
            short_sleeps_ = 0;
            if (now_ == Duration::zero()) now_ = full_;
        }
    }

  private:
    static constexpr Duration least = std::chrono::microseconds(4);
    Duration full_;
    Duration now_;
    unsigned short_sleeps_needed_ = 1;
    unsigned short_sleeps_ = 0;
};

}  // namespace mqblk
