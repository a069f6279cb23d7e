// SPDX-License-Identifier: Apache-2.0
//
// The reply queue of the MFI generation as its consumer: a ring of contexts in memory, with the firmware's index and
// ours beside it. A context is a SMID. The firmware may write there at any time: its index is read once for each
// answer, and one beyond the ring ends all reading.
#pragma once

#include "base/endian.h"
#include "driver/megaraid/reply_queue.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mqblk::driver::megaraid {

class MfiReplies final : public ReplyQueue {
  public:
    /// Offsets in its memory.
    static constexpr std::size_t producer_offset = 0, consumer_offset = 4, entries_offset = 64;
    [[nodiscard]] static constexpr std::size_t bytes(unsigned entries) noexcept {
        return entries_offset + std::size_t{entries} * sizeof(std::uint32_t);
    }

    void use(std::byte* memory) noexcept { words_ = reinterpret_cast<std::uint32_t*>(memory); }

    /// Empty; the firmware does not write to it.
    void reset(unsigned entries) noexcept {
        entries_ = entries;
        index_ = 0;
        broken_.store(false, std::memory_order_relaxed);
        for (std::size_t i = 0; i < bytes(entries) / sizeof(std::uint32_t); ++i) words_[i] = 0;
    }

    [[nodiscard]] bool pending() const noexcept override {
        const std::uint32_t producer = load(producer_offset);
        return producer != index_ && producer < entries_ && !broken();
    }
    [[nodiscard]] bool front(std::uint16_t& smid) const noexcept override {
        const std::uint32_t producer = load(producer_offset);
        if (producer == index_ || entries_ == 0) return false;
        if (producer >= entries_ || broken()) [[unlikely]] {
            broken_.store(true, std::memory_order_relaxed);
            return false;
        }
        const std::uint32_t context = load(entries_offset + index_ * sizeof(std::uint32_t));
        smid = context <= 0xffff ? static_cast<std::uint16_t>(context) : std::uint16_t{0};
        return true;
    }
    void pop() noexcept override {
        if (++index_ == entries_) index_ = 0;
    }
    [[nodiscard]] bool next(std::uint16_t& smid) noexcept override {
        if (!front(smid)) return false;
        pop();
        return true;
    }

    /// It costs no more than a store.
    void tell(const pci::Bar& bar) noexcept override { tell_now(bar); }
    void tell_now(const pci::Bar&) noexcept override {
        word(consumer_offset).store(in_wire_order(index_), std::memory_order_release);
    }
    [[nodiscard]] bool broken() const noexcept override { return broken_.load(std::memory_order_relaxed); }

  private:
    [[nodiscard]] static std::uint32_t in_wire_order(std::uint32_t value) noexcept {
        return std::bit_cast<std::uint32_t>(le32(value));
    }
    [[nodiscard]] std::atomic_ref<std::uint32_t> word(std::size_t offset) const noexcept {
        return std::atomic_ref<std::uint32_t>(words_[offset / sizeof(std::uint32_t)]);
    }
    [[nodiscard]] std::uint32_t load(std::size_t offset) const noexcept {
        if (words_ == nullptr) return 0;
        return std::bit_cast<le32>(word(offset).load(std::memory_order_acquire));
    }

    std::uint32_t* words_ = nullptr;
    std::uint32_t entries_ = 0, index_ = 0;
    mutable std::atomic<bool> broken_{false};
};

}  // namespace mqblk::driver::megaraid
