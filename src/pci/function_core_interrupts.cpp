// SPDX-License-Identifier: Apache-2.0
//
// From a model's raise() to a delivery, without a lock. A vector's pending bit is set before the second attempt to
// deliver it, so whoever makes it deliverable meanwhile sees one or the other. The pin is a word of bits: it is
// delivered by whoever sets `masked` while it is asserted, and that is one.
#include "pci/function_core.h"

#include <algorithm>

namespace mqblk::pci {

InterruptCounts FunctionCore::interrupt_counts() const noexcept {
    return {spec_.intx ? 1u : 0u, spec_.msi_vectors, spec_.msix_vectors};
}

bool FunctionCore::wants(unsigned vector) const noexcept {
    const Mode mode = load_mode();
    return (mode.type == InterruptType::msi || mode.type == InterruptType::msix) && vector < mode.vectors;
}

bool FunctionCore::take_pending(unsigned vector) noexcept {
    const std::uint64_t bit = 1ull << (vector % 64);
    return (pending_[vector / 64].fetch_and(~bit, std::memory_order_seq_cst) & bit) != 0;
}

void FunctionCore::raise(unsigned vector) noexcept {
    const Mode mode = load_mode();
    if (mode.type != InterruptType::msi && mode.type != InterruptType::msix) return;
    if (gone() || vector / 64 >= pending_.size()) return;
    if (vector < mode.vectors && sink_.deliver(mode.type, vector)) return;
    pending_[vector / 64].fetch_or(1ull << (vector % 64), std::memory_order_seq_cst);
    redeliver(vector);
}

void FunctionCore::redeliver(unsigned vector) noexcept {
    if (vector / 64 >= pending_.size() || !wants(vector) || !take_pending(vector)) return;
    if (sink_.deliver(load_mode().type, vector)) return;
    pending_[vector / 64].fetch_or(1ull << (vector % 64), std::memory_order_seq_cst);
}

void FunctionCore::enable(InterruptType type, unsigned vectors) noexcept {
    mode_.store(Mode{type, static_cast<std::uint16_t>(vectors)}, std::memory_order_seq_cst);
    if (type != InterruptType::intx) change_pin(0, pin_masked | pin_delivered);
    if (type == InterruptType::none) {
        for (auto& word : pending_) word.store(0, std::memory_order_relaxed);
    } else if (type == InterruptType::intx) {
        unmask_intx();
    } else {
        for (unsigned i = 0; i < vectors; ++i) redeliver(i);
    }
}

void FunctionCore::set_intx(bool asserted) noexcept {
    if (asserted) {
        change_pin(pin_asserted, 0);
    } else {
        change_pin(0, pin_asserted);
    }
}

void FunctionCore::change_pin(std::uint8_t set, std::uint8_t clear) noexcept {
    std::uint8_t now = pin_.load(std::memory_order_relaxed);
    std::uint8_t next = 0;
    bool deliver = false;
    do {
        next = static_cast<std::uint8_t>((now | set) & ~clear);
        deliver = next == pin_asserted && load_mode().type == InterruptType::intx && !gone();
        if (deliver) next |= pin_masked | pin_delivered;
        if (next == now && !deliver) return;
    } while (!pin_.compare_exchange_weak(now, next, std::memory_order_seq_cst));
    if (deliver && !sink_.deliver(InterruptType::intx, 0)) {
        pin_.fetch_and(static_cast<std::uint8_t>(~(pin_masked | pin_delivered)));
    }
}

}  // namespace mqblk::pci
