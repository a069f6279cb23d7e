// SPDX-License-Identifier: Apache-2.0
//
// HostData: a command's data in the memory of a card's host. The disk works on that memory itself where it can; where
// it cannot (memory that is only copied, alignment), the data go through memory of a pool.
#pragma once

#include "device/scsi/command.h"
#include "device/scsi/nexus.h"
#include "memory/buffer_pool.h"
#include "pci/dma_space.h"
#include "pci/host_memory.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace mqblk::device::scsi {

/// Of one command after the other, on one thread. Whoever has it fills range_room with where the data are.
struct HostData {
    Direction direction = Direction::none;
    std::uint32_t bytes = 0;
    std::span<pci::DmaSegment> range_room;
    std::size_t ranges = 0;         ///< used of the room
    std::span<Segment> piece_room;  ///< for what map() finds
    memory::BufferRequest copy;     ///< whose `ready` calls fill()

    /// A new command has no data yet.
    void begin() noexcept;

    /// Gives the command the host's memory itself; held until let_go(). False: the disk cannot work on it.
    [[nodiscard]] bool map(const pci::HostMemory& memory, const Plan& plan, Command& command) noexcept;
    void let_go() noexcept { hold_ = {}; }

    /// Asks for memory to copy through. Granted: it is there, as when `ready` is called; fill() is next, or release.
    [[nodiscard]] memory::BufferPool::Grant ask(memory::BufferPool& pool) noexcept;
    /// Gives the command the granted memory, with the data in it that the host has for the disk. False: it has none.
    [[nodiscard]] bool fill(const pci::HostMemory& memory, Command& command) noexcept;
    /// Gives the host what the disk has for it, if it is in a copy. False: the host has no memory there.
    [[nodiscard]] bool deliver(const pci::HostMemory& memory, const Command& command) const noexcept;

    /// The granted memory, which the caller gives back to its pool; of no bytes if there is none.
    [[nodiscard]] Segment take_copy() noexcept;
    void granted() noexcept { copies_ = true; }  ///< for `ready`

  private:
    [[nodiscard]] std::span<const pci::DmaSegment> host_ranges() const noexcept { return range_room.first(ranges); }

    pci::MemoryHold hold_;
    bool copies_ = false;  ///< `copy` has memory
    Segment copy_piece_{nullptr, 0};
};

}  // namespace mqblk::device::scsi
