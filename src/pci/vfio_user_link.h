// SPDX-License-Identifier: Apache-2.0
//
// VfioUserLink: a client's connection to a vfio-user server. It asks and waits for the answer, posts what needs none,
// and answers when the server asks for memory that it cannot map. Any thread; one at a time goes through. When the
// server goes away, breaks the protocol or does not answer, the link is lost for good: one sentence says why.
#pragma once

#include "pci/posted_writes.h"
#include "pci/unix_socket.h"
#include "pci/vfio_user_version.h"
#include "wire/vfio_user.h"

#include <mqblk/error.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace mqblk::pci {

/// A structure as a message's payload, and the other way round (the caller has checked the length).
template <class T>
[[nodiscard]] std::span<const std::byte> payload_of(const T& value) noexcept {
    return std::as_bytes(std::span(&value, 1));
}
template <class T>
[[nodiscard]] T front_of(const Message& message) noexcept {
    T value;
    std::memcpy(&value, message.payload.data(), sizeof value);
    return value;
}

class VfioUserLink {
  public:
    /// `lost` is called once, from any thread and under no lock, when the link is lost.
    VfioUserLink(OwnedFd socket, std::string name, Duration answer_timeout, std::function<void()> lost);
    ~VfioUserLink();
    VfioUserLink(const VfioUserLink&) = delete;
    VfioUserLink& operator=(const VfioUserLink&) = delete;

    /// Agrees on a version and then listens for the server's end. Once, first.
    [[nodiscard]] Result<> negotiate(bool want_posted_writes);
    /// What negotiate() brought, to be taken once: not mapped if the server does not offer it.
    [[nodiscard]] PostedWriter take_posted_writer() noexcept { return std::move(posted_); }

    /// The answer's payload begins with `at_least` bytes. An errno of the server is an error that leaves the link
    /// whole.
    [[nodiscard]] Result<Message> ask(wire::vfio_user::Command command, std::span<const std::byte> payload,
                                      std::size_t at_least, std::span<const int> fds = {});
    /// Without answer. Carried out in order with everything else.
    void post(wire::vfio_user::Command command, std::span<const std::byte> payload) noexcept;

    [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    /// The sentence, once it is lost.
    [[nodiscard]] std::string why_lost() const {
        const std::lock_guard lock(mutex_);
        return name_ + ": " + why_lost_;
    }
    [[nodiscard]] const VfioUserVersion& server() const noexcept { return server_; }

    /// Before a posted write, which no lock of the link's goes with: what the caller has stored in memory is seen by
    /// the thread that hands it to the server.
    void memory_stored() noexcept { memory_stored_.store(true, std::memory_order_release); }

    /// Memory that the server may ask for, by I/O address. To be withdrawn before it goes away.
    void offer(std::uint64_t address, std::span<std::byte> memory);
    void withdraw(std::uint64_t address);

  private:
    using State = MessageSocket::State;

    [[nodiscard]] Result<> exchange(wire::vfio_user::Command command, std::uint32_t flags,
                                    std::span<const std::byte> payload, std::span<const int> fds, Message& answer);
    [[nodiscard]] Result<> transmit(const wire::vfio_user::Header& header, std::span<const std::byte> payload,
                                    std::span<const int> fds, std::int64_t deadline);
    void serve(const Message& message, std::int64_t deadline);
    [[nodiscard]] std::span<std::byte> find(const wire::vfio_user::DmaAccess& access) const noexcept;
    std::unexpected<Error> lose(std::string why);
    void tell_lost();
    void listen();
    bool serve_what_came();

    const std::string name_;
    const Duration answer_timeout_;
    const std::function<void()> on_lost_;
    std::atomic<bool> lost_{false};
    std::atomic<bool> told_{false};
    std::atomic<bool> memory_stored_{false};

    mutable std::mutex mutex_;  ///< all that follows
    MessageSocket socket_;
    VfioUserVersion server_;
    PostedWriter posted_;
    std::uint16_t next_id_ = 1;
    std::string why_lost_;
    bool agreed_ = false;  ///< on a version
    std::map<std::uint64_t, std::span<std::byte>> offered_;

    OwnedFd wake_;  ///< ends or reconsiders the listener's wait
    std::atomic<bool> stopping_{false};
    std::thread listener_;
};

}  // namespace mqblk::pci
