// SPDX-License-Identifier: Apache-2.0
//
// SharedReplies: the only reply queue of a controller that has one interrupt for everything, as the control path and
// the one hardware queue share it. Whoever looks takes what is its own: the hardware queue hands the control path's
// answers over as bits; the control path leaves the hardware queue's where they are and wakes it. The interrupt is the
// control reactor's; while the hardware queue polls it need not be armed, and costs nothing.
#pragma once

#include "driver/megaraid/command_memory.h"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace mqblk::driver::megaraid {

class SharedReplies {
  public:
    static_assert(reserved_tags <= 32);

    /// Of the reply queue.
    [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }
    [[nodiscard]] static bool is_internal(std::uint16_t smid) noexcept { return tag_of(smid) < reserved_tags; }

    // What the hardware queue found for the control path.

    /// False: it had been handed over already.
    [[nodiscard]] bool hand_over(std::uint16_t smid) noexcept {
        const std::uint32_t bit = 1u << tag_of(smid);
        return (ended_.fetch_or(bit, std::memory_order_acq_rel) & bit) == 0;
    }
    /// Bits of tags.
    [[nodiscard]] std::uint32_t take_over() noexcept { return ended_.exchange(0, std::memory_order_acq_rel); }

    // Either the hardware queue polls or the interrupt is armed: each says what it does and then looks what the other
    // has said.

    void polls() noexcept {
        if (!polled_.load(std::memory_order_relaxed)) polled_.store(true, std::memory_order_seq_cst);
    }
    /// The hardware queue polls no more. True: the interrupt is to be armed.
    [[nodiscard]] bool stops_polling() noexcept {
        polled_.store(false, std::memory_order_seq_cst);
        return !armed_.load(std::memory_order_seq_cst);
    }
    void set_armed(bool armed) noexcept { armed_.store(armed, std::memory_order_seq_cst); }
    [[nodiscard]] bool armed() const noexcept { return armed_.load(std::memory_order_seq_cst); }
    [[nodiscard]] bool polled() const noexcept { return polled_.load(std::memory_order_seq_cst); }

  private:
    std::mutex mutex_;
    std::atomic<std::uint32_t> ended_{0};
    std::atomic<bool> polled_{false}, armed_{false};
};

}  // namespace mqblk::driver::megaraid
