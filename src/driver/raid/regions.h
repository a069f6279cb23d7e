// SPDX-License-Identifier: Apache-2.0
//
// The write-intent bits in memory: for each region of stripes whether stable media say that it may be out of step, and
// how many writes are at work in it. Writers begin and end with one atomic operation; the array's keeper alone sets and
// clears what is on media. A write never begins where its bit is not on media.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace mqblk::driver::raid {

class Regions {
  public:
    explicit Regions(std::uint32_t count)
        : count_(count), words_(std::make_unique<std::atomic<std::uint32_t>[]>(count)) {}

    [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
    /// Grows when all bits were taken back at once: what began before is not to end.
    [[nodiscard]] std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

    /// A write begins; false: the bit is not on media, ask for it.
    [[nodiscard]] bool begin(std::uint32_t region) noexcept {
        std::uint32_t word = words_[region].load(std::memory_order_acquire);
        do {
            if ((word & marked) == 0) return false;
        } while (!words_[region].compare_exchange_weak(word, (word + 1) | used, std::memory_order_acq_rel));
        return true;
    }
    void end(std::uint32_t region, std::uint32_t generation) noexcept {
        if (generation == generation_.load(std::memory_order_acquire))
            words_[region].fetch_sub(1, std::memory_order_acq_rel);
    }

    // The keeper's.
    [[nodiscard]] bool is_marked(std::uint32_t region) const noexcept {
        return (words_[region].load(std::memory_order_acquire) & marked) != 0;
    }
    void mark(std::uint32_t region) noexcept { words_[region].fetch_or(marked, std::memory_order_acq_rel); }
    /// Nothing has begun in it since the last call, and nothing is at work.
    [[nodiscard]] bool is_idle(std::uint32_t region) noexcept {
        const std::uint32_t before = words_[region].fetch_and(~used, std::memory_order_acq_rel);
        return (before & ~marked) == 0;
    }
    /// Takes the bit back, unless something has begun meanwhile.
    [[nodiscard]] bool unmark(std::uint32_t region) noexcept {
        std::uint32_t word = marked;
        return words_[region].compare_exchange_strong(word, 0, std::memory_order_acq_rel);
    }
    /// Takes all back. Nothing is at work but what is never to end.
    void reset() noexcept {
        generation_.fetch_add(1, std::memory_order_acq_rel);
        for (std::uint32_t i = 0; i < count_; ++i) words_[i].store(0, std::memory_order_release);
    }

  private:
    static constexpr std::uint32_t marked = 1u << 31, used = 1u << 30;

    std::uint32_t count_;
    std::atomic<std::uint32_t> generation_{0};
    std::unique_ptr<std::atomic<std::uint32_t>[]> words_;
};

}  // namespace mqblk::driver::raid
