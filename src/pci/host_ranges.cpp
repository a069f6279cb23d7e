// SPDX-License-Identifier: Apache-2.0
#include "pci/host_ranges.h"

#include <algorithm>

namespace mqblk::pci {

std::optional<std::size_t> find_ranges(const MemoryHold& hold, std::span<const DmaSegment> ranges, Access access,
                                       std::uint32_t mask, std::span<Segment> room) noexcept {
    std::size_t used = 0;
    for (const DmaSegment& range : ranges) {
        const auto pieces = HostMemory::pieces(hold, range.address, range.bytes, access, room.subspan(used));
        if (!pieces) return std::nullopt;
        for (std::size_t end = used + *pieces; used < end; ++used) {
            if (((reinterpret_cast<std::uintptr_t>(room[used].data) | room[used].bytes) & mask) != 0)
                return std::nullopt;
        }
    }
    return used;
}

bool read_ranges(const HostMemory& memory, std::span<const DmaSegment> ranges, std::span<std::byte> to) noexcept {
    for (const DmaSegment& range : ranges) {
        if (!memory.read(range.address, to.first(range.bytes))) return false;
        to = to.subspan(range.bytes);
    }
    return true;
}

bool write_ranges(const HostMemory& memory, std::span<const DmaSegment> ranges,
                  std::span<const std::byte> from) noexcept {
    for (const DmaSegment& range : ranges) {
        const std::size_t count = std::min<std::size_t>(range.bytes, from.size());
        if (count == 0) break;
        if (!memory.write(range.address, from.first(count))) return false;
        from = from.subspan(count);
    }
    return true;
}

}  // namespace mqblk::pci
