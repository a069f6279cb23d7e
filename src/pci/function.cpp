// SPDX-License-Identifier: Apache-2.0
//
// What all kinds of Function share.
#include "pci/function.h"

#include <fmt/format.h>

#include <bit>

namespace mqblk::pci {

void Function::set_bus_master(bool on) noexcept {
    const std::uint32_t now = config_read(reg::command, 2);
    const std::uint32_t wanted = on ? now | command::memory_space | command::bus_master : now & ~command::bus_master;
    if (now != 0xffff && wanted != now) config_write(reg::command, 2, wanted);
}

Result<> Function::check_vectors(InterruptType type, unsigned vectors) const {
    const InterruptCounts counts = interrupt_counts();
    const auto fits = [&](unsigned most, const char* kind) -> Result<> {
        if (vectors >= 1 && vectors <= most) return {};
        return fail(Errc::not_supported, fmt::format("{} {} vectors of {}: it has {}", vectors, kind, name(), most));
    };
    switch (type) {
        case InterruptType::none:
            return {};
        case InterruptType::intx:
            return fits(counts.intx, "INTx");
        case InterruptType::msix:
            return fits(counts.msix, "MSI-X");
        case InterruptType::msi:
            break;
    }
    if (!std::has_single_bit(vectors)) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} MSI vectors of {}: must be a power of two", vectors, name()));
    }
    return fits(counts.msi, "MSI");
}

}  // namespace mqblk::pci
