// SPDX-License-Identifier: Apache-2.0
#include "device/skd/completion_ring.h"

#include <bit>

namespace mqblk::device::skd {

using namespace wire::skd;

bool CompletionRing::set_address(std::uint64_t address) noexcept {
    position_ = {};
    // Entries are stored in one piece, and a ring that wraps around the address space is none.
    const bool possible =
        address != 0 && address % sizeof(CompletionEntry) == 0 && address <= ~completion_ring_bytes(depth_);
    address_ = possible ? address : 0;
    return possible;
}

void CompletionRing::forget() noexcept {
    address_ = 0;
    depth_ = 0;
    position_ = {};
}

bool CompletionRing::post(const pci::HostMemory& memory, std::uint16_t tag, wire::scsi::Status status,
                          std::uint32_t returned_bytes, const wire::scsi::Sense* sense) noexcept {
    if (sense != nullptr) [[unlikely]] {
        const ErrorEntry error{.sense = wire::scsi::build_fixed_sense(*sense)};
        if (!memory.store(address_ + error_offset(position_.index, depth_), error)) return false;
    }
    const CompletionEntry entry{.returned_bytes = returned_bytes,
                                .tag = tag,
                                .status = static_cast<std::uint8_t>(status),
                                .cycle = position_.cycle};
    const std::uint64_t place = address_ + completion_offset(position_.index);
    position_.advance(depth_);
    return memory.publish(place, std::bit_cast<std::uint64_t>(entry));
}

}  // namespace mqblk::device::skd
