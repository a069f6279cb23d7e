// SPDX-License-Identifier: Apache-2.0
//
// The request port: descriptors that the host's threads write, taken by the firmware in one thread. A bounded queue
// without a lock; a host that keeps to the number of commands it was told never fills it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mqblk::device::megaraid {

class RequestQueue {
  public:
    static constexpr std::size_t entries = 2048;

    RequestQueue() noexcept {
        for (std::size_t i = 0; i < entries; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
    }

    /// Any thread. False: it is full. Sequentially consistent, as empty() is: a writer that looks afterwards whether
    /// the reader sleeps, and a reader that says so and then looks whether it is empty, cannot both see nothing.
    [[nodiscard]] bool push(std::uint64_t descriptor) noexcept {
        std::size_t place = last_.load(std::memory_order_relaxed);
        for (;;) {
            Cell& cell = cells_[place % entries];
            const auto ahead = static_cast<std::ptrdiff_t>(cell.turn.load(std::memory_order_acquire) - place);
            if (ahead < 0) return false;
            if (ahead > 0) {
                place = last_.load(std::memory_order_relaxed);
            } else if (last_.compare_exchange_weak(place, place + 1, std::memory_order_relaxed)) {
                cell.descriptor = descriptor;
                cell.turn.store(place + 1, std::memory_order_seq_cst);
                return true;
            }
        }
    }

    /// The firmware's thread. False: it is empty.
    [[nodiscard]] bool pop(std::uint64_t& descriptor) noexcept {
        Cell& cell = cells_[first_ % entries];
        if (cell.turn.load(std::memory_order_acquire) != first_ + 1) return false;
        descriptor = cell.descriptor;
        cell.turn.store(first_ + entries, std::memory_order_release);
        ++first_;
        return true;
    }
    [[nodiscard]] bool empty() const noexcept {
        return cells_[first_ % entries].turn.load(std::memory_order_seq_cst) != first_ + 1;
    }

  private:
    struct Cell {
        std::atomic<std::size_t> turn;  ///< whose turn it is: a writer's at its place, the reader's one later
        std::uint64_t descriptor = 0;
    };
    std::array<Cell, entries> cells_;
    alignas(64) std::atomic<std::size_t> last_{0};
    alignas(64) std::size_t first_ = 0;
};

}  // namespace mqblk::device::megaraid
