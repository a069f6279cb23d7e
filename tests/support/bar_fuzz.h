// SPDX-License-Identifier: Apache-2.0
//
// Accesses to a BAR as a fuzzer's bytes say them: steps of eight bytes, one after the other.
#pragma once

#include "pci/bar.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace mqblk::test {

/// Reads or writes 1 << `width` bytes (8 for 3 and more) at `offset`, rounded down to a multiple of them.
inline void access_bar(const pci::Bar& bar, unsigned offset, unsigned width, std::uint64_t value, bool write) {
    switch (width) {
        case 0:
            write ? bar.write8(offset, static_cast<std::uint8_t>(value)) : static_cast<void>(bar.read8(offset));
            return;
        case 1:
            write ? bar.write16(offset & ~1u, static_cast<std::uint16_t>(value))
                  : static_cast<void>(bar.read16(offset & ~1u));
            return;
        case 2:
            write ? bar.write32(offset & ~3u, static_cast<std::uint32_t>(value))
                  : static_cast<void>(bar.read32(offset & ~3u));
            return;
        default:
            write ? bar.write64(offset & ~7u, value) : static_cast<void>(bar.read64(offset & ~7u));
            return;
    }
}

/// A device is brought up, `prepare`d, led through the input's steps, and must come up again with nothing left over.
template <class Fuzz>
void run_steps(Fuzz& fuzz, std::span<const std::uint8_t> input, void (*prepare)(Fuzz&),
               void (*step)(Fuzz&, const std::uint8_t*)) {
    constexpr std::size_t step_bytes = 8;
    constexpr unsigned most_steps = 256;
    fuzz.bring_up();
    prepare(fuzz);
    for (unsigned steps = 0; input.size() >= step_bytes && steps < most_steps; ++steps) {
        step(fuzz, input.data());
        input = input.subspan(step_bytes);
    }
    fuzz.bring_up();
    fuzz.check();
}

}  // namespace mqblk::test
