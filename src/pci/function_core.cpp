// SPDX-License-Identifier: Apache-2.0
//
// Accesses. Interrupts are in function_core_interrupts.cpp.
#include "pci/function_core.h"

#include "reactor/reactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mqblk::pci {

namespace {

constexpr unsigned table_entry_bytes = 16;
constexpr unsigned vector_control = 12;  // in a table entry; bit 0: masked

/// One load or store of registers in memory that somebody else may be working on too.
std::uint64_t load_register(const std::byte* place, unsigned bytes) noexcept {
    switch (bytes) {
        case 1:
            return *reinterpret_cast<const volatile std::uint8_t*>(place);
        case 2:
            return *reinterpret_cast<const volatile std::uint16_t*>(place);
        case 4:
            return *reinterpret_cast<const volatile std::uint32_t*>(place);
        default:
            return *reinterpret_cast<const volatile std::uint64_t*>(place);
    }
}
void store_register(std::byte* place, unsigned bytes, std::uint64_t value) noexcept {
    switch (bytes) {
        case 1:
            *reinterpret_cast<volatile std::uint8_t*>(place) = static_cast<std::uint8_t>(value);
            break;
        case 2:
            *reinterpret_cast<volatile std::uint16_t*>(place) = static_cast<std::uint16_t>(value);
            break;
        case 4:
            *reinterpret_cast<volatile std::uint32_t*>(place) = static_cast<std::uint32_t>(value);
            break;
        default:
            *reinterpret_cast<volatile std::uint64_t*>(place) = value;
            break;
    }
}

/// The largest aligned access that a longer one starts with.
unsigned piece_bytes(std::uint64_t offset, std::size_t left) noexcept {
    unsigned bytes = 8;
    while (bytes > left || offset % bytes != 0) bytes /= 2;
    return bytes;
}

}  // namespace

FunctionCore::FunctionCore(Reactor& reactor, const HostMemory& memory, InterruptSink& sink,
                           std::unique_ptr<Model> model)
    : reactor_(reactor),
      memory_(memory),
      sink_(sink),
      model_(std::move(model)),
      spec_(model_->spec()),
      config_(spec_),
      pending_((std::max(spec_.msi_vectors, spec_.msix_vectors) + 63) / 64) {}

FunctionCore::~FunctionCore() = default;

Result<> FunctionCore::start(memory::Backing backing) {
    if (auto good = spec_.validate(); !good) return good;
    msix_table_.resize(std::size_t{table_entry_bytes} * spec_.msix_vectors);
    for (unsigned i = 0; i < bar_count; ++i) {
        BarPlan& plan = bars_[i];
        plan.bytes = spec_.bars[i].bytes;
        plan.special_from = plan.bytes;
        const auto include = [&plan](std::uint64_t from, std::uint64_t to) {
            plan.special_from = std::min(plan.special_from, from);
            plan.special_to = std::max(plan.special_to, to);
        };
        if (spec_.msix_vectors != 0 && spec_.msix_bar == i) {
            include(spec_.msix_table, spec_.msix_table + msix_table_.size());
            include(spec_.msix_pba, spec_.msix_pba + (spec_.msix_vectors + 63) / 64 * 8);
        }
        bool has_areas = false;
        for (const auto& area : spec_.areas) {
            if (area.bar != i) continue;
            include(area.offset, area.offset + area.bytes);
            has_areas = true;
        }
        if (!has_areas) continue;
        auto buffer = memory::Buffer::allocate(plan.bytes, backing);
        if (!buffer) return std::unexpected(buffer.error().in(fmt::format("memory for BAR {}", i)));
        plan.areas = std::move(*buffer);
    }
    reset_layer();
    return model_->attach(*this);
}

const memory::Buffer* FunctionCore::areas_of(unsigned bar) const noexcept {
    return bar < bar_count && bars_[bar].areas.data() != nullptr ? &bars_[bar].areas : nullptr;
}

std::byte* FunctionCore::area(std::size_t index) const noexcept {
    const FunctionSpec::Area& area = spec_.areas[index];
    return bars_[area.bar].areas.data() + area.offset;
}

const FunctionSpec::Area* FunctionCore::find_area(unsigned bar, std::uint64_t offset) const noexcept {
    for (const auto& area : spec_.areas) {
        if (area.bar == bar && offset >= area.offset && offset - area.offset < area.bytes) return &area;
    }
    return nullptr;
}

bool FunctionCore::read_special(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t& value) noexcept {
    if (find_area(bar, offset) != nullptr) {
        value = load_register(bars_[bar].areas.data() + offset, bytes);
        return true;
    }
    if (spec_.msix_vectors == 0 || bar != spec_.msix_bar) return false;
    if (offset >= spec_.msix_table && offset - spec_.msix_table < msix_table_.size()) {
        const std::lock_guard lock(control_mutex_);
        value = load_register(msix_table_.data() + (offset - spec_.msix_table), bytes);
        return true;
    }
    if (offset >= spec_.msix_pba && (offset - spec_.msix_pba) / 8 < (spec_.msix_vectors + 63) / 64) {
        const std::uint64_t place = offset - spec_.msix_pba;
        value = pending_[place / 8].load(std::memory_order_acquire) >> (8 * (place % 8));
        return true;
    }
    return false;
}

bool FunctionCore::write_special(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept {
    if (find_area(bar, offset) != nullptr) {
        store_register(bars_[bar].areas.data() + offset, bytes, value);
        return false;  // the model hears of it as well
    }
    if (spec_.msix_vectors == 0 || bar != spec_.msix_bar) return false;
    if (offset >= spec_.msix_table && offset - spec_.msix_table < msix_table_.size()) {
        const std::lock_guard lock(control_mutex_);
        store_register(msix_table_.data() + (offset - spec_.msix_table), bytes, value);
        return true;
    }
    return offset >= spec_.msix_pba && (offset - spec_.msix_pba) / 8 < (spec_.msix_vectors + 63) / 64;
}

std::uint64_t FunctionCore::bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept {
    if (!valid(bar, offset, bytes)) return all_ones(bytes);
    if (std::uint64_t value = 0; special(bar, offset) && read_special(bar, offset, bytes, value)) {
        return value & all_ones(bytes);
    }
    return model_->bar_read(bar, offset, bytes) & all_ones(bytes);
}

void FunctionCore::bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept {
    if (!valid(bar, offset, bytes)) return;
    if (special(bar, offset) && write_special(bar, offset, bytes, value)) return;
    model_->bar_write(bar, offset, bytes, value & all_ones(bytes));
}

bool FunctionCore::read(unsigned bar, std::uint64_t offset, std::span<std::byte> to) noexcept {
    if (bar >= bar_count || offset > bars_[bar].bytes || to.size() > bars_[bar].bytes - offset) return false;
    while (!to.empty()) {
        const unsigned bytes = piece_bytes(offset, to.size());
        const std::uint64_t value = bar_read(bar, offset, bytes);
        for (unsigned i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
        to = to.subspan(bytes);
        offset += bytes;
    }
    return true;
}

bool FunctionCore::write(unsigned bar, std::uint64_t offset, std::span<const std::byte> from) noexcept {
    if (bar >= bar_count || offset > bars_[bar].bytes || from.size() > bars_[bar].bytes - offset) return false;
    while (!from.empty()) {
        const unsigned bytes = piece_bytes(offset, from.size());
        std::uint64_t value = 0;
        for (unsigned i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(from[i]) << (8 * i);
        bar_write(bar, offset, bytes, value);
        from = from.subspan(bytes);
        offset += bytes;
    }
    return true;
}

void FunctionCore::config_read(std::uint64_t offset, std::span<std::byte> to) noexcept {
    if (gone()) {
        std::ranges::fill(to, std::byte{0xff});
        return;
    }
    const std::lock_guard lock(control_mutex_);
    // To a host that heard of it the pin is asserted until it unmasks it, even if the cause is gone: QEMU keeps its own
    // asserted that long, and a driver that then found no status would take the interrupt for nobody's, for ever.
    config_.set_interrupt_status((pin_.load(std::memory_order_relaxed) & (pin_asserted | pin_delivered)) != 0);
    config_.read(offset, to);
}

bool FunctionCore::config_write(std::uint64_t offset, std::span<const std::byte> from) noexcept {
    if (gone()) return false;
    const std::lock_guard lock(control_mutex_);
    return config_.write(offset, from);
}

void FunctionCore::reset_layer() noexcept {
    change_pin(0, pin_asserted);
    for (auto& word : pending_) word.store(0, std::memory_order_relaxed);
    {
        const std::lock_guard lock(control_mutex_);
        config_.reset();
        std::ranges::fill(msix_table_, std::byte{0});
        for (std::size_t i = vector_control; i < msix_table_.size(); i += table_entry_bytes) {
            msix_table_[i] = std::byte{1};
        }
    }
    for (const auto& area : spec_.areas) bars_[area.bar].areas.zero(area.offset, area.bytes);
}

void FunctionCore::reset() noexcept {
    reset_layer();
    model_->reset();
}

void FunctionCore::set_gone(bool gone) noexcept {
    if (gone_.exchange(gone, std::memory_order_acq_rel) != gone) sink_.gone_changed(gone);
}

}  // namespace mqblk::pci
