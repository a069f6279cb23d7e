// SPDX-License-Identifier: Apache-2.0
//
// The completion ring in the host's memory, as its producer. An entry is eight bytes, stored at once, after its error
// entry: whoever sees the cycle sees all of it. Nothing says how far the host has read; it must not have more commands
// outstanding than the ring has entries, and the card does not take more.
#pragma once

#include "pci/host_memory.h"
#include "wire/skd.h"

#include <cstdint>

namespace mqblk::device::skd {

class CompletionRing {
  public:
    /// Entries; 0 as long as the host has not said.
    [[nodiscard]] unsigned depth() const noexcept { return depth_; }
    void set_depth(unsigned depth) noexcept { depth_ = depth; }
    /// Begins at index 0 with cycle 1. False: no ring can be there.
    [[nodiscard]] bool set_address(std::uint64_t address) noexcept;
    [[nodiscard]] bool ready() const noexcept { return address_ != 0 && depth_ != 0; }
    void forget() noexcept;

    /// `sense`: with CHECK CONDITION. False: the ring is not mapped.
    [[nodiscard]] bool post(const pci::HostMemory& memory, std::uint16_t tag, wire::scsi::Status status,
                            std::uint32_t returned_bytes, const wire::scsi::Sense* sense) noexcept;

  private:
    std::uint64_t address_ = 0;
    unsigned depth_ = 0;
    wire::skd::RingPosition position_;
};

}  // namespace mqblk::device::skd
