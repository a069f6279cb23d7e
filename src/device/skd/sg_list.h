// SPDX-License-Identifier: Apache-2.0
//
// Scatter-gather lists as they lie in the host's memory, really walked: each descriptor is copied once, checked, and
// the next one is where it says. What loops is refused when it is longer than any list may be.
#pragma once

#include "pci/dma_space.h"
#include "pci/host_memory.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace mqblk::device::skd {

/// A driver's most (skd_sgs_per_request); a longer list is a loop or a mistake.
inline constexpr std::size_t max_descriptors = 4096;

enum class SgError : std::uint8_t {
    none,
    unreadable,  ///< a descriptor lies where nothing is mapped
    malformed,   ///< misaligned, an unknown control word, a count of zero
    too_long,    ///< more descriptors than there may be
    too_short,   ///< the last descriptor came before all bytes were found
};

struct SgList {
    SgError error = SgError::none;
    std::size_t ranges = 0;       ///< used of the room; neighbours are joined
    std::size_t descriptors = 0;  ///< walked, whatever came of it
};

/// The first `bytes` bytes of the list that begins at `address`, as ranges of I/O addresses. `room` is for
/// max_descriptors.
[[nodiscard]] SgList walk_sg_list(const pci::HostMemory& memory, std::uint64_t address, std::uint64_t bytes,
                                  std::span<pci::DmaSegment> room) noexcept;

}  // namespace mqblk::device::skd
