// SPDX-License-Identifier: Apache-2.0
//
// An I/O's memory in the host, as ranges of I/O addresses that a scatter-gather list named: where it is in this
// process, for a disk that works on it in place, or copied.
#pragma once

#include "pci/dma_space.h"
#include "pci/host_memory.h"

#include <mqblk/bio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mqblk::pci {

/// Where the ranges are in this process. Nothing, if some of it can only be copied, is not mapped, violates `mask`, or
/// `room` is too small: then read_ranges or write_ranges do it, or say that it cannot be done.
[[nodiscard]] std::optional<std::size_t> find_ranges(const MemoryHold& hold, std::span<const DmaSegment> ranges,
                                                     Access access, std::uint32_t mask,
                                                     std::span<Segment> room) noexcept;

/// Copies between the ranges and memory: read_ranges of their length, write_ranges of that or less, which goes to the
/// first of them. False: some of it is not mapped.
[[nodiscard]] bool read_ranges(const HostMemory& memory, std::span<const DmaSegment> ranges,
                               std::span<std::byte> to) noexcept;
[[nodiscard]] bool write_ranges(const HostMemory& memory, std::span<const DmaSegment> ranges,
                                std::span<const std::byte> from) noexcept;

}  // namespace mqblk::pci
