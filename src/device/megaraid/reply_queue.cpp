// SPDX-License-Identifier: Apache-2.0
#include "device/megaraid/reply_queue.h"

#include <bit>

namespace mqblk::device::megaraid {

using wire::megaraid::ReplyDescriptor;

void ReplyQueues::configure(unsigned count, unsigned depth) noexcept {
    count_ = count;
    depth_ = depth;
    for (unsigned i = 0; i < count; ++i) {
        queues_[i].index = 0;
        queues_[i].host_index.store(0, std::memory_order_relaxed);
    }
}

ReplyQueues::Posted ReplyQueues::post(const pci::HostMemory& memory, unsigned queue, std::uint16_t smid) noexcept {
    Queue& to = queues_[queue < count_ ? queue : 0];
    const unsigned next = to.index + 1 == depth_ ? 0 : to.index + 1;
    if (next == to.host_index.load(std::memory_order_relaxed)) [[unlikely]]
        return Posted::full;
    const ReplyDescriptor descriptor{.flags = static_cast<std::uint8_t>(wire::megaraid::ReplyType::scsi_io_success),
                                     .msix_index = static_cast<std::uint8_t>(queue),
                                     .smid = smid,
                                     .dependent = {}};
    // Bytes, as they lie in memory.
    if (!memory.publish(to.address + to.index * sizeof descriptor, std::bit_cast<std::uint64_t>(descriptor)))
        [[unlikely]]
        return Posted::unmapped;
    to.index = next;
    return Posted::yes;
}

}  // namespace mqblk::device::megaraid
