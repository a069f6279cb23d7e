// SPDX-License-Identifier: Apache-2.0
//
// Both ends of a page of posted writes (wire/vfio_user.h): a queue of register writes in memory that a vfio-user client
// and its server share, so that neither pays a system call for a doorbell while the server is awake. Each end keeps its
// own count and takes nothing from the other's word but whether one entry is there: whatever the other stores in the
// page, at any time, costs it its own writes at most.
#pragma once

#include "memory/buffer.h"
#include "pci/unix_socket.h"
#include "wire/vfio_user.h"

#include <mqblk/error.h>

#include <cstdint>
#include <utility>

namespace mqblk::pci {

/// The client's end. One thread at a time.
class PostedWriter {
  public:
    PostedWriter() = default;
    ~PostedWriter();
    PostedWriter(PostedWriter&& other) noexcept { swap(other); }
    PostedWriter& operator=(PostedWriter&& other) noexcept {
        swap(other);
        return *this;
    }

    /// The server's file. Nothing if it cannot be mapped, or could be shortened.
    [[nodiscard]] static Result<PostedWriter> map(const OwnedFd& file);
    [[nodiscard]] bool mapped() const noexcept { return page_ != nullptr; }

    enum class Push : std::uint8_t {
        queued,
        queued_wake,  ///< and the server sleeps: send it a message
        full,         ///< not queued; so is every one while nothing is mapped
    };
    /// What was stored before is seen by whoever takes the write.
    [[nodiscard]] Push push(std::uint32_t region, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept;

  private:
    void swap(PostedWriter& other) noexcept {
        std::swap(page_, other.page_);
        std::swap(next_, other.next_);
        std::swap(taken_, other.taken_);
    }

    wire::vfio_user::PostedWrites* page_ = nullptr;
    std::uint64_t next_ = 0;
    std::uint64_t taken_ = 0;  ///< as last seen
};

/// The server's end. One thread.
class PostedReader {
  public:
    /// False if the system has no memory for it.
    [[nodiscard]] bool open();
    [[nodiscard]] bool opened() const noexcept { return memory_.data() != nullptr; }
    [[nodiscard]] int fd() const noexcept { return memory_.fd(); }

    /// The next write, if it is there. Nothing in it is checked.
    [[nodiscard]] bool take(wire::vfio_user::PostedWrite& write) noexcept;
    /// Lets the client have the places of what was taken.
    void release() noexcept;

    /// From now on the client sends a message for its next write; false: there is one already.
    [[nodiscard]] bool fall_asleep() noexcept;
    void wake_up() noexcept;

  private:
    [[nodiscard]] wire::vfio_user::PostedWrites& page() const noexcept {
        return *reinterpret_cast<wire::vfio_user::PostedWrites*>(memory_.data());
    }

    memory::Buffer memory_;
    std::uint64_t next_ = 0;
    bool asleep_ = false;
};

}  // namespace mqblk::pci
