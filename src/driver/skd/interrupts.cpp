// SPDX-License-Identifier: Apache-2.0
#include "driver/skd/interrupts.h"

#include <fmt/format.h>

#include <string>

namespace mqblk::driver::skd {

using namespace wire::skd;
using pci::InterruptType;

namespace {
/// Causes that come up again while they are handled are handled in the same pass, this many times.
constexpr unsigned most_rounds = 16;
constexpr std::uint32_t lost_card = 0xffffffff;
}  // namespace

Interrupts::~Interrupts() {
    for (auto& vector : vectors_) vector.reset();
    if (enabled_ && !function_.lost()) static_cast<void>(function_.enable_interrupts(InterruptType::none, 0));
}

Result<> Interrupts::enable_vectors(InterruptType type, unsigned vectors) {
    if (auto enabled = function_.enable_interrupts(type, vectors); !enabled) return enabled;
    enabled_ = true;
    for (unsigned i = 0; i < vectors; ++i) {
        auto made = function_.interrupt(i, reactor_, [this, i] { vector_raised(i); });
        if (!made) return std::unexpected(made.error());
        vectors_[i] = std::move(*made);
    }
    return {};
}

Result<> Interrupts::enable(IsrType wanted) {
    const pci::InterruptCounts counts = function_.interrupt_counts();
    // MSI-X with all of its vectors or not at all.
    if (wanted == IsrType::msix && counts.msix >= msix_vectors) {
        type_ = IsrType::msix;
        return enable_vectors(InterruptType::msix, msix_vectors);
    }
    if (wanted != IsrType::legacy && counts.msi >= 1) {
        type_ = IsrType::msi;
        return enable_vectors(InterruptType::msi, 1);
    }
    if (counts.intx >= 1) {
        type_ = IsrType::legacy;
        return enable_vectors(InterruptType::intx, 1);
    }
    return fail(Errc::not_supported, fmt::format("{}: has no interrupts of isr_type {} or lower; try isr_type=2",
                                                 function_.name(), static_cast<unsigned>(wanted)));
}

void Interrupts::open_gates() noexcept {
    bar_.write32(reg::int_mask_host, mask_driver);
    bar_.write32(reg::control, bar_.read32(reg::control) | control_enable_interrupts);
    if (type_ == IsrType::msix) {
        for (unsigned i = 0; i < msix_vectors; ++i) arm(i);
    } else {
        arm(0);
    }
    listening_ = true;
}

void Interrupts::close_gates() noexcept {
    bar_.write32(reg::control, bar_.read32(reg::control) & ~std::uint32_t{control_enable_interrupts});
    bar_.write32(reg::int_mask_host, mask_all);
}

void Interrupts::listen() {
    if (listening_) return;
    listening_ = true;
    bar_.write32(reg::int_status_host, cause_completion_posted);
    if (type_ == IsrType::msix) {
        arm(vector_completion);
    } else {
        bar_.write32(reg::int_mask_host, mask_driver);
        arm(0);
    }
    static_cast<void>(bar_.read32(reg::int_status_host));
}

void Interrupts::quiet_completions() noexcept {
    listening_ = false;
    if (type_ != IsrType::msix) bar_.write32(reg::int_mask_host, mask_driver | cause_completion_posted);
}

void Interrupts::vector_raised(unsigned vector) {
    if (type_ != IsrType::msix) return any_raised();
    switch (vector) {
        case vector_completion:
            quiet_completions();
            return events_.completions_posted();
        case vector_state_change:
            arm(vector);
            bar_.write32(reg::int_status_host, cause_state_change);
            return events_.state_changed();
        case vector_message:
            arm(vector);
            bar_.write32(reg::int_status_host, cause_msg_from_device);
            return events_.message_came();
        default:
            // The card's DMA engines and full queues: nothing to do but take the cause away.
            arm(vector);
            bar_.write32(reg::int_status_host, (cause_acknowledge & ~cause_driver) | cause_reserved);
            return;
    }
}

/// One vector for all causes: completions, then the state, then the mailbox.
void Interrupts::any_raised() {
    for (unsigned round = 0; round < most_rounds; ++round) {
        const std::uint32_t cause = bar_.read32(reg::int_status_host);
        if (cause == lost_card) {
            events_.state_changed();
            break;
        }
        const std::uint32_t wanted = listening_ ? cause_acknowledge : cause_acknowledge & ~cause_completion_posted;
        const std::uint32_t found = cause & wanted;
        if (found == 0) break;
        if ((found & cause_completion_posted) != 0) quiet_completions();
        bar_.write32(reg::int_status_host, found);
        if ((found & cause_completion_posted) != 0) events_.completions_posted();
        if ((found & cause_state_change) != 0) events_.state_changed();
        if ((found & cause_msg_from_device) != 0) events_.message_came();
    }
    if (vectors_[0] != nullptr) arm(0);
}

}  // namespace mqblk::driver::skd
