// SPDX-License-Identifier: Apache-2.0
//
// From replies to interrupts: a queue that has new replies raises its vector once for each pass of the firmware, as
// long as the host has not masked them; what comes while it has is raised when it unmasks. With INTx the level is the
// reply bit of the status register, which the host writes back to clear. Registers are written by any thread.
#pragma once

#include "pci/model.h"
#include "wire/megaraid.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace mqblk::device::megaraid {

class Interrupts {
  public:
    void attach(pci::Host& host) noexcept { host_ = &host; }
    /// Power-on: nothing is pending, all is masked.
    void reset() noexcept;
    /// Nothing is pending any more, the mask stays.
    void forget() noexcept;

    // The firmware's thread.
    void note(unsigned vector) noexcept {
        fresh_[vector / 64] |= std::uint64_t{1} << (vector % 64);
        noted_ = true;
    }
    [[nodiscard]] bool noted() const noexcept { return noted_; }
    void flush() noexcept;

    // Any thread.
    [[nodiscard]] std::uint32_t status() const noexcept { return status_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint32_t mask() const noexcept { return mask_.load(std::memory_order_relaxed); }
    void clear(std::uint32_t bits) noexcept;  ///< the host wrote ones
    void set_mask(std::uint32_t mask) noexcept;
    void type_changed() noexcept {
        set_pin();
        deliver();
    }

  private:
    static constexpr std::size_t words = wire::megaraid::max_vectors / 64;

    void deliver() noexcept;
    void update_pin() noexcept;
    void set_pin() noexcept;
    void raise(unsigned vector) noexcept;

    pci::Host* host_ = nullptr;
    bool noted_ = false;
    std::array<std::uint64_t, words> fresh_{};
    std::array<std::atomic<std::uint64_t>, words> pending_{};
    std::atomic<std::uint32_t> status_{0}, mask_{~0u};
    std::mutex pin_mutex_;  ///< its level follows from two words
};

}  // namespace mqblk::device::megaraid
