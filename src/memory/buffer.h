// SPDX-License-Identifier: Apache-2.0
//
// Buffer: memory for I/O, page aligned, zero at first, taken from the system only where it is touched. With `shared` it
// lies in a memory file that another process or a device can map through fd(). Moves, never copies. Owner's thread.
#pragma once

#include <mqblk/error.h>

#include <cstddef>
#include <span>
#include <utility>

namespace mqblk::memory {

enum class Backing : bool { anonymous, shared };

class Buffer {
  public:
    static constexpr std::size_t page_bytes = 4096;

    Buffer() noexcept = default;
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();

    /// `bytes` is rounded up to whole pages; zero is refused.
    [[nodiscard]] static Result<Buffer> allocate(std::size_t bytes, Backing backing = Backing::anonymous);

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] std::span<std::byte> span() const noexcept { return {data_, bytes_}; }
    [[nodiscard]] int fd() const noexcept { return fd_; }  ///< -1 unless shared

    /// [offset, offset + bytes) reads as zero afterwards; its whole pages go back to the system.
    void zero(std::size_t offset, std::size_t bytes) noexcept;

    /// Gives the whole pages of [offset, offset + bytes) back to the system; what was in them is lost.
    void release(std::size_t offset, std::size_t bytes) noexcept;

    /// Takes the memory of [0, bytes) from the system now, as zeroes, rather than where it is touched.
    [[nodiscard]] Result<> populate(std::size_t bytes) noexcept;

    /// Asks for large pages where the system has them: fewer address misses, memory taken in larger steps.
    void prefer_large_pages() noexcept;

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    int fd_ = -1;
};

}  // namespace mqblk::memory
