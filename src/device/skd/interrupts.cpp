// SPDX-License-Identifier: Apache-2.0
#include "device/skd/interrupts.h"

#include "wire/skd.h"

#include <bit>

namespace mqblk::device::skd {

using namespace wire::skd;

void Interrupts::reset() noexcept {
    cause_ = 0;
    mask_ = mask_all;
    enabled_ = false;
    sent_ = again_ = 0;
    if (host_ != nullptr) host_->set_intx(false);
}

void Interrupts::raise(std::uint32_t causes) noexcept {
    again_ |= cause_ & causes & cause_completion_posted;
    if ((cause_ & causes) == causes) return;
    cause_ |= causes;
    update();
}

void Interrupts::clear(std::uint32_t causes) noexcept {
    cause_ &= ~causes;
    sent_ &= cause_;
    cause_ |= again_ & causes;
    again_ &= ~causes;
    update();
}

void Interrupts::set_mask(std::uint32_t mask) noexcept {
    mask_ = mask;
    update();
}

void Interrupts::set_enabled(bool enabled) noexcept {
    if (enabled_ == enabled) return;
    enabled_ = enabled;
    update();
}

void Interrupts::type_changed() noexcept {
    sent_ = 0;
    update();
}

void Interrupts::update() noexcept {
    const std::uint32_t open = this->open();
    sent_ &= open;  // a gate that closes and opens again before a cause that is up sends once more
    host_->set_intx(open != 0);
    if (const std::uint32_t fresh = open & ~sent_; fresh != 0) {
        sent_ |= fresh;
        send(fresh);
    }
}

void Interrupts::send(std::uint32_t causes) noexcept {
    switch (host_->interrupt_type()) {
        case pci::InterruptType::msi:
            return host_->raise(0);
        case pci::InterruptType::msix:
            for (; causes != 0; causes &= causes - 1) {
                const auto bit = static_cast<unsigned>(std::countr_zero(causes));
                // Bits 0 to 2 have vectors 4 to 6, full queues (5 to 8) have 9 to 12; the others have none.
                if (bit <= 2 || (bit >= 5 && bit <= 8)) host_->raise(bit + 4);
            }
            return;
        default:
            return;
    }
}

}  // namespace mqblk::device::skd
