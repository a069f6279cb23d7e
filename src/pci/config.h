// SPDX-License-Identifier: Apache-2.0
//
// Configuration space by the names of the PCI Local Bus 3.0 and PCI Express Base specifications: offsets, capability
// identifiers, and the walk along the capability list. A list that loops or leaves the space ends; it is never
// followed.
#pragma once

#include <cstdint>
#include <optional>

namespace mqblk::pci {

inline constexpr unsigned config_bytes = 256;
inline constexpr unsigned extended_config_bytes = 4096;
inline constexpr unsigned bar_count = 6;

namespace reg {
enum : unsigned {
    vendor_id = 0x00,
    device_id = 0x02,
    command = 0x04,
    status = 0x06,
    revision_id = 0x08,
    class_code = 0x09,  ///< 3 bytes: programming interface, subclass, base class
    cache_line_size = 0x0c,
    header_type = 0x0e,
    bar0 = 0x10,
    subsystem_vendor_id = 0x2c,
    subsystem_id = 0x2e,
    expansion_rom = 0x30,
    capabilities_pointer = 0x34,
    interrupt_line = 0x3c,
    interrupt_pin = 0x3d,
};
}

namespace command {
enum : std::uint16_t { io_space = 1, memory_space = 2, bus_master = 4, interrupt_disable = 0x400 };
}
namespace status {
enum : std::uint16_t { interrupt = 8, capability_list = 0x10 };
}

namespace cap {
enum : std::uint8_t { power_management = 0x01, msi = 0x05, pci_express = 0x10, msix = 0x11 };
/// Offsets within a capability, which starts with identifier and next pointer, a byte each.
enum : unsigned {
    pm_control = 4,
    msi_control = 2,
    msi_address = 4,
    express_device_capabilities = 4,
    express_device_control = 8,
    express_link_status = 0x12,
    msix_control = 2,
    msix_table = 4,
    msix_pba = 8,
};
}  // namespace cap

/// What reads and writes a configuration space: a Function, or what stands behind a model.
class ConfigAccess {
  public:
    /// 1, 2 or 4 bytes at a multiple of their number. All ones beyond the space and when the function is lost.
    [[nodiscard]] virtual std::uint32_t config_read(unsigned offset, unsigned bytes) noexcept = 0;
    virtual void config_write(unsigned offset, unsigned bytes, std::uint32_t value) noexcept = 0;

  protected:
    ~ConfigAccess() = default;
};

/// Offset of the first capability `id`, or of the next one after the capability at `after`.
[[nodiscard]] std::optional<unsigned> find_capability(ConfigAccess&, std::uint8_t id, unsigned after = 0) noexcept;

/// Who the function says it is.
struct FunctionId {
    std::uint16_t vendor = 0xffff, device = 0xffff;
    std::uint16_t subsystem_vendor = 0, subsystem_device = 0;
    std::uint32_t class_code = 0;  ///< 24 bits: base class, subclass, programming interface
    std::uint8_t revision = 0;
};
[[nodiscard]] FunctionId read_id(ConfigAccess&) noexcept;

}  // namespace mqblk::pci
