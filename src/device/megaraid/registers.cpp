// SPDX-License-Identifier: Apache-2.0
//
// BAR 1: 32-bit registers, and the request port, which takes 64 bits at once or in halves, the lower first. What is no
// register reads as zero. Accesses that a driver never makes (narrow ones) are served or ignored; they harm nothing.
// Everything here runs on any thread.
#include "device/megaraid/controller.h"

#include <iterator>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

std::uint32_t Controller::read_register(unsigned offset) const noexcept {
    switch (offset) {
        case reg::doorbell:
            return busy_.load(std::memory_order_acquire) ? 1 : 0;
        case reg::host_diag:
            return diag_.load(std::memory_order_acquire);
        case reg::outbound_intr_status:
            return interrupts_.status();
        case reg::outbound_intr_mask:
            return interrupts_.mask();
        case reg::scratch_pad:
            return scratch_pad_.load(std::memory_order_acquire);
        case reg::scratch_pad_2:
            return encode_capability({.reply_queues = options_.reply_queues,
                                      .chain_frame_bytes = options_.chain_frame_bytes,
                                      .large_io = options_.chain_frame_bytes > 1024,
                                      .reply_array = true,
                                      .sync_cache = true,
                                      .dma64 = generation_of(options_.device_id) == Generation::invader},
                                     generation_of(options_.device_id));
        default:
            return 0;
    }
}

std::uint64_t Controller::bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept {
    if (bar != 1 || offset >= register_bytes) return 0;
    const auto word = static_cast<unsigned>(offset & ~std::uint64_t{3});
    std::uint64_t value = read_register(word);
    if (bytes == 8) return value | std::uint64_t{read_register(word + 4)} << 32;
    value >>= 8 * (offset & 3);
    return bytes == 4 ? value : value & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

void Controller::bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept {
    if (bar != 1 || offset >= register_bytes) return;
    if (bytes == 8) {
        if (offset == reg::inbound_low_queue_port) [[likely]]
            return post_request(value);
        write_register(static_cast<unsigned>(offset), static_cast<std::uint32_t>(value));
        return write_register(static_cast<unsigned>(offset) + 4, static_cast<std::uint32_t>(value >> 32));
    }
    if (bytes == 4) write_register(static_cast<unsigned>(offset), static_cast<std::uint32_t>(value));
}

void Controller::write_register(unsigned offset, std::uint32_t value) noexcept {
    switch (offset) {
        case reg::inbound_low_queue_port:
            return port_low_.store(value, std::memory_order_relaxed);
        case reg::inbound_high_queue_port:
            return post_request(std::uint64_t{value} << 32 | port_low_.load(std::memory_order_relaxed));
        case reg::doorbell:
            if ((value & doorbell_stop_adapter) != 0) return ask(ask_stop);
            if ((value & doorbell_init_ready) != 0) {
                busy_.store(true, std::memory_order_release);
                ask(ask_ready);
            }
            return;
        case reg::write_sequence:
            return write_sequence(value);
        case reg::host_diag:
            if ((value & host_diag_reset_adapter) == 0 ||
                (diag_.load(std::memory_order_relaxed) & host_diag_write_enable) == 0) {
                return;
            }
            diag_.fetch_or(host_diag_reset_adapter, std::memory_order_release);
            return ask(ask_reset);
        case reg::outbound_intr_status:
            return interrupts_.clear(value);
        case reg::outbound_intr_mask:
            return interrupts_.set_mask(value);
        default:
            return write_reply_index(offset, value);
    }
}

void Controller::write_sequence(std::uint32_t key) noexcept {
    unsigned matched = keys_.load(std::memory_order_relaxed);
    // Each try begins with the first key, which also ends what was open.
    if (key == diag_keys[0]) {
        diag_.fetch_and(~std::uint32_t{host_diag_write_enable}, std::memory_order_relaxed);
        matched = 1;
    } else if (matched < std::size(diag_keys) && key == diag_keys[matched]) {
        if (++matched == std::size(diag_keys)) diag_.fetch_or(host_diag_write_enable, std::memory_order_release);
    } else {
        matched = 0;
    }
    keys_.store(matched, std::memory_order_relaxed);
}

void Controller::write_reply_index(unsigned offset, std::uint32_t value) noexcept {
    const bool shared = generation_of(options_.device_id) == Generation::invader && options_.reply_queues > 8;
    const unsigned vector = value >> 24;
    if (offset == reg::reply_post_host_index)
        return replies_.set_host_index(shared ? vector & 7 : vector, value & 0xffffff);
    if (!shared || offset < reg::supplemental_reply_index || (offset - reg::supplemental_reply_index) % 16 != 0) return;
    replies_.set_host_index(8 * ((offset - reg::supplemental_reply_index) / 16) + (vector & 7), value & 0xffffff);
}

void Controller::post_request(std::uint64_t descriptor) noexcept {
    if (!requests_.push(descriptor)) [[unlikely]] {
        overrun_.store(true, std::memory_order_release);
        return ask(ask_changes);
    }
    look_awake();
}

void Controller::ask(std::uint32_t what) noexcept {
    asked_.fetch_or(what, std::memory_order_seq_cst);
    look_awake();
}

}  // namespace mqblk::device::megaraid
