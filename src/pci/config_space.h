// SPDX-License-Identifier: Apache-2.0
//
// The configuration space of a modelled function: header, power management, MSI, MSI-X and PCI Express capabilities
// made from its FunctionSpec, and which bits of it a host can change (PCI Local Bus 3.0, chapter 6; PCI Express
// Base 3.0, chapter 7). BARs answer the sizing protocol. Any offset and length is allowed; what lies beyond reads as
// ones.
#pragma once

#include "pci/model.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mqblk::pci {

class ConfigSpace {
  public:
    explicit ConfigSpace(const FunctionSpec& spec);

    [[nodiscard]] unsigned size() const noexcept { return size_; }
    void read(std::uint64_t offset, std::span<std::byte> to) const noexcept;
    /// Whether the host asked for a function-level reset with it.
    [[nodiscard]] bool write(std::uint64_t offset, std::span<const std::byte> from) noexcept;

    void reset() noexcept { bytes_ = initial_; }
    void set_interrupt_status(bool asserted) noexcept;
    [[nodiscard]] bool interrupt_disabled() const noexcept { return (byte(reg::command + 1) & 4) != 0; }

  private:
    [[nodiscard]] std::uint8_t byte(unsigned offset) const noexcept { return bytes_[offset]; }
    void put(unsigned offset, unsigned bytes, std::uint64_t value, std::uint64_t writable = 0) noexcept;
    void add_bars(const FunctionSpec&) noexcept;
    /// Links a capability in; its first two bytes are set.
    void add_capability(std::uint8_t id, unsigned offset) noexcept;

    const unsigned size_;
    unsigned last_capability_ = 0;
    unsigned express_ = 0;  ///< where the PCI Express capability is; 0 = none
    std::array<std::uint8_t, extended_config_bytes> bytes_{}, initial_{}, writable_{};
};

}  // namespace mqblk::pci
