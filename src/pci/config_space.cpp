// SPDX-License-Identifier: Apache-2.0
#include "pci/config_space.h"

#include <bit>

namespace mqblk::pci {

namespace {

// Where the capabilities lie. They end below 0xc0.
constexpr unsigned pm_at = 0x40, msi_at = 0x50, msix_at = 0x70, express_at = 0x80;

constexpr std::uint8_t flr_bit = 0x80;  // in the second byte of Device Control

}  // namespace

ConfigSpace::ConfigSpace(const FunctionSpec& spec) : size_(spec.express ? extended_config_bytes : config_bytes) {
    put(reg::vendor_id, 2, spec.id.vendor);
    put(reg::device_id, 2, spec.id.device);
    put(reg::command, 2, 0,
        command::io_space | command::memory_space | command::bus_master | command::interrupt_disable);
    put(reg::revision_id, 1, spec.id.revision);
    put(reg::class_code, 3, spec.id.class_code);
    put(reg::cache_line_size, 1, 0, 0xff);
    put(reg::subsystem_vendor_id, 2, spec.id.subsystem_vendor);
    put(reg::subsystem_id, 2, spec.id.subsystem_device);
    put(reg::interrupt_line, 1, 0xff, 0xff);
    put(reg::interrupt_pin, 1, spec.intx ? 1 : 0);
    add_bars(spec);

    add_capability(cap::power_management, pm_at);
    put(pm_at + 2, 2, 3);     // version 3, no PME
    put(pm_at + 4, 2, 8, 3);  // keeps its state in D3hot; the power state can be set
    if (spec.msi_vectors != 0) {
        add_capability(cap::msi, msi_at);
        const unsigned log2 = static_cast<unsigned>(std::countr_zero(spec.msi_vectors));
        put(msi_at + cap::msi_control, 2, 0x80 | log2 << 1, 0x71);  // 64-bit addresses
        put(msi_at + cap::msi_address, 8, 0, ~std::uint64_t{3});
        put(msi_at + 12, 2, 0, 0xffff);
    }
    if (spec.msix_vectors != 0) {
        add_capability(cap::msix, msix_at);
        put(msix_at + cap::msix_control, 2, spec.msix_vectors - 1, 0xc000);
        put(msix_at + cap::msix_table, 4, spec.msix_table | spec.msix_bar);
        put(msix_at + cap::msix_pba, 4, spec.msix_pba | spec.msix_bar);
    }
    if (spec.express) {
        express_ = express_at;
        add_capability(cap::pci_express, express_at);
        put(express_at + 2, 2, 2);                    // version 2, endpoint
        put(express_at + 4, 4, 1u << 28 | 1u << 15);  // 128-byte payloads, role-based errors, function-level reset
        put(express_at + 8, 2, 0x2810, 0x7fff);       // relaxed ordering, no snoop, 512-byte read requests
        const unsigned link = spec.link_width << 4 | spec.link_speed;
        put(express_at + 0x0c, 4, link);
        put(express_at + 0x10, 2, 0, 0x43);  // ASPM, common clock
        put(express_at + cap::express_link_status, 2, link);
        put(express_at + 0x28, 2, 0, 0x1f);  // completion time-out
        put(express_at + 0x30, 2, spec.link_speed, 0x1f);
    }
    initial_ = bytes_;
}

void ConfigSpace::put(unsigned offset, unsigned bytes, std::uint64_t value, std::uint64_t writable) noexcept {
    for (unsigned i = 0; i < bytes; ++i) {
        bytes_[offset + i] = static_cast<std::uint8_t>(value >> (8 * i));
        writable_[offset + i] = static_cast<std::uint8_t>(writable >> (8 * i));
    }
}

void ConfigSpace::add_bars(const FunctionSpec& spec) noexcept {
    for (unsigned i = 0; i < bar_count; ++i) {
        const FunctionSpec::BarSpec& bar = spec.bars[i];
        if (bar.bytes == 0) continue;
        const std::uint64_t type = (bar.wide ? 4u : 0u) | (bar.prefetchable ? 8u : 0u);
        put(reg::bar0 + 4 * i, bar.wide ? 8 : 4, type, ~(bar.bytes - 1) & ~std::uint64_t{15});
    }
}

void ConfigSpace::add_capability(std::uint8_t id, unsigned offset) noexcept {
    put(last_capability_ == 0 ? unsigned{reg::capabilities_pointer} : last_capability_ + 1, 1, offset);
    put(reg::status, 2, status::capability_list);
    put(offset, 2, id);
    last_capability_ = offset;
}

void ConfigSpace::read(std::uint64_t offset, std::span<std::byte> to) const noexcept {
    for (std::byte& byte : to) {
        byte = offset < size_ ? std::byte{bytes_[offset]} : std::byte{0xff};
        ++offset;
    }
}

bool ConfigSpace::write(std::uint64_t offset, std::span<const std::byte> from) noexcept {
    bool reset_wanted = false;
    for (const std::byte byte : from) {
        if (offset >= size_) break;
        const auto value = std::to_integer<std::uint8_t>(byte);
        if (express_ != 0 && offset == express_ + cap::express_device_control + 1)
            reset_wanted |= (value & flr_bit) != 0;
        const std::uint8_t mask = writable_[offset];
        bytes_[offset] = static_cast<std::uint8_t>((bytes_[offset] & ~mask) | (value & mask));
        ++offset;
    }
    return reset_wanted;
}

void ConfigSpace::set_interrupt_status(bool asserted) noexcept {
    bytes_[reg::status] =
        static_cast<std::uint8_t>((bytes_[reg::status] & ~status::interrupt) | (asserted ? status::interrupt : 0));
}

}  // namespace mqblk::pci
