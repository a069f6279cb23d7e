// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/initiator.h"

#include <algorithm>

namespace mqblk::device::scsi {

Initiator::Initiator(const wire::scsi::TransportId& id, std::uint64_t sectors, std::uint32_t modes) noexcept
    : sectors_seen(sectors), modes_seen(modes), id_(id) {}

void Initiator::attend(std::uint16_t code) noexcept {
    const std::lock_guard lock(mutex_);
    const unsigned count = count_.load(std::memory_order_relaxed);
    const auto end = attentions_.begin() + count;
    if (count == attentions_.size() || std::find(attentions_.begin(), end, code) != end) return;
    attentions_[count] = code;
    count_.store(count + 1, std::memory_order_relaxed);
}

std::uint16_t Initiator::take_attention() noexcept {
    const std::lock_guard lock(mutex_);
    const unsigned count = count_.load(std::memory_order_relaxed);
    if (count == 0) return 0;
    const std::uint16_t first = attentions_[0];
    std::shift_left(attentions_.begin(), attentions_.begin() + count, 1);
    count_.store(count - 1, std::memory_order_relaxed);
    return first;
}

}  // namespace mqblk::device::scsi
