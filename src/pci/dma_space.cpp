// SPDX-License-Identifier: Apache-2.0
//
// Addresses are given out from the bottom up, first fit, page by page, with a page left free between two mappings so
// that a device that runs over the end of one never hits another. Where the device reaches everything, an address is
// the pointer itself and nothing is looked up.
#include "pci/dma_space.h"

#include "base/rcu.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace mqblk::pci {

namespace {

constexpr std::uint64_t page = memory::Buffer::page_bytes;

std::uint64_t pointer_value(const std::byte* data) noexcept {
    return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace

struct DmaSpace::Table {
    struct Range {
        std::uint64_t data;  ///< the pointer's value
        std::uint64_t bytes;
        std::uint64_t address;
    };
    std::vector<Range> ranges;  ///< by `data`

    [[nodiscard]] const Range* find(std::uint64_t data) const noexcept {
        auto after = std::upper_bound(ranges.begin(), ranges.end(), data,
                                      [](std::uint64_t d, const Range& range) { return d < range.data; });
        if (after == ranges.begin()) return nullptr;
        --after;
        return data - after->data < after->bytes ? &*after : nullptr;
    }
};

DmaMapping::~DmaMapping() {
    if (space_ != nullptr) space_->unmap(address_);
}

DmaSpace::DmaSpace(std::unique_ptr<DmaBackend> backend, Options options)
    : backend_(std::move(backend)), options_(options), table_(new Table) {}

DmaSpace::~DmaSpace() {
    delete table_.load(std::memory_order_relaxed);
}

Result<DmaMemory> DmaSpace::allocate(std::size_t bytes, AddressLimit limit) {
    auto buffer = memory::Buffer::allocate(bytes, backing());
    if (!buffer) return std::unexpected(buffer.error());
    DmaMemory result;
    result.buffer_ = std::move(*buffer);
    auto mapping = map(result.buffer_, limit);
    if (!mapping) return std::unexpected(mapping.error());
    result.mapping_ = std::move(*mapping);
    return result;
}

Result<DmaMapping> DmaSpace::map(const memory::Buffer& buffer, AddressLimit limit) {
    return map_at(buffer.span(), buffer.fd(), limit);
}

Result<DmaMapping> DmaSpace::map(std::span<std::byte> pages, AddressLimit limit) {
    return map_at(pages, -1, limit);
}

std::optional<std::uint64_t> DmaSpace::find_room(std::uint64_t bytes, AddressLimit limit) const {
    const bool low = limit == AddressLimit::below_4g;
    std::uint64_t start = low ? options_.low_start : options_.high_start;
    const std::uint64_t end = low ? options_.low_end : options_.high_end;
    for (auto next = entries_.lower_bound(start);; ++next) {
        const std::uint64_t free_until = next == entries_.end() ? end : std::min(end, next->first);
        if (free_until >= start && free_until - start > bytes) return start;
        if (next == entries_.end() || next->first >= end) return std::nullopt;
        start = next->first + next->second.memory.size() + page;
    }
}

Result<DmaMapping> DmaSpace::map_at(std::span<std::byte> memory, int fd, AddressLimit limit) {
    if (memory.empty() || pointer_value(memory.data()) % page != 0 || memory.size() % page != 0) {
        return fail(Errc::invalid_argument, fmt::format("map {} bytes at {} for DMA: must be whole pages of {} bytes",
                                                        memory.size(), static_cast<const void*>(memory.data()), page));
    }
    const std::lock_guard lock(mutex_);
    DmaMapping result;
    result.bytes_ = memory.size();
    if (options_.reaches_everything && limit == AddressLimit::none) {
        result.address_ = pointer_value(memory.data());
        return result;  // nothing to undo
    }
    const auto room = find_room(memory.size(), limit);
    if (!room) {
        return fail(Errc::no_space, fmt::format("map {} bytes for DMA: no I/O addresses{} are left", memory.size(),
                                                limit == AddressLimit::below_4g ? " below 4 GiB" : ""));
    }
    if (auto mapped = backend_->map(*room, memory, fd, 0); !mapped) return std::unexpected(mapped.error());
    entries_.emplace(*room, Entry{memory, fd});
    publish();
    result.space_ = this;
    result.address_ = *room;
    return result;
}

void DmaSpace::unmap(std::uint64_t address) noexcept {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(address);
    const std::uint64_t bytes = entry->second.memory.size();
    entries_.erase(entry);
    publish();
    backend_->unmap(address, bytes);
}

void DmaSpace::publish() {
    auto next = std::make_unique<Table>();
    for (const auto& [address, entry] : entries_) {
        next->ranges.push_back({pointer_value(entry.memory.data()), entry.memory.size(), address});
    }
    std::ranges::sort(next->ranges, {}, &Table::Range::data);
    const std::unique_ptr<const Table> old(table_.exchange(next.release(), std::memory_order_acq_rel));
    rcu::synchronize();
}

Result<> DmaSpace::restore() {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, entry] : entries_) {
        if (auto mapped = backend_->map(address, entry.memory, entry.fd, 0); !mapped) return mapped;
    }
    return {};
}

std::optional<std::uint64_t> DmaSpace::address(const std::byte* data, std::size_t bytes) const noexcept {
    if (options_.reaches_everything) return pointer_value(data);
    const rcu::ReadLock lock;
    const Table::Range* const range = table_.load(std::memory_order_acquire)->find(pointer_value(data));
    if (range == nullptr) return std::nullopt;
    const std::uint64_t offset = pointer_value(data) - range->data;
    if (bytes > range->bytes - offset) return std::nullopt;
    return range->address + offset;
}

std::optional<std::span<DmaSegment>> DmaSpace::translate(Segments memory, std::span<DmaSegment> room) const noexcept {
    std::size_t count = 0;
    const auto append = [&](std::uint64_t address, std::uint64_t bytes) noexcept {
        if (count != 0 && room[count - 1].address + room[count - 1].bytes == address) {
            room[count - 1].bytes += bytes;
            return true;
        }
        if (count == room.size()) return false;
        room[count++] = {address, bytes};
        return true;
    };
    if (options_.reaches_everything) {
        for (const Segment& segment : memory) {
            if (segment.bytes != 0 && !append(pointer_value(segment.data), segment.bytes)) return std::nullopt;
        }
        return room.first(count);
    }
    const rcu::ReadLock lock;
    const Table& table = *table_.load(std::memory_order_acquire);
    const Table::Range* range = nullptr;
    for (const Segment& segment : memory) {
        std::uint64_t data = pointer_value(segment.data);
        for (std::uint64_t left = segment.bytes; left != 0;) {
            if (range == nullptr || data - range->data >= range->bytes) range = table.find(data);
            if (range == nullptr) return std::nullopt;
            const std::uint64_t offset = data - range->data;
            const std::uint64_t here = std::min(left, range->bytes - offset);
            if (!append(range->address + offset, here)) return std::nullopt;
            data += here;
            left -= here;
        }
    }
    return room.first(count);
}

}  // namespace mqblk::pci
