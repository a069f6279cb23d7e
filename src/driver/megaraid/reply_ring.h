// SPDX-License-Identifier: Apache-2.0
//
// A reply queue of the Fusion generation as its consumer. The firmware may write to it at any time, so a descriptor is
// read once, in one piece; what has been read is marked unused again. How far it was read is told now and then and
// before a sleep, not each time: the queue has room for twice the commands that there are. One thread at a time.
#pragma once

#include "driver/megaraid/reply_queue.h"
#include "wire/megaraid.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mqblk::driver::megaraid {

class ReplyRing final : public ReplyQueue {
  public:
    static constexpr unsigned tell_each = 50;

    void use(std::byte* memory, unsigned vector) noexcept {
        slots_ = reinterpret_cast<std::uint64_t*>(memory);
        vector_ = vector;
    }

    /// Empty, of so many entries; the firmware does not write to it.
    void reset(unsigned depth, bool combined) noexcept {
        depth_ = depth;
        combined_ = combined;
        index_ = untold_ = 0;
        for (unsigned i = 0; i < depth; ++i) slots_[i] = wire::megaraid::reply_unused;
    }

    [[nodiscard]] bool pending() const noexcept override { return depth_ != 0 && used(peek()); }

    [[nodiscard]] bool front(std::uint16_t& smid) const noexcept override {
        if (depth_ == 0) [[unlikely]]
            return false;
        const std::uint64_t word = peek();
        if (!used(word)) return false;
        smid = std::bit_cast<wire::megaraid::ReplyDescriptor>(word).smid;
        return true;
    }
    void pop() noexcept override {
        std::atomic_ref<std::uint64_t>(slots_[index_]).store(wire::megaraid::reply_unused, std::memory_order_relaxed);
        if (++index_ == depth_) index_ = 0;
        ++untold_;
    }
    [[nodiscard]] bool next(std::uint16_t& smid) noexcept override {
        if (!front(smid)) return false;
        pop();
        return true;
    }

    void tell(const pci::Bar& bar) noexcept override {
        if (untold_ >= tell_each) [[unlikely]]
            tell_now(bar);
    }
    void tell_now(const pci::Bar& bar) noexcept override {
        if (untold_ == 0) return;
        untold_ = 0;
        bar.write32(wire::megaraid::reply_index_register(vector_, combined_),
                    wire::megaraid::reply_index_value(vector_, index_, combined_));
    }

  private:
    [[nodiscard]] std::uint64_t peek() const noexcept {
        return std::atomic_ref<std::uint64_t>(slots_[index_]).load(std::memory_order_acquire);
    }
    /// Both halves have been written.
    [[nodiscard]] static bool used(std::uint64_t word) noexcept {
        const auto low = static_cast<std::uint32_t>(word), high = static_cast<std::uint32_t>(word >> 32);
        return low != ~0u && high != ~0u &&
               std::bit_cast<wire::megaraid::ReplyDescriptor>(word).type() != wire::megaraid::ReplyType::unused;
    }

    std::uint64_t* slots_ = nullptr;
    unsigned depth_ = 0, index_ = 0, untold_ = 0, vector_ = 0;
    bool combined_ = false;
};

}  // namespace mqblk::driver::megaraid
