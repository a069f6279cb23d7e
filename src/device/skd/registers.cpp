// SPDX-License-Identifier: Apache-2.0
//
// BAR 1: 32-bit registers, and two of 64 bits that may also be written in halves, the lower first. What is no register
// reads as zero. Accesses that a driver never makes (narrow ones) are served or ignored; they harm nothing.
#include "device/skd/card.h"

namespace mqblk::device::skd {

using namespace wire::skd;

namespace {
constexpr std::uint32_t hardware_version = 0x00010000;
constexpr std::uint32_t control_kept = control_disable_timestamps | control_enable_interrupts;
}  // namespace

std::uint32_t Card::read_register(unsigned offset) const noexcept {
    switch (offset) {
        case reg::control:
            return control_;
        case reg::status:
            return static_cast<std::uint32_t>(state_);
        case reg::int_status_host:
            return interrupts_.cause();
        case reg::int_mask_host:
            return interrupts_.mask();
        case reg::msg_from_device:
            return message_from_device_;
        case reg::msg_to_device_arg:
            return static_cast<std::uint32_t>(argument_);
        case reg::msg_to_device_arg + 4:
            return static_cast<std::uint32_t>(argument_ >> 32);
        case reg::hw_version:
            return hardware_version;
        default:
            return 0;
    }
}

std::uint64_t Card::bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept {
    if (bar != register_bar || offset >= register_bytes) return 0;
    const auto word = static_cast<unsigned>(offset & ~std::uint64_t{3});
    std::uint64_t value = read_register(word);
    if (bytes == 8) return value | std::uint64_t{read_register(word + 4)} << 32;
    value >>= 8 * (offset & 3);
    return bytes == 4 ? value : value & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

void Card::bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept {
    if (bar != register_bar || offset >= register_bytes || out_) return;
    if (bytes == 8) {
        if (offset == reg::q_command) [[likely]]
            return ring_doorbell(value);
        write_register(static_cast<unsigned>(offset), static_cast<std::uint32_t>(value));
        return write_register(static_cast<unsigned>(offset) + 4, static_cast<std::uint32_t>(value >> 32));
    }
    if (bytes == 4) write_register(static_cast<unsigned>(offset), static_cast<std::uint32_t>(value));
}

void Card::write_register(unsigned offset, std::uint32_t value) noexcept {
    switch (offset) {
        case reg::q_command:
            doorbell_low_ = value;
            return;
        case reg::q_command + 4:
            return ring_doorbell(std::uint64_t{value} << 32 | doorbell_low_);
        case reg::control:
            return write_control(value);
        case reg::int_status_host:
            return interrupts_.clear(value);
        case reg::int_mask_host:
            return interrupts_.set_mask(value);
        case reg::msg_to_device:
            return take_message(value);
        case reg::msg_to_device_arg:
            argument_ = (argument_ & ~std::uint64_t{UINT32_MAX}) | value;
            return;
        case reg::msg_to_device_arg + 4:
            argument_ = (argument_ & UINT32_MAX) | std::uint64_t{value} << 32;
            return;
        default:
            return;
    }
}

void Card::write_control(std::uint32_t value) noexcept {
    control_ = value & control_kept;
    interrupts_.set_enabled((value & control_enable_interrupts) != 0);
    if ((value & control_hard_reset) != 0) return power_on();
    if ((value & control_soft_reset) != 0) soft_reset();
}

void Card::ring_doorbell(std::uint64_t value) noexcept {
    ++counters_.doorbells;
    if (!takes_commands() && state_ != DriveState::busy && state_ != DriveState::busy_sanitize &&
        state_ != DriveState::busy_erase) {
        return;  // nobody is there to hear it
    }
    if (fifo_count_ == fifo_entries) {
        ++counters_.overruns;
        return interrupts_.raise(cause_qcmd_fifo_overrun);
    }
    fifo_[(fifo_first_ + fifo_count_++) % fifo_entries] = value;
    if (fifo_count_ == fifo_entries) interrupts_.raise(cause_q0_full);
}

}  // namespace mqblk::device::skd
