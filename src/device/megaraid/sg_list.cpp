// SPDX-License-Identifier: Apache-2.0
#include "device/megaraid/sg_list.h"

#include <algorithm>
#include <array>

namespace mqblk::device::megaraid {

using wire::megaraid::IeeeSge;

namespace {

struct Walk {
    std::span<pci::DmaSegment, max_ranges> room;
    std::uint64_t left;
    SgList list{};
    bool ended = false;  ///< by its last element, or because it is wrong

    SgList stop(SgError error) noexcept { return {.error = error}; }

    /// One element with data; false when it is wrong.
    bool take(const IeeeSge& sge) noexcept {
        if ((sge.flags & wire::megaraid::sge_address_space) != 0 || sge.bytes == 0) return false;
        const std::uint64_t count = std::min<std::uint64_t>(sge.bytes, left);
        pci::DmaSegment* const previous = list.ranges > 0 ? &room[list.ranges - 1] : nullptr;
        if (previous != nullptr && previous->address + previous->bytes == sge.address) {
            previous->bytes += count;
        } else {
            room[list.ranges++] = {sge.address, count};
        }
        left -= count;
        ended = (sge.flags & wire::megaraid::sge_end_of_list) != 0;
        return true;
    }
};

SgList walk_chain(const pci::HostMemory& memory, const IeeeSge& chain, Walk& walk) noexcept {
    const std::size_t count = chain.bytes / sizeof(IeeeSge);
    if (chain.bytes % sizeof(IeeeSge) != 0 || count == 0 || count > max_chain_sges)
        return walk.stop(SgError::malformed);
    std::array<IeeeSge, max_chain_sges> elements;
    const std::span<IeeeSge> used(elements.data(), count);
    if (!memory.read(chain.address, std::as_writable_bytes(used))) return walk.stop(SgError::unreadable);
    for (const IeeeSge& sge : used) {
        if ((sge.flags & wire::megaraid::sge_chain) != 0 || !walk.take(sge)) return walk.stop(SgError::malformed);
        if (walk.left == 0 || walk.ended) break;
    }
    return walk.left == 0 ? walk.list : walk.stop(SgError::too_short);
}

}  // namespace

SgList walk_sg_list(const pci::HostMemory& memory, const wire::megaraid::ScsiIoRequest& request, std::uint64_t bytes,
                    std::span<pci::DmaSegment, max_ranges> room) noexcept {
    Walk walk{.room = room, .left = bytes};
    if (bytes == 0) return walk.list;
    for (const IeeeSge& sge : request.sgl) {
        if ((sge.flags & wire::megaraid::sge_chain) != 0) return walk_chain(memory, sge, walk);
        if (!walk.take(sge)) return walk.stop(SgError::malformed);
        if (walk.left == 0) return walk.list;
        if (walk.ended) break;
    }
    return walk.stop(SgError::too_short);
}

}  // namespace mqblk::device::megaraid
