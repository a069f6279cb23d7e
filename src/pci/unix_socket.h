// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that are owned, and UNIX stream sockets that carry vfio-user messages with descriptors beside them.
// Whatever a peer sends along is owned from the moment it arrives: no descriptor is ever lost.
#pragma once

#include "base/clock.h"
#include "wire/vfio_user.h"

#include <mqblk/error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::pci {

class OwnedFd {
  public:
    explicit OwnedFd(int fd = -1) noexcept : fd_(fd) {}
    OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    OwnedFd& operator=(OwnedFd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~OwnedFd();
    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
    explicit operator bool() const noexcept { return fd_ >= 0; }

  private:
    int fd_;
};

/// A message as it came.
struct Message {
    wire::vfio_user::Header header{};
    std::vector<std::byte> payload;
    std::vector<OwnedFd> fds;

    [[nodiscard]] bool is_reply() const noexcept {
        return (header.flags & wire::vfio_user::flag_type_mask) == wire::vfio_user::flag_reply;
    }
};

/// One connected, non-blocking socket. Not thread-safe.
class MessageSocket {
  public:
    /// Most that a message may have; more is a breach.
    static constexpr std::size_t max_fds = 253;  // what Linux lets through at once
    static constexpr std::size_t max_message_bytes =
        wire::vfio_user::default_max_transfer_bytes + sizeof(wire::vfio_user::Header) + 64;

    explicit MessageSocket(OwnedFd fd) noexcept : fd_(std::move(fd)) {}

    enum class State : std::uint8_t {
        whole,    ///< a message, or all that was to be sent
        waiting,  ///< the rest comes, or goes, later
        closed,   ///< the peer is gone
        breach,   ///< what came is no message
    };
    /// Takes what is there, up to one whole message.
    [[nodiscard]] State receive(Message& message);
    /// Queues a message and sends what the socket takes. The descriptors are the caller's, and stay open until then;
    /// with descriptors nothing else may be waiting to be sent.
    [[nodiscard]] State send(const wire::vfio_user::Header& header, std::span<const std::byte> payload,
                             std::span<const int> fds = {});
    /// Goes on with what send() could not.
    [[nodiscard]] State flush();
    [[nodiscard]] bool sending() const noexcept { return sent_ < out_.size(); }

    /// Blocks until it can be read (or written) or `deadline`, by the kernel's monotonic clock; false then.
    [[nodiscard]] bool wait(bool for_write, std::int64_t deadline_ns) const noexcept;
    [[nodiscard]] static std::int64_t now_ns() noexcept;

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  private:
    [[nodiscard]] State fill(std::span<std::byte> to);

    OwnedFd fd_;
    Message incoming_;
    std::size_t received_ = 0;  ///< bytes of the incoming message, header included
    bool too_many_fds_ = false;
    std::vector<std::byte> out_;
    std::vector<int> out_fds_;
    std::size_t sent_ = 0;
};

/// The error names the path and what is wrong with it.
[[nodiscard]] Result<OwnedFd> connect_unix(const std::string& path, Duration bound);
/// Replaces a socket file behind which nobody listens any more.
[[nodiscard]] Result<OwnedFd> listen_unix(const std::string& path);

}  // namespace mqblk::pci
