// SPDX-License-Identifier: Apache-2.0
//
// What the parts of fabric/tcp share: an owned descriptor, a socket address, and finding addresses by name.
#pragma once

#include "base/clock.h"
#include "base/task.h"
#include "fabric/connection.h"

#include <mqblk/error.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

namespace mqblk::fabric {

/// Owns a socket. Closing shuts the socket down first: a poll request under way may hold on to it for a little longer.
class Socket {
  public:
    explicit Socket(int fd = -1) noexcept : fd_(fd) {}
    Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    Socket& operator=(Socket&&) = delete;
    ~Socket();
    [[nodiscard]] int fd() const noexcept { return fd_; }

  private:
    int fd_;
};

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t bytes = 0;

    [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
    [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
    [[nodiscard]] int family() const noexcept { return storage.ss_family; }
    [[nodiscard]] bool is_loopback() const noexcept;
    [[nodiscard]] Address to_address() const;

    [[nodiscard]] static SocketAddress local_of(int fd) noexcept;
    [[nodiscard]] static SocketAddress peer_of(int fd) noexcept;
};

/// For traffic that stays on this machine: no congestion control that paces. BBR, the default of many servers, infers a
/// bandwidth from how fast the two ends happen to run, and then sleeps although nothing is in the way: depth 1 fell
/// from 145K to as little as 50K IOPS, and to a crawl when the processors were busy. Pacing that a connection has begun
/// does not end, so this comes before connect() or listen(). Traffic to other machines keeps the system's choice.
void avoid_pacing(int fd) noexcept;

/// Without waiting: numbers, "localhost", and for `passive` use also "" and "*" (any address). Empty: a name to look
/// up.
[[nodiscard]] std::vector<SocketAddress> resolve_literal(const Address&, bool passive);
/// Asks the system's resolver; may take long.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve_blocking(const Address&, bool passive);
/// Asks it on a helper thread and ends by `deadline` at the latest. `reactor` is the calling one.
[[nodiscard]] Task<Result<std::vector<SocketAddress>>> resolve(Reactor&, Address, Time deadline);

/// A connection over a connected socket.
[[nodiscard]] std::unique_ptr<Connection> make_tcp_connection(Reactor&, Socket);

}  // namespace mqblk::fabric
