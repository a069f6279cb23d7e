// SPDX-License-Identifier: Apache-2.0
//
// DmaSpace: which memory of this process the device can reach, and under which I/O addresses. Memory becomes reachable
// once (allocated here, or mapped) and stays so; translating an I/O's memory is then a lookup without lock, system call
// or allocation. Memory that was never mapped is reachable only where reaches_everything(): else use a bounce buffer.
#pragma once

#include "memory/buffer.h"

#include <mqblk/bio.h>
#include <mqblk/error.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

namespace mqblk::pci {

/// A piece of memory as the device sees it.
struct DmaSegment {
    std::uint64_t address;
    std::uint64_t bytes;
};

class DmaSpace;

/// Keeps memory reachable. Moves; unmaps at its end, when the device must be done with it (completed or reset). The
/// DmaSpace outlives it.
class DmaMapping {
  public:
    DmaMapping() noexcept = default;
    DmaMapping(DmaMapping&& other) noexcept { *this = std::move(other); }
    DmaMapping& operator=(DmaMapping&& other) noexcept {
        std::swap(space_, other.space_);
        std::swap(address_, other.address_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~DmaMapping();

    [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return bytes_; }

  private:
    friend class DmaSpace;
    DmaSpace* space_ = nullptr;
    std::uint64_t address_ = 0;
    std::uint64_t bytes_ = 0;
};

/// Memory for the device and its driver: rings, command lists, bounce buffers. Page aligned, zero at first. Moves.
class DmaMemory {
  public:
    DmaMemory() noexcept = default;

    [[nodiscard]] std::byte* data() const noexcept { return buffer_.data(); }
    [[nodiscard]] std::size_t size() const noexcept { return buffer_.size(); }
    [[nodiscard]] std::span<std::byte> span() const noexcept { return buffer_.span(); }
    [[nodiscard]] std::uint64_t address() const noexcept { return mapping_.address(); }
    /// The I/O address of a byte at `offset`.
    [[nodiscard]] std::uint64_t address(std::size_t offset) const noexcept { return mapping_.address() + offset; }

  private:
    friend class DmaSpace;
    memory::Buffer buffer_;
    DmaMapping mapping_;  ///< ends before the memory does
};

/// What a DmaSpace needs of the way to its device. Called under the space's lock, never twice for one range.
class DmaBackend {
  public:
    virtual ~DmaBackend() = default;
    /// `fd` is -1 for memory that lies in no file that could be shared; `offset` is where in the file it starts.
    [[nodiscard]] virtual Result<> map(std::uint64_t address, std::span<std::byte> memory, int fd,
                                       std::uint64_t offset) = 0;
    virtual void unmap(std::uint64_t address, std::uint64_t bytes) noexcept = 0;
};

enum class AddressLimit : std::uint8_t { none, below_4g };

/// allocate, map and the end of a mapping: control path, any thread. address and translate: any thread, no lock.
class DmaSpace {
  public:
    struct Options {
        /// The device can reach all memory of this process at its own address (a model in this process).
        bool reaches_everything = false;
        /// Memory must lie in a memory file for the device to reach it directly (a model in another process).
        bool needs_shared_memory = false;
        /// Addresses to give out: from [low_start, low_end), below 4 GiB, where the driver asks for those, else from
        /// [high_start, high_end). x86 has its interrupt messages from 0xfee00000 on.
        std::uint64_t low_start = 1ull << 31, low_end = 0xfee00000;
        std::uint64_t high_start = 1ull << 32, high_end = 1ull << 38;
    };
    DmaSpace(std::unique_ptr<DmaBackend> backend, Options options);
    ~DmaSpace();  ///< nothing is mapped
    DmaSpace(const DmaSpace&) = delete;
    DmaSpace& operator=(const DmaSpace&) = delete;

    [[nodiscard]] Result<DmaMemory> allocate(std::size_t bytes, AddressLimit limit = AddressLimit::none);

    /// All of `buffer`, which outlives the mapping. Buffers and pools that carry I/O are mapped once, when the device
    /// is opened or the buffer is made; a BufferPool by its arena(). Behind a vfio-user socket this takes
    /// Backing::shared.
    [[nodiscard]] Result<DmaMapping> map(const memory::Buffer& buffer, AddressLimit limit = AddressLimit::none);
    /// Whole pages of any memory; it must stay what it is (no munmap, no madvise) while it is mapped.
    [[nodiscard]] Result<DmaMapping> map(std::span<std::byte> pages, AddressLimit limit = AddressLimit::none);

    /// Whether any memory of this process may be named to the device without mapping it first.
    [[nodiscard]] bool reaches_everything() const noexcept { return options_.reaches_everything; }
    /// What Buffers must be made with so that map() takes them and the device reaches them directly.
    [[nodiscard]] memory::Backing backing() const noexcept {
        return options_.needs_shared_memory ? memory::Backing::shared : memory::Backing::anonymous;
    }

    /// The I/O address of [data, data + bytes), which must lie within one mapping. Nothing if it does not.
    [[nodiscard]] std::optional<std::uint64_t> address(const std::byte* data, std::size_t bytes) const noexcept;

    /// The memory of an I/O as the device sees it, written to `room`: neighbours that touch are joined, a piece over
    /// two mappings is cut. Returns the pieces. Nothing if some of it is not mapped or there are more pieces than room.
    [[nodiscard]] std::optional<std::span<DmaSegment>> translate(Segments memory,
                                                                 std::span<DmaSegment> room) const noexcept;

    /// Maps everything again through the backend, at the same addresses (after a reconnect).
    [[nodiscard]] Result<> restore();

  private:
    friend class DmaMapping;
    struct Entry {  ///< one mapping
        std::span<std::byte> memory;
        int fd;
    };
    struct Table;  ///< all of them by memory address; replaced as a whole, read under RCU

    [[nodiscard]] Result<DmaMapping> map_at(std::span<std::byte> memory, int fd, AddressLimit limit);
    void unmap(std::uint64_t address) noexcept;
    void publish();
    [[nodiscard]] std::optional<std::uint64_t> find_room(std::uint64_t bytes, AddressLimit limit) const;

    const std::unique_ptr<DmaBackend> backend_;
    const Options options_;
    std::mutex mutex_;
    std::map<std::uint64_t, Entry> entries_;  ///< by I/O address; under mutex_
    std::atomic<const Table*> table_{nullptr};
};

}  // namespace mqblk::pci
