// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/namespace.h"

#include "block/queue.h"
#include "device/nvme/worker.h"

#include <bit>
#include <utility>

namespace mqblk::device::nvme {

namespace {
std::uint8_t shift_of(const Device& device) {
    return static_cast<std::uint8_t>(std::countr_zero(device.limits().logical_block_size));
}
}  // namespace

void IoTotals::add(const IoCounters& counters) noexcept {
    reads += counters.reads.load(std::memory_order_relaxed);
    writes += counters.writes.load(std::memory_order_relaxed);
    sectors_read += counters.sectors_read.load(std::memory_order_relaxed);
    sectors_written += counters.sectors_written.load(std::memory_order_relaxed);
    media_errors += counters.media_errors.load(std::memory_order_relaxed);
}

void IoTotals::add(const IoTotals& other) noexcept {
    reads += other.reads;
    writes += other.writes;
    sectors_read += other.sectors_read;
    sectors_written += other.sectors_written;
    media_errors += other.media_errors;
}

Namespace::Namespace(Config config)
    : blocks(0),
      direct(block::direct_access(*config.device)),
      nsid(config.nsid),
      slot(config.slot),
      block_shift(shift_of(*config.device)),
      read_only(false),
      reads_nothing(block::reads_nothing(*config.device)),
      uri(std::move(config.uri)),
      uuid(config.uuid),
      nguid(config.nguid),
      device_(std::move(config.device)) {
    refresh();
}

Namespace::~Namespace() = default;

bool Namespace::refresh() noexcept {
    const auto current = device();
    if (!current) return false;
    const std::uint64_t size = current->sectors() >> (block_shift - 9);
    const bool protection = current->read_only();
    const bool gone = current->removed();
    const QueueLimits limits = current->limits();
    can_discard.store(limits.max_discard_sectors > 0, std::memory_order_relaxed);
    can_zero.store(limits.max_write_zeroes_sectors > 0, std::memory_order_relaxed);
    memory_mask.store(limits.dma_alignment, std::memory_order_relaxed);
    bool changed = blocks.exchange(size, std::memory_order_relaxed) != size;
    changed |= read_only.exchange(protection, std::memory_order_relaxed) != protection;
    changed |= removed.exchange(gone, std::memory_order_relaxed) != gone;
    return changed;
}

std::shared_ptr<Device> Namespace::device() const {
    const std::lock_guard lock(mutex);
    return device_;
}

void Namespace::let_go() {
    std::shared_ptr<Device> last;  // its destructor may wait: not under the mutex
    const std::lock_guard lock(mutex);
    last = std::move(device_);
}

IoTotals Namespace::totals() const {
    const std::lock_guard lock(mutex);
    IoTotals sum = past_;
    for (const NamespaceChannel* channel : channels) sum.add(channel->counters);
    return sum;
}

bool Namespace::attach(NamespaceChannel& channel) {
    const std::lock_guard lock(mutex);
    channels.push_back(&channel);
    return fused_first != nullptr;
}

void Namespace::detach(NamespaceChannel& channel) {
    const std::lock_guard lock(mutex);
    past_.add(channel.counters);
    std::erase(channels, &channel);
}

}  // namespace mqblk::device::nvme
