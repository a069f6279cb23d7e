// SPDX-License-Identifier: Apache-2.0
//
// The IEEE scatter-gather list of a request, really walked: up to eight elements in the frame, of which one may say
// that the rest is in a chain frame. A chain is one piece; it is copied once, whole, and a chain within a chain is
// refused, so nothing can loop.
#pragma once

#include "pci/dma_space.h"
#include "pci/host_memory.h"
#include "wire/megaraid_mpi.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace mqblk::device::megaraid {

/// Of the largest chain frame that the firmware states.
inline constexpr std::size_t max_chain_sges = 256;
/// What one request can name; neighbours are joined.
inline constexpr std::size_t max_ranges = wire::megaraid::sges_in_frame + max_chain_sges;

enum class SgError : std::uint8_t {
    none,
    unreadable,  ///< the chain lies where nothing is mapped
    malformed,   ///< a chain in a chain or of no whole elements, an element of no bytes or in another address space
    too_short,   ///< the list ends before all bytes were found
};

struct SgList {
    SgError error = SgError::none;
    std::size_t ranges = 0;  ///< used of the room
};

/// The first `bytes` bytes of the request's list, as ranges of I/O addresses.
[[nodiscard]] SgList walk_sg_list(const pci::HostMemory& memory, const wire::megaraid::ScsiIoRequest& request,
                                  std::uint64_t bytes, std::span<pci::DmaSegment, max_ranges> room) noexcept;

}  // namespace mqblk::device::megaraid
