// SPDX-License-Identifier: Apache-2.0
//
// The table of regions is replaced as a whole and read under RCU, so an access never waits. A replaced table lives on
// while it is held; only when none is, what it names may go.
#include "pci/host_memory.h"

#include "base/rcu.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace mqblk::pci {

namespace {

/// Below this no process has memory: catches a null pointer that became an address.
constexpr std::uint64_t lowest_pointer = 4096;

}  // namespace

struct MemoryTable {
    static constexpr std::size_t shards = 8;
    struct alignas(64) Count {
        std::atomic<std::uint32_t> holds{0};
    };

    std::vector<MemoryRegion> regions;  ///< by address
    bool everything = false;
    std::array<Count, shards> counts{};

    /// The region with `address` in it.
    [[nodiscard]] const MemoryRegion* find(std::uint64_t address) const noexcept {
        auto after = std::upper_bound(regions.begin(), regions.end(), address,
                                      [](std::uint64_t a, const MemoryRegion& region) { return a < region.address; });
        if (after == regions.begin()) return nullptr;
        const MemoryRegion& region = *--after;
        return address - region.address < region.bytes ? &region : nullptr;
    }
    [[nodiscard]] bool held() const noexcept {
        return std::ranges::any_of(counts, [](const Count& c) { return c.holds.load(std::memory_order_acquire) != 0; });
    }
};

namespace {

bool allows(const MemoryRegion& region, Access access) noexcept {
    return access == Access::read ? region.readable : region.writable;
}

/// Each thread counts in a place of its own, as far as they go round.
std::size_t shard_of_thread() noexcept {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t mine = next.fetch_add(1, std::memory_order_relaxed) % MemoryTable::shards;
    return mine;
}

/// One piece of a range: memory, or a region to be asked for it.
struct Piece {
    std::byte* memory = nullptr;
    const MemoryRegion* remote = nullptr;
    std::uint64_t offset = 0;  ///< within `remote`
    std::uint64_t bytes = 0;   ///< 0: not mapped for that
};

Piece first_piece(const MemoryTable& table, std::uint64_t address, std::uint64_t bytes, Access access) noexcept {
    const MemoryRegion* const region = table.regions.empty() ? nullptr : table.find(address);
    if (region == nullptr) {
        if (!table.everything || address < lowest_pointer || bytes > ~address) return {};
        return {reinterpret_cast<std::byte*>(address), nullptr, 0, bytes};
    }
    if (!allows(*region, access)) return {};
    const std::uint64_t offset = address - region->address;
    const std::uint64_t here = std::min(bytes, region->bytes - offset);
    if (region->memory == nullptr) return {nullptr, region, offset, here};
    return {region->memory + offset, nullptr, 0, here};
}

template <class T>
void store_release(void* to, const void* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof value);
    std::atomic_ref<T>(*static_cast<T*>(to)).store(value, std::memory_order_release);
}

template <class T>
void load_acquire(void* to, void* from) noexcept {
    const T value = std::atomic_ref<T>(*static_cast<T*>(from)).load(std::memory_order_acquire);
    std::memcpy(to, &value, sizeof value);
}

}  // namespace

Segment MemoryHold::find(std::uint64_t address, std::uint64_t bytes, Access access) const noexcept {
    if (table_ == nullptr || bytes == 0) return {nullptr, 0};
    const Piece piece = first_piece(*table_, address, bytes, access);
    if (piece.memory == nullptr) return {nullptr, 0};
    return {piece.memory, piece.bytes};
}

HostMemory::HostMemory(bool reaches_everything) : reaches_everything_(reaches_everything), table_(new MemoryTable) {
    table_.load(std::memory_order_relaxed)->everything = reaches_everything;
}

HostMemory::~HostMemory() {
    delete table_.load(std::memory_order_relaxed);
}

MemoryHold HostMemory::hold() const noexcept {
    MemoryHold result;
    const rcu::ReadLock lock;
    MemoryTable& table = *table_.load(std::memory_order_acquire);
    result.table_ = &table;
    result.count_ = &table.counts[shard_of_thread()].holds;
    result.count_->fetch_add(1, std::memory_order_relaxed);
    return result;
}

bool HostMemory::read(std::uint64_t address, std::span<std::byte> to) const noexcept {
    {
        const rcu::ReadLock lock;
        const MemoryTable& table = *table_.load(std::memory_order_acquire);
        while (!to.empty()) {
            const Piece piece = first_piece(table, address, to.size(), Access::read);
            if (piece.bytes == 0) return false;
            if (piece.memory == nullptr) break;
            std::memcpy(to.data(), piece.memory, piece.bytes);
            to = to.subspan(piece.bytes);
            address += piece.bytes;
        }
        if (to.empty()) return true;
    }
    // The rest has to be asked for, which takes its time: under a hold instead.
    const MemoryHold kept = hold();
    while (!to.empty()) {
        const Piece piece = first_piece(*kept.table_, address, to.size(), Access::read);
        if (piece.bytes == 0) return false;
        if (piece.memory != nullptr) {
            std::memcpy(to.data(), piece.memory, piece.bytes);
        } else if (!piece.remote->remote->read(piece.offset, to.first(piece.bytes))) {
            return false;
        }
        to = to.subspan(piece.bytes);
        address += piece.bytes;
    }
    return true;
}

bool HostMemory::write(std::uint64_t address, std::span<const std::byte> from) const noexcept {
    {
        const rcu::ReadLock lock;
        const MemoryTable& table = *table_.load(std::memory_order_acquire);
        while (!from.empty()) {
            const Piece piece = first_piece(table, address, from.size(), Access::write);
            if (piece.bytes == 0) return false;
            if (piece.memory == nullptr) break;
            std::memcpy(piece.memory, from.data(), piece.bytes);
            from = from.subspan(piece.bytes);
            address += piece.bytes;
        }
        if (from.empty()) return true;
    }
    const MemoryHold kept = hold();
    while (!from.empty()) {
        const Piece piece = first_piece(*kept.table_, address, from.size(), Access::write);
        if (piece.bytes == 0) return false;
        if (piece.memory != nullptr) {
            std::memcpy(piece.memory, from.data(), piece.bytes);
        } else if (!piece.remote->remote->write(piece.offset, from.first(piece.bytes))) {
            return false;
        }
        from = from.subspan(piece.bytes);
        address += piece.bytes;
    }
    return true;
}

bool HostMemory::publish_bytes(std::uint64_t address, const void* value, unsigned bytes) const noexcept {
    if (address % bytes != 0) return false;
    {
        const rcu::ReadLock lock;
        const Piece piece = first_piece(*table_.load(std::memory_order_acquire), address, bytes, Access::write);
        if (piece.bytes != bytes) return false;
        if (piece.memory != nullptr) {
            if (reinterpret_cast<std::uintptr_t>(piece.memory) % bytes != 0) return false;
            switch (bytes) {
                case 1:
                    store_release<std::uint8_t>(piece.memory, value);
                    break;
                case 2:
                    store_release<std::uint16_t>(piece.memory, value);
                    break;
                case 4:
                    store_release<std::uint32_t>(piece.memory, value);
                    break;
                default:
                    store_release<std::uint64_t>(piece.memory, value);
                    break;
            }
            return true;
        }
    }
    return write(address, {static_cast<const std::byte*>(value), bytes});
}

bool HostMemory::consume_bytes(std::uint64_t address, void* value, unsigned bytes) const noexcept {
    if (address % bytes != 0) return false;
    {
        const rcu::ReadLock lock;
        const Piece piece = first_piece(*table_.load(std::memory_order_acquire), address, bytes, Access::read);
        if (piece.bytes != bytes) return false;
        if (piece.memory != nullptr) {
            if (reinterpret_cast<std::uintptr_t>(piece.memory) % bytes != 0) return false;
            switch (bytes) {
                case 1:
                    load_acquire<std::uint8_t>(value, piece.memory);
                    break;
                case 2:
                    load_acquire<std::uint16_t>(value, piece.memory);
                    break;
                case 4:
                    load_acquire<std::uint32_t>(value, piece.memory);
                    break;
                default:
                    load_acquire<std::uint64_t>(value, piece.memory);
                    break;
            }
            return true;
        }
    }
    return read(address, {static_cast<std::byte*>(value), bytes});
}

std::optional<std::size_t> HostMemory::pieces(const MemoryHold& hold, std::uint64_t address, std::uint64_t bytes,
                                              Access access, std::span<Segment> room) noexcept {
    std::size_t count = 0;
    while (bytes != 0) {
        const Segment piece = hold.find(address, bytes, access);
        if (piece.data == nullptr || count == room.size()) return std::nullopt;
        room[count++] = piece;
        address += piece.bytes;
        bytes -= piece.bytes;
    }
    return count;
}

void HostMemory::replace(std::unique_ptr<MemoryTable> next) {
    next->everything = reaches_everything_;
    old_.emplace_back(table_.exchange(next.release(), std::memory_order_acq_rel));
    rcu::synchronize();
    std::erase_if(old_, [](const auto& table) { return !table->held(); });
}

bool HostMemory::add(const MemoryRegion& region) {
    if (region.bytes == 0 || region.bytes - 1 > ~region.address) return false;
    const MemoryTable& now = *table_.load(std::memory_order_relaxed);
    const auto place = std::ranges::lower_bound(now.regions, region.address, {}, &MemoryRegion::address);
    if (place != now.regions.end() && place->address - region.address < region.bytes) return false;
    if (place != now.regions.begin()) {
        const MemoryRegion& before = *std::prev(place);
        if (region.address - before.address < before.bytes) return false;
    }
    auto next = std::make_unique<MemoryTable>();
    next->regions = now.regions;
    next->regions.insert(next->regions.begin() + (place - now.regions.begin()), region);
    replace(std::move(next));
    return true;
}

std::optional<MemoryRegion> HostMemory::remove(std::uint64_t address, std::uint64_t bytes) {
    const MemoryTable& now = *table_.load(std::memory_order_relaxed);
    const MemoryRegion* const found = now.find(address);
    if (found == nullptr || found->address != address || found->bytes != bytes) return std::nullopt;
    const MemoryRegion removed = *found;
    auto next = std::make_unique<MemoryTable>();
    next->regions.reserve(now.regions.size());
    for (const MemoryRegion& region : now.regions) {
        if (region.address != address) next->regions.push_back(region);
    }
    replace(std::move(next));
    return removed;
}

void HostMemory::remove_within(std::uint64_t address, std::uint64_t last) {
    const MemoryTable& now = *table_.load(std::memory_order_relaxed);
    auto next = std::make_unique<MemoryTable>();
    next->regions.reserve(now.regions.size());
    std::ranges::copy_if(now.regions, std::back_inserter(next->regions), [=](const MemoryRegion& region) {
        return region.address < address || region.address > last || region.bytes - 1 > last - region.address;
    });
    if (next->regions.size() != now.regions.size()) replace(std::move(next));
}

void HostMemory::clear() {
    if (regions() != 0) replace(std::make_unique<MemoryTable>());
}

bool HostMemory::drained() noexcept {
    std::erase_if(old_, [](const auto& table) { return !table->held(); });
    return old_.empty();
}

std::size_t HostMemory::regions() const noexcept {
    const rcu::ReadLock lock;
    return table_.load(std::memory_order_acquire)->regions.size();
}

std::vector<MemoryRegion> HostMemory::list() const {
    const rcu::ReadLock lock;
    return table_.load(std::memory_order_acquire)->regions;
}

}  // namespace mqblk::pci
