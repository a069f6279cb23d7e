// SPDX-License-Identifier: Apache-2.0
#include "device/skd/sg_list.h"

#include "wire/skd.h"

#include <algorithm>

namespace mqblk::device::skd {

using pci::DmaSegment;
using wire::skd::SgDescriptor;

namespace {

bool well_formed(const SgDescriptor& descriptor) noexcept {
    const std::uint32_t control = descriptor.control;
    constexpr std::uint32_t misaligned = wire::skd::dma_alignment - 1;
    return (control == wire::skd::sg_last || control == wire::skd::sg_not_last) && descriptor.bytes != 0 &&
           ((descriptor.bytes | descriptor.host_address) & misaligned) == 0;
}

}  // namespace

SgList walk_sg_list(const pci::HostMemory& memory, std::uint64_t address, std::uint64_t bytes,
                    std::span<DmaSegment> room) noexcept {
    SgList list;
    const auto refuse = [&list](SgError error) noexcept {
        list.error = error;
        return list;
    };
    for (; bytes > 0; ++list.descriptors) {
        if (list.descriptors == max_descriptors) return refuse(SgError::too_long);
        if (address % wire::skd::sg_alignment != 0) return refuse(SgError::malformed);
        SgDescriptor descriptor;
        if (!memory.load(address, descriptor)) return refuse(SgError::unreadable);
        if (!well_formed(descriptor)) return refuse(SgError::malformed);
        const std::uint64_t count = std::min<std::uint64_t>(descriptor.bytes, bytes);
        const std::uint64_t from = descriptor.host_address;
        bytes -= count;
        DmaSegment* const previous = list.ranges > 0 ? &room[list.ranges - 1] : nullptr;
        if (previous != nullptr && previous->address + previous->bytes == from) {
            previous->bytes += count;
        } else {
            if (list.ranges == room.size()) return refuse(SgError::too_long);
            room[list.ranges++] = {from, count};
        }
        if (bytes > 0 && descriptor.control == wire::skd::sg_last) return refuse(SgError::too_short);
        address = descriptor.next_address;
    }
    return list;
}

}  // namespace mqblk::device::skd
