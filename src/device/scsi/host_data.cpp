// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/host_data.h"

#include "pci/host_ranges.h"

#include <algorithm>
#include <utility>

namespace mqblk::device::scsi {

void HostData::begin() noexcept {
    direction = Direction::none;
    bytes = 0;
    ranges = 0;
}

bool HostData::map(const pci::HostMemory& memory, const Plan& plan, Command& command) noexcept {
    hold_ = memory.hold();
    const pci::Access access = direction == Direction::from_initiator ? pci::Access::read : pci::Access::write;
    const auto pieces = pci::find_ranges(hold_, host_ranges(), access, plan.memory_mask, piece_room);
    if (!pieces) [[unlikely]] {
        hold_ = {};
        return false;
    }
    command.data = piece_room.first(*pieces);
    return true;
}

memory::BufferPool::Grant HostData::ask(memory::BufferPool& pool) noexcept {
    copy.bytes = bytes;
    const auto grant = pool.get(copy);
    copies_ = grant == memory::BufferPool::Grant::granted;
    return grant;
}

bool HostData::fill(const pci::HostMemory& memory, Command& command) noexcept {
    copy_piece_ = {copy.data, bytes};
    if (direction == Direction::from_initiator && !pci::read_ranges(memory, host_ranges(), {copy.data, bytes}))
        return false;
    command.data = {&copy_piece_, 1};
    return true;
}

bool HostData::deliver(const pci::HostMemory& memory, const Command& command) const noexcept {
    if (!copies_ || direction != Direction::to_initiator || command.status != wire::scsi::Status::good) [[likely]]
        return true;
    // No more than the disk has said: what lies behind it is the last user's.
    return pci::write_ranges(memory, host_ranges(), {copy.data, std::min(bytes, command.transferred)});
}

Segment HostData::take_copy() noexcept {
    if (!std::exchange(copies_, false)) [[likely]]
        return {nullptr, 0};
    return {copy.data, copy.bytes};
}

}  // namespace mqblk::device::scsi
