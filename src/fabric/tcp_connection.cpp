// SPDX-License-Identifier: Apache-2.0
//
// One TCP connection. Measured on loopback, a direct recvmsg or sendmsg on a non-blocking socket costs less than the
// same by a ring operation as long as the owner is polling, which it does while there is work.
#include "fabric/socket.h"
#include "reactor/reactor.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <string_view>

namespace mqblk::fabric {

namespace {

// A segment list is handed to the kernel as it is.
static_assert(sizeof(Segment) == sizeof(iovec) && offsetof(Segment, data) == offsetof(iovec, iov_base) &&
              offsetof(Segment, bytes) == offsetof(iovec, iov_len));

/// The segments from the first that is not empty: a call for no bytes at all would look like the end of the stream.
Segments skip_empty(Segments segments) noexcept {
    while (!segments.empty() && segments.front().bytes == 0) segments = segments.subspan(1);
    return segments;
}

msghdr message_of(Segments segments) noexcept {
    msghdr message{};
    message.msg_iov = reinterpret_cast<iovec*>(const_cast<Segment*>(segments.data()));
    message.msg_iovlen = std::min<std::size_t>(segments.size(), IOV_MAX);
    return message;
}

IoResult failure_of(int error_number) noexcept {
    if (error_number == EAGAIN || error_number == EWOULDBLOCK) return {0, IoResult::would_block, 0};
    return {0, IoResult::failed, error_number};
}

class TcpConnection final : public Connection {
  public:
    TcpConnection(Reactor& reactor, Socket socket) : reactor_(reactor), socket_(std::move(socket)) {}

    IoResult receive(Segments) noexcept override;
    IoResult send(Segments, bool more) noexcept override;
    void arm(bool for_write) override;
    void on_ready(std::function<void()> ready) override;
    void shutdown() noexcept override { ::shutdown(socket_.fd(), SHUT_WR); }
    bool peer_left() const noexcept override;
    std::string peer() const override { return SocketAddress::peer_of(socket_.fd()).to_address().to_string(); }
    std::string local() const override { return SocketAddress::local_of(socket_.fd()).to_address().to_string(); }

  private:
    Reactor& reactor_;
    Socket socket_;
    std::function<void()> ready_;
    std::unique_ptr<Watch> watch_;  ///< made when first needed; goes before the socket
};

IoResult TcpConnection::receive(Segments segments) noexcept {
    segments = skip_empty(segments);
    if (segments.empty()) return {};
    ssize_t got = -1;
    do {
        if (segments.size() == 1) {
            got = ::recv(socket_.fd(), segments.front().data, segments.front().bytes, MSG_DONTWAIT);
        } else {
            msghdr message = message_of(segments);
            got = ::recvmsg(socket_.fd(), &message, MSG_DONTWAIT);
        }
    } while (got < 0 && errno == EINTR);
    if (got > 0) return {static_cast<std::size_t>(got), IoResult::progress, 0};
    return got == 0 ? IoResult{0, IoResult::closed, 0} : failure_of(errno);
}

IoResult TcpConnection::send(Segments segments, bool more) noexcept {
    segments = skip_empty(segments);
    if (segments.empty()) return {};
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more || segments.size() > IOV_MAX ? MSG_MORE : 0);
    ssize_t sent = -1;
    do {
        if (segments.size() == 1) {
            sent = ::send(socket_.fd(), segments.front().data, segments.front().bytes, flags);
        } else {
            const msghdr message = message_of(segments);
            sent = ::sendmsg(socket_.fd(), &message, flags);
        }
    } while (sent < 0 && errno == EINTR);
    if (sent > 0) return {static_cast<std::size_t>(sent), IoResult::progress, 0};
    return failure_of(sent == 0 ? EAGAIN : errno);
}

void TcpConnection::arm(bool for_write) {
    if (!watch_) {
        watch_ = reactor_.watch(socket_.fd(), [this] {
            const auto ready = ready_;  // a copy: the callback may destroy the connection
            if (ready) ready();
        });
    }
    watch_->arm(for_write);
}

bool TcpConnection::peer_left() const noexcept {
    pollfd asked{socket_.fd(), POLLRDHUP, 0};
    return ::poll(&asked, 1, 0) > 0;
}

void TcpConnection::on_ready(std::function<void()> ready) {
    ready_ = std::move(ready);
}

}  // namespace

void avoid_pacing(int fd) noexcept {
    constexpr std::string_view unpaced = "reno";  // every kernel has it, and any user may choose it
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced.data(), unpaced.size());
}

std::unique_ptr<Connection> make_tcp_connection(Reactor& reactor, Socket socket) {
    const int on = 1;
    ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return std::make_unique<TcpConnection>(reactor, std::move(socket));
}

}  // namespace mqblk::fabric
