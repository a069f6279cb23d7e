// SPDX-License-Identifier: Apache-2.0
//
// Getting TCP connections: connecting with a bound on time, and listening.
#include "fabric/tcp.h"

#include "base/retry.h"
#include "fabric/errors.h"
#include "fabric/socket.h"
#include "reactor/reactor.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace mqblk::fabric {

namespace {

constexpr int listen_backlog = 1024;
constexpr unsigned accepts_per_pass = 64;
/// Out of descriptors or memory: the listener stays readable, so it must wait by itself.
constexpr Duration accept_pause = std::chrono::milliseconds(100);

/// A port picked by the kernel for this end can be the very port that is being connected to: then the socket has
/// connected to itself, which only means that nobody listens.
bool connected_to_itself(int fd) noexcept {
    const SocketAddress local = SocketAddress::local_of(fd), peer = SocketAddress::peer_of(fd);
    return local.bytes > 0 && local.to_address().to_string() == peer.to_address().to_string();
}

Task<Result<std::unique_ptr<Connection>>> connect_once(Reactor& reactor, SocketAddress to, Time deadline) {
    Socket socket(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.fd() < 0) co_return std::unexpected(Error::from_errno(errno, "create a TCP socket"));
    if (to.is_loopback()) avoid_pacing(socket.fd());
    int error = ::connect(socket.fd(), to.get(), to.bytes) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        Promise<int> ended;
        bool waiting = true;
        const auto end = [&](int with) {
            if (std::exchange(waiting, false)) ended.set(with);
        };
        const auto watch = reactor.watch(socket.fd(), [&end] { end(0); });
        Timer timer([&end] { end(ETIMEDOUT); });
        watch->arm(true);
        timer.arm(reactor, deadline);
        error = co_await ended;
        if (error == 0) {
            socklen_t bytes = sizeof error;
            if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
        }
    }
    if (error == 0 && connected_to_itself(socket.fd())) error = ECONNREFUSED;
    if (error != 0) co_return std::unexpected(connect_error(error, to.to_address()));
    co_return make_tcp_connection(reactor, std::move(socket));
}

class TcpListener final : public Listener {
  public:
    TcpListener(Reactor& reactor, Socket socket, std::function<void(Network::Token)> accepted)
        : reactor_(reactor),
          socket_(std::move(socket)),
          accepted_(std::make_shared<std::function<void(Network::Token)>>(std::move(accepted))),
          watch_(reactor.watch(socket_.fd(), [this] { accept(); })),
          pause_([this] { watch_->arm(false); }) {
        watch_->arm(false);
    }
    Address address() const override { return SocketAddress::local_of(socket_.fd()).to_address(); }

  private:
    void accept();

    Reactor& reactor_;
    Socket socket_;
    std::shared_ptr<std::function<void(Network::Token)>> accepted_;  ///< shared while it runs
    std::unique_ptr<Watch> watch_;
    Timer pause_;
};

void TcpListener::accept() {
    for (unsigned count = 0; count < accepts_per_pass; ++count) {
        const int fd = ::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                pause_.arm(reactor_, reactor_.now() + accept_pause);
                return;
            }
            break;
        }
        auto socket = std::make_shared<Socket>(fd);
        const auto accepted = accepted_;  // the callback may destroy the listener
        (*accepted)([socket](Reactor& reactor) {
            return socket->fd() < 0 ? nullptr : make_tcp_connection(reactor, std::move(*socket));
        });
        if (accepted.use_count() == 1) return;  // it did
    }
    watch_->arm(false);
}

Result<Socket> bind_and_listen(const SocketAddress& at) {
    Socket socket(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (at.is_loopback()) avoid_pacing(socket.fd());  // what it accepts inherits it
    if (socket.fd() >= 0 && ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        retry_while(EADDRINUSE, [&] { return ::bind(socket.fd(), at.get(), at.bytes); }) == 0 &&
        retry_while(EADDRINUSE, [&] { return ::listen(socket.fd(), listen_backlog); }) == 0) {
        return socket;
    }
    return std::unexpected(listen_error(errno, at.to_address()));
}

class TcpNetwork final : public Network {
  public:
    Task<Result<std::unique_ptr<Connection>>> connect(Reactor& reactor, Address address, Duration timeout) override;
    Result<std::unique_ptr<Listener>> listen(Reactor& reactor, const Address& address,
                                             std::function<void(Token)> accepted) override;
};

Task<Result<std::unique_ptr<Connection>>> TcpNetwork::connect(Reactor& reactor, Address address, Duration timeout) {
    const Time start = reactor.now();
    const Time deadline = timeout < never - start ? start + timeout : never;
    const auto found = co_await resolve(reactor, address, deadline);
    if (!found) co_return std::unexpected(found.error().in("connect to " + address.to_string()));
    Error last(Errc::unreachable, fmt::format("connect to {}: the name has no address", address.to_string()));
    for (const SocketAddress& to : *found) {
        auto connection = co_await connect_once(reactor, to, deadline);
        if (connection) co_return std::move(*connection);
        last = connection.error();
        if (last.code() == Errc::timed_out) break;
    }
    co_return std::unexpected(last);
}

Result<std::unique_ptr<Listener>> TcpNetwork::listen(Reactor& reactor, const Address& address,
                                                     std::function<void(Token)> accepted) {
    auto found = resolve_literal(address, true);
    if (found.empty()) {
        auto by_name = resolve_blocking(address, true);
        if (!by_name) return std::unexpected(by_name.error().in("listen on " + address.to_string()));
        found = std::move(*by_name);
    }
    if (found.empty()) return fail(Errc::not_found, "listen on " + address.to_string() + ": the name has no address");
    auto socket = bind_and_listen(found.front());
    if (!socket) return std::unexpected(socket.error());
    return std::make_unique<TcpListener>(reactor, std::move(*socket), std::move(accepted));
}

}  // namespace

std::unique_ptr<Network> make_tcp_network() {
    return std::make_unique<TcpNetwork>();
}

}  // namespace mqblk::fabric
