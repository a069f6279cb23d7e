// SPDX-License-Identifier: Apache-2.0
//
// Where the generations have the registers that all of them have, and what their interrupt bits are: a table, so that
// start-up, interrupts and resets are the same code for each.
#pragma once

#include "pci/bar.h"
#include "wire/megaraid.h"
#include "wire/megaraid_mfi_queue.h"

#include <cstdint>
#include <span>

namespace mqblk::driver::megaraid {

struct Registers {
    unsigned doorbell = wire::megaraid::reg::doorbell;           ///< takes wire::megaraid::Doorbell values
    bool says_busy = false;                                      ///< bit 0 of the doorbell, read
    std::uint32_t unmasked = 0;                                  ///< bits of the interrupt mask
    std::uint32_t reply_cause = 0;                               ///< bit of the interrupt status
    unsigned clear = wire::megaraid::reg::outbound_intr_status;  ///< where the status is written back
    // The diagnostic reset; no keys: there is none.
    unsigned write_sequence = wire::megaraid::reg::write_sequence;
    unsigned host_diag = wire::megaraid::reg::host_diag;
    std::span<const std::uint32_t> keys{};

    [[nodiscard]] bool can_reset() const noexcept { return !keys.empty(); }

    void mask_interrupts(const pci::Bar& bar, bool masked) const noexcept {
        using namespace wire::megaraid;
        if (masked) return bar.write32(reg::outbound_intr_mask, ~0u);
        bar.write32(clear, ~0u);
        static_cast<void>(bar.read32(reg::outbound_intr_status));
        bar.write32(reg::outbound_intr_mask, ~unmasked);
    }
    /// Takes the cause of an interrupt away, if there is one.
    void acknowledge(const pci::Bar& bar) const noexcept {
        using namespace wire::megaraid;
        const std::uint32_t status = bar.read32(reg::outbound_intr_status);
        if (status == ~0u || (status & reply_cause) == 0) return;
        bar.write32(clear, status);
        static_cast<void>(bar.read32(reg::outbound_intr_status));
    }
};

[[nodiscard]] inline Registers registers_of(wire::megaraid::Generation generation) noexcept {
    using namespace wire::megaraid;
    Registers registers;
    switch (generation) {
        case Generation::sas1078:
            registers.doorbell = mfi_reg::inbound_doorbell;
            registers.unmasked = intr_1078;
            registers.reply_cause = intr_1078_reply;
            registers.clear = mfi_reg::outbound_doorbell_clear;
            break;
        case Generation::gen2:
            registers.doorbell = mfi_reg::inbound_doorbell;
            registers.unmasked = intr_gen2;
            registers.reply_cause = intr_gen2_reply;
            registers.clear = mfi_reg::outbound_doorbell_clear;
            registers.write_sequence = mfi_reg::write_sequence;
            registers.host_diag = mfi_reg::host_diag;
            registers.keys = mfi_diag_keys;
            break;
        case Generation::skinny:
            registers.unmasked = intr_skinny;
            registers.reply_cause = intr_skinny_reply;
            registers.keys = mfi_diag_keys;
            break;
        case Generation::unknown:
        case Generation::thunderbolt:
        case Generation::invader:
            registers.says_busy = true;
            registers.unmasked = intr_fusion;
            registers.reply_cause = intr_reply;
            registers.keys = diag_keys;
            break;
    }
    return registers;
}

}  // namespace mqblk::driver::megaraid
