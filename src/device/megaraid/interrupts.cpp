// SPDX-License-Identifier: Apache-2.0
#include "device/megaraid/interrupts.h"

#include <bit>

namespace mqblk::device::megaraid {

using wire::megaraid::intr_reply;

void Interrupts::reset() noexcept {
    mask_.store(~0u, std::memory_order_seq_cst);
    forget();
}

void Interrupts::forget() noexcept {
    noted_ = false;
    fresh_ = {};
    for (auto& word : pending_) word.store(0, std::memory_order_seq_cst);
    status_.store(0, std::memory_order_seq_cst);
    if (host_ != nullptr) update_pin();
}

void Interrupts::flush() noexcept {
    noted_ = false;
    for (std::size_t i = 0; i < words; ++i) {
        if (fresh_[i] == 0) continue;
        pending_[i].fetch_or(fresh_[i], std::memory_order_seq_cst);
        fresh_[i] = 0;
    }
    status_.fetch_or(intr_reply, std::memory_order_seq_cst);
    deliver();
}

void Interrupts::clear(std::uint32_t bits) noexcept {
    status_.fetch_and(~bits, std::memory_order_seq_cst);
    update_pin();
}

void Interrupts::set_mask(std::uint32_t mask) noexcept {
    mask_.store(mask, std::memory_order_seq_cst);
    deliver();
}

void Interrupts::deliver() noexcept {
    update_pin();
    if ((mask_.load(std::memory_order_seq_cst) & intr_reply) != 0) return;
    for (std::size_t i = 0; i < words; ++i) {
        if (pending_[i].load(std::memory_order_seq_cst) == 0) continue;
        std::uint64_t bits = pending_[i].exchange(0, std::memory_order_seq_cst);
        for (; bits != 0; bits &= bits - 1) raise(static_cast<unsigned>(64 * i) + std::countr_zero(bits));
    }
}

void Interrupts::raise(unsigned vector) noexcept {
    const unsigned vectors = host_->interrupt_vectors();
    host_->raise(vector < vectors ? vector : 0);
}

void Interrupts::update_pin() noexcept {
    const auto type = host_->interrupt_type();
    if (type == pci::InterruptType::msi || type == pci::InterruptType::msix) return;  // nobody looks at the pin
    set_pin();
}

void Interrupts::set_pin() noexcept {
    const std::lock_guard lock(pin_mutex_);
    host_->set_intx((status_.load(std::memory_order_seq_cst) & ~mask_.load(std::memory_order_seq_cst) & intr_reply) !=
                    0);
}

}  // namespace mqblk::device::megaraid
