// SPDX-License-Identifier: Apache-2.0
//
// A scripted host's link over a real socket. Waits up to a minute.
#pragma once

#include "support/nvme_tcp_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>

namespace mqblk::test {

class SocketLink final : public Link {
  public:
    explicit SocketLink(int fd) : fd_(fd) {
        const timeval limit{60, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        const int on = 1;
        ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    ~SocketLink() override { ::close(fd_); }
    bool send(std::span<const std::byte> bytes) override {
        while (!bytes.empty()) {
            const ssize_t sent = retry([&] { return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
            if (sent <= 0) return false;
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        }
        return true;
    }
    bool receive(std::span<std::byte> bytes) override {
        while (!bytes.empty()) {
            const ssize_t got = retry([&] { return ::recv(fd_, bytes.data(), bytes.size(), 0); });
            if (got <= 0) return false;
            bytes = bytes.subspan(static_cast<std::size_t>(got));
        }
        return true;
    }
    bool ended(std::size_t& dropped) override {
        dropped = 0;
        std::byte scratch[4096];
        for (;;) {
            const ssize_t got = retry([&] { return ::recv(fd_, scratch, sizeof(scratch), 0); });
            if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
            if (got < 0) return false;
            dropped += static_cast<std::size_t>(got);
        }
    }

  private:
    static ssize_t retry(auto call) {
        ssize_t result = -1;
        do {
            result = call();
        } while (result < 0 && errno == EINTR);
        return result;
    }
    int fd_;
};

/// To 127.0.0.1; null if nobody listens.
[[nodiscard]] inline std::unique_ptr<Link> connect_link(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        ::close(fd);
        return nullptr;
    }
    return std::make_unique<SocketLink>(fd);
}

}  // namespace mqblk::test
