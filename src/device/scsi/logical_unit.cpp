// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/logical_unit.h"

#include "block/queue.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

namespace mqblk::device::scsi {

namespace {

/// FNV-1a: the same text, the same number, on every machine.
std::uint64_t hash_of(std::string_view text) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

std::string serial_of(const Identity& identity, std::string_view place) {
    if (!identity.serial.empty()) return identity.serial;
    return fmt::format("{:016X}",
                       hash_of(identity.uuid.empty() ? fmt::format("{}{}", identity.name, place) : identity.uuid));
}

}  // namespace

Result<std::shared_ptr<LogicalUnit>> LogicalUnit::create(std::shared_ptr<Device> device, UnitOptions options) {
    const std::uint32_t block = device->limits().logical_block_size;
    if (block < 512 || block > 4096) {
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' as a SCSI disk: its blocks are {} bytes; use a disk with blocks of 512 to 4096",
                                device->identity().name, block));
    }
    auto unit = std::make_shared<LogicalUnit>(std::move(device), std::move(options));
    if (auto loaded = unit->reservations_.load(); !loaded) return std::unexpected(loaded.error());
    return unit;
}

LogicalUnit::LogicalUnit(std::shared_ptr<Device> device, UnitOptions options)
    : device_(std::move(device)), options_(std::move(options)), reservations_(options_.reservation_file) {
    const QueueLimits limits = device_->limits();
    if (options_.serial.empty()) options_.serial = serial_of(device_->identity(), options_.place);
    naa_ = 0x3ull << 60 | hash_of(options_.serial) >> 4;
    block_shift_ = static_cast<unsigned>(std::countr_zero(limits.logical_block_size));
    can_unmap_ = limits.max_discard_sectors > 0;
    can_zero_ = limits.max_write_zeroes_sectors > 0;
    has_write_cache_ = limits.write_cache;
    reads_nothing_ = block::reads_nothing(*device_);
    memory_mask_ = limits.dma_alignment;
    write_cache_ = has_write_cache_;
}

bool LogicalUnit::set_modes(bool write_cache, bool descriptor_sense) noexcept {
    bool changed = write_cache_.exchange(write_cache, std::memory_order_relaxed) != write_cache;
    changed |= descriptor_sense_.exchange(descriptor_sense, std::memory_order_relaxed) != descriptor_sense;
    if (changed) mode_generation_.fetch_add(1, std::memory_order_relaxed);
    return changed;
}

std::shared_ptr<Initiator> LogicalUnit::initiator(const wire::scsi::TransportId& id) {
    const std::lock_guard lock(mutex_);
    std::erase_if(initiators_, [](const auto& entry) { return entry.second.expired(); });
    auto& known = initiators_[id];
    if (auto present = known.lock()) return present;
    auto fresh = std::make_shared<Initiator>(id, device_->sectors(), mode_generation());
    if (options_.attentions) fresh->attend(wire::scsi::asc::power_on_or_reset);
    known = fresh;
    return fresh;
}

void LogicalUnit::attend_others(std::uint16_t code, const Initiator* except) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, known] : initiators_) {
        const auto initiator = known.lock();
        if (initiator && initiator.get() != except) initiator->attend(code);
    }
}

std::optional<ReserveOutcome> LogicalUnit::change_reservations(const wire::scsi::TransportId& from,
                                                               const ReserveRequest& request) {
    auto outcome = reservations_.change(from, request);
    if (!outcome) return outcome;
    const std::lock_guard lock(mutex_);
    for (const auto& notice : outcome->notices) {
        const auto known = initiators_.find(notice.initiator);
        if (known == initiators_.end()) continue;
        if (const auto initiator = known->second.lock()) initiator->attend(notice.code);
    }
    return outcome;
}

void LogicalUnit::reset(const Initiator* except) {
    set_modes(has_write_cache_, false);
    set_stopped(false);
    attend_others(wire::scsi::asc::device_reset, except);
}

}  // namespace mqblk::device::scsi
