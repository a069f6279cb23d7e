// SPDX-License-Identifier: Apache-2.0
//
// HostMemory: the host's memory as a device model reaches it, by I/O address. Every access is checked against what the
// host has mapped; what is not mapped is refused, whatever else happens at that moment. The host is hostile: memory may
// be unmapped while it is read (the access ends first, or fails), its file may shrink (see pci/client_memory.h), and
// any byte may change between two reads. So copy a structure in once, and look at the copy only.
#pragma once

#include <mqblk/bio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace mqblk::pci {

enum class Access : std::uint8_t { read = 1, write = 2 };  ///< what the device does

/// Memory that cannot be reached by a pointer: the other end has to be asked, or its file read and written.
class RemoteMemory {
  public:
    virtual ~RemoteMemory() = default;
    /// Offsets are within the region. False if it could not be done. May block for a bounded time. Where the other end
    /// has to be asked, only the thread that owns the function can.
    virtual bool read(std::uint64_t offset, std::span<std::byte> to) noexcept = 0;
    virtual bool write(std::uint64_t offset, std::span<const std::byte> from) noexcept = 0;
};

/// A range of I/O addresses. One of `memory` and `remote`.
struct MemoryRegion {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::byte* memory = nullptr;
    RemoteMemory* remote = nullptr;
    bool readable = true, writable = true;  ///< by the device
};

class HostMemory;
struct MemoryTable;

/// While it lives, memory found through it stays where it is, even if the host unmaps it: the host then waits for its
/// end. So take one for each I/O that works on the host's memory directly and drop it when that I/O is done. A hold
/// that lives longer (for a ring) must be renewed at each Model::memory_changed(). Moves; any thread may drop it.
class MemoryHold {
  public:
    MemoryHold() noexcept = default;
    MemoryHold(MemoryHold&& other) noexcept { *this = std::move(other); }
    MemoryHold& operator=(MemoryHold&& other) noexcept {
        std::swap(table_, other.table_);
        std::swap(count_, other.count_);
        return *this;
    }
    ~MemoryHold() {
        if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_release);
    }

    /// The first piece of [address, address + bytes): at most `bytes` long, shorter where another region begins.
    /// {nullptr, 0} if that address is not mapped for `access` or can only be reached by copying.
    [[nodiscard]] Segment find(std::uint64_t address, std::uint64_t bytes, Access access) const noexcept;

  private:
    friend class HostMemory;
    const MemoryTable* table_ = nullptr;
    std::atomic<std::uint32_t>* count_ = nullptr;
};

/// Accesses: any thread. Changes: the thread that owns the function.
class HostMemory {
  public:
    /// `reaches_everything`: host and model are one process; addresses outside of regions are plain pointers.
    explicit HostMemory(bool reaches_everything = false);
    ~HostMemory();  ///< no hold is left
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;

    /// Copies. False, with nothing said of what was copied, if any of it is not mapped for that.
    [[nodiscard]] bool read(std::uint64_t address, std::span<std::byte> to) const noexcept;
    [[nodiscard]] bool write(std::uint64_t address, std::span<const std::byte> from) const noexcept;

    /// Copies a structure in or out.
    template <class T>
        requires std::is_trivially_copyable_v<T>
    [[nodiscard]] bool load(std::uint64_t address, T& value) const noexcept {
        return read(address, std::as_writable_bytes(std::span(&value, 1)));
    }
    template <class T>
        requires std::is_trivially_copyable_v<T>
    [[nodiscard]] bool store(std::uint64_t address, const T& value) const noexcept {
        return write(address, std::as_bytes(std::span(&value, 1)));
    }

    /// One aligned integer of 1, 2, 4 or 8 bytes, in one piece, as it lies in memory (little endian is the caller's).
    /// publish() makes visible all that was written before; consume() is ordered before what is read after it. For the
    /// word that says "valid" and for words that both sides poll. False also where it is not aligned.
    template <class T>
        requires std::is_unsigned_v<T>
    [[nodiscard]] bool publish(std::uint64_t address, T value) const noexcept {
        return publish_bytes(address, &value, sizeof value);
    }
    template <class T>
        requires std::is_unsigned_v<T>
    [[nodiscard]] bool consume(std::uint64_t address, T& value) const noexcept {
        return consume_bytes(address, &value, sizeof value);
    }

    /// For I/O that works on the host's memory directly.
    [[nodiscard]] MemoryHold hold() const noexcept;

    /// Fills `room` with the pieces of [address, address + bytes) and returns how many, or nothing: some of it is not
    /// mapped for `access`, or can only be reached by copying (then read() or write() still may), or room is too small.
    [[nodiscard]] static std::optional<std::size_t> pieces(const MemoryHold& hold, std::uint64_t address,
                                                           std::uint64_t bytes, Access access,
                                                           std::span<Segment> room) noexcept;

    // For the layer that owns the function.

    /// False if it is empty, wraps around or overlaps another.
    [[nodiscard]] bool add(const MemoryRegion&);
    /// Nobody finds it any more when this returns; accesses by copy have ended. Holds may last: see drained().
    /// Nothing if no region has exactly this range.
    [[nodiscard]] std::optional<MemoryRegion> remove(std::uint64_t address, std::uint64_t bytes);
    /// The same for all regions that lie in [address, last], in one step.
    void remove_within(std::uint64_t address, std::uint64_t last);
    /// The same for all of them.
    void clear();
    /// Whether no hold is left that can see what has been removed.
    [[nodiscard]] bool drained() noexcept;
    [[nodiscard]] std::size_t regions() const noexcept;
    /// The I/O ranges that are mapped now, in order.
    [[nodiscard]] std::vector<MemoryRegion> list() const;

  private:
    bool publish_bytes(std::uint64_t address, const void* value, unsigned bytes) const noexcept;
    bool consume_bytes(std::uint64_t address, void* value, unsigned bytes) const noexcept;
    void replace(std::unique_ptr<MemoryTable> next);

    const bool reaches_everything_;
    std::atomic<MemoryTable*> table_;
    std::vector<std::unique_ptr<MemoryTable>> old_;  ///< replaced, but still held
};

}  // namespace mqblk::pci
