// SPDX-License-Identifier: Apache-2.0
//
// PCI Local Bus 3.0, section 6.7: the capability list starts at 0x34 and lies in the first 256 bytes, above the header.
#include "pci/config.h"

namespace mqblk::pci {

namespace {

constexpr unsigned header_end = 0x40;
constexpr unsigned most_capabilities = (config_bytes - header_end) / 4;  // each takes a dword at least

unsigned read16(ConfigAccess& config, unsigned offset) noexcept {
    return config.config_read(offset, 2);
}

}  // namespace

std::optional<unsigned> find_capability(ConfigAccess& config, std::uint8_t id, unsigned after) noexcept {
    if (read16(config, reg::vendor_id) == 0xffff) return std::nullopt;
    if ((read16(config, reg::status) & status::capability_list) == 0) return std::nullopt;
    unsigned offset = config.config_read(after == 0 ? unsigned{reg::capabilities_pointer} : after + 1, 1) & ~3u;
    for (unsigned i = 0; i < most_capabilities && offset >= header_end; ++i) {
        const unsigned found = config.config_read(offset, 1);
        if (found == 0xff) break;  // the function is gone
        if (found == id) return offset;
        offset = config.config_read(offset + 1, 1) & ~3u;
    }
    return std::nullopt;
}

FunctionId read_id(ConfigAccess& config) noexcept {
    FunctionId id;
    id.vendor = static_cast<std::uint16_t>(read16(config, reg::vendor_id));
    id.device = static_cast<std::uint16_t>(read16(config, reg::device_id));
    id.subsystem_vendor = static_cast<std::uint16_t>(read16(config, reg::subsystem_vendor_id));
    id.subsystem_device = static_cast<std::uint16_t>(read16(config, reg::subsystem_id));
    const std::uint32_t classes = config.config_read(reg::revision_id, 4);
    id.class_code = classes >> 8;
    id.revision = static_cast<std::uint8_t>(classes);
    return id;
}

}  // namespace mqblk::pci
