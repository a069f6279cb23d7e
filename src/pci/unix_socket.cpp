// SPDX-License-Identifier: Apache-2.0
//
// A message's descriptors arrive with any of its bytes, as the kernel pleases; they belong to the message that is being
// received. Reading stops at the end of each message, so they never mix.
#include "pci/unix_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace mqblk::pci {

namespace {

using wire::vfio_user::Header;

constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int) * MessageSocket::max_fds);
/// A payload grows by as much at a time as has really come: a length alone takes no memory.
constexpr std::size_t growth_bytes = 64 << 10;

/// Takes over whatever descriptors came with one read. False if there were more than fit.
bool take_fds(msghdr& header, std::vector<OwnedFd>& fds) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            fds.emplace_back(fd);
        }
    }
    return (header.msg_flags & MSG_CTRUNC) == 0;
}

Result<sockaddr_un> unix_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        return fail(Errc::invalid_argument,
                    fmt::format("socket {}: a socket's path has 1 to {} bytes", path, sizeof address.sun_path - 1));
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
}

Result<OwnedFd> unix_socket(int flags) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0) return std::unexpected(Error::from_errno(errno, "make a UNIX socket"));
    return OwnedFd(fd);
}

bool try_connect(int fd, const sockaddr_un& address) noexcept {
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

OwnedFd::~OwnedFd() {
    if (fd_ >= 0) ::close(fd_);
}

MessageSocket::State MessageSocket::fill(std::span<std::byte> to) {
    std::size_t filled = 0;
    while (filled < to.size()) {
        alignas(cmsghdr) std::byte control[control_bytes];
        iovec place{to.data() + filled, to.size() - filled};
        msghdr header{};
        header.msg_iov = &place;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        const auto got = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno == EAGAIN ? State::waiting : State::closed;
        too_many_fds_ |= !take_fds(header, incoming_.fds) || incoming_.fds.size() > max_fds;
        if (too_many_fds_) incoming_.fds.clear();
        if (got == 0) return State::closed;
        filled += static_cast<std::size_t>(got);
        received_ += static_cast<std::size_t>(got);
    }
    return State::whole;
}

MessageSocket::State MessageSocket::receive(Message& message) {
    if (received_ < sizeof(Header)) {
        const auto header = std::as_writable_bytes(std::span(&incoming_.header, 1));
        if (const State state = fill(header.subspan(received_)); state != State::whole) return state;
        incoming_.payload.clear();
        if (incoming_.header.message_size < sizeof(Header) || incoming_.header.message_size > max_message_bytes) {
            return State::breach;
        }
    }
    const std::size_t total = incoming_.header.message_size - sizeof(Header);
    while (received_ - sizeof(Header) < total) {
        const std::size_t have = received_ - sizeof(Header);
        const std::size_t until = std::min(total, have + growth_bytes);
        incoming_.payload.resize(std::max(incoming_.payload.size(), until));
        const State state = fill(std::span(incoming_.payload).subspan(have, until - have));
        if (state != State::whole) return state;
    }
    incoming_.payload.resize(total);
    if (too_many_fds_) return State::breach;
    message = std::exchange(incoming_, Message{});
    received_ = 0;
    return State::whole;
}

MessageSocket::State MessageSocket::send(const Header& header, std::span<const std::byte> payload,
                                         std::span<const int> fds) {
    if (!sending()) {
        out_.clear();
        sent_ = 0;
    }
    const bool first = out_.empty();
    const auto head = std::as_bytes(std::span(&header, 1));
    out_.insert(out_.end(), head.begin(), head.end());
    out_.insert(out_.end(), payload.begin(), payload.end());
    if (!fds.empty()) {
        if (!first) return State::closed;  // they would go with the first byte that is left of another message
        out_fds_.assign(fds.begin(), fds.end());
    }
    return flush();
}

MessageSocket::State MessageSocket::flush() {
    while (sending()) {
        iovec place{out_.data() + sent_, out_.size() - sent_};
        msghdr header{};
        header.msg_iov = &place;
        header.msg_iovlen = 1;
        alignas(cmsghdr) std::byte control[control_bytes] = {};
        if (!out_fds_.empty()) {
            header.msg_control = control;
            header.msg_controllen = CMSG_SPACE(sizeof(int) * out_fds_.size());
            cmsghdr* const part = CMSG_FIRSTHDR(&header);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(sizeof(int) * out_fds_.size());
            std::memcpy(CMSG_DATA(part), out_fds_.data(), sizeof(int) * out_fds_.size());
        }
        const auto sent = ::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN ? State::waiting : State::closed;
        out_fds_.clear();
        sent_ += static_cast<std::size_t>(sent);
    }
    return State::whole;
}

bool MessageSocket::wait(bool for_write, std::int64_t deadline_ns) const noexcept {
    for (;;) {
        const std::int64_t left_ns = deadline_ns - now_ns();
        if (left_ns <= 0) return false;
        pollfd one{fd_.get(), static_cast<short>(for_write ? POLLOUT : POLLIN), 0};
        const timespec bound{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
        const int ready = ::ppoll(&one, 1, &bound, nullptr);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

std::int64_t MessageSocket::now_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
}

Result<OwnedFd> connect_unix(const std::string& path, Duration bound) {
    const auto address = unix_address(path);
    if (!address) return std::unexpected(address.error());
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
        return fail(Errc::invalid_argument,
                    fmt::format("connect to vfio-user socket {}: it is no socket; name the one that a device's server "
                                "made",
                                path));
    }
    const std::int64_t deadline = MessageSocket::now_ns() + bound.count();
    for (;;) {
        auto fd = unix_socket(SOCK_NONBLOCK);
        if (!fd) return fd;
        if (try_connect(fd->get(), *address)) return fd;
        const int problem = errno;
        const bool soon = problem == EAGAIN || problem == EINTR;  // its backlog is full
        if (!soon || MessageSocket::now_ns() >= deadline) {
            const char* const remedy = problem == ENOENT || problem == ECONNREFUSED
                                           ? " (nobody serves a device there: start its server first)"
                                       : problem == EACCES ? " (it belongs to somebody else)"
                                       : soon              ? " (it serves others)"
                                                           : "";
            Error error = Error::from_errno(problem, fmt::format("connect to vfio-user socket {}", path));
            return fail(soon ? Errc::timed_out : error.code(), error.message() + remedy);
        }
        const timespec pause{0, 5'000'000};
        ::nanosleep(&pause, nullptr);
    }
}

Result<OwnedFd> listen_unix(const std::string& path) {
    const auto address = unix_address(path);
    if (!address) return std::unexpected(address.error());
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0) {
        if (!S_ISSOCK(status.st_mode)) {
            return fail(Errc::already_exists, fmt::format("listen on {}: a file that is no socket is there", path));
        }
        auto probe = unix_socket(SOCK_NONBLOCK);
        if (!probe) return probe;
        if (try_connect(probe->get(), *address) || errno == EAGAIN) {
            return fail(Errc::already_exists,
                        fmt::format("listen on {}: another server listens there; end it or choose another path", path));
        }
        ::unlink(path.c_str());
    }
    auto fd = unix_socket(SOCK_NONBLOCK);
    if (!fd) return fd;
    const mode_t before = ::umask(0177);  // right from the first moment on
    const bool bound = ::bind(fd->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
    const int problem = errno;
    ::umask(before);
    if (bound && ::listen(fd->get(), 4) == 0) return fd;
    if (!bound && problem == ENOENT) {
        const auto slash = path.rfind('/');
        return fail(Errc::not_found, fmt::format("listen on {}: there is no directory {}; make it first", path,
                                                 slash == std::string::npos ? "." : path.substr(0, slash)));
    }
    return std::unexpected(Error::from_errno(bound ? errno : problem, fmt::format("listen on {}", path)));
}

}  // namespace mqblk::pci
