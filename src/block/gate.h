// SPDX-License-Identifier: Apache-2.0
//
// Gate: stops one thread's calls into a driver from another thread, at no cost to the one that calls. The caller marks
// itself inside with a plain store and then looks whether the gate is closed; who closes it makes every thread of the
// process pass a memory barrier (membarrier(2)) and then waits until nobody is inside. So the caller saw the gate
// closed, or the closer sees the caller inside. Where the system has no membarrier, and for ThreadSanitizer, which does
// not know it, both sides use ordinary sequentially consistent accesses.
#pragma once

#include <atomic>
#include <cstdint>

namespace mqblk::block {

class Gate {
  public:
    /// Why it is closed; bits.
    enum Reason : std::uint8_t {
        quiesced = 1,  ///< the driver is not to be called
        frozen = 2,    ///< no request is to be begun
    };

    /// Marks the owning thread inside; returns the reasons why it may not go on. Always followed by leave().
    [[nodiscard]] std::uint8_t enter() noexcept {
        if (light_) [[likely]] {
            inside_.store(true, std::memory_order_relaxed);
            std::atomic_signal_fence(std::memory_order_seq_cst);
            return closed_.load(std::memory_order_relaxed);
        }
        inside_.store(true, std::memory_order_seq_cst);
        return closed_.load(std::memory_order_seq_cst);
    }
    void leave() noexcept { inside_.store(false, std::memory_order_release); }

    [[nodiscard]] std::uint8_t closed() const noexcept { return closed_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool inside() const noexcept { return inside_.load(); }

    // For the one who closes it. Calls to these are serialised by the caller.
    void close(Reason reason) noexcept { closed_.fetch_or(reason); }
    void open(Reason reason) noexcept { closed_.fetch_and(static_cast<std::uint8_t>(~reason)); }
    /// After close(): what enters from now on sees it. One call serves any number of gates.
    static void barrier() noexcept;

  private:
    static bool register_membarrier() noexcept;
    static const bool light_;

    std::atomic<bool> inside_{false};
    std::atomic<std::uint8_t> closed_{0};
};

}  // namespace mqblk::block
