// SPDX-License-Identifier: Apache-2.0
#include "cli/control_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mqblk::cli {

namespace {

constexpr unsigned answer_timeout_s = 120;  // adding a device takes as long as opening it
constexpr std::size_t max_answer_bytes = 64u << 20;

Result<sockaddr_un> control_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        return fail(Errc::invalid_argument,
                    fmt::format("--control {}: a socket's path has 1 to {} bytes", path, sizeof address.sun_path - 1));
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
}

Result<int> new_socket() {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return std::unexpected(Error::from_errno(errno, "making a control socket"));
    return fd;
}

const sockaddr* plain(const sockaddr_un& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

void set_control_timeout(int fd, unsigned timeout_s) noexcept {
    const timeval time{static_cast<time_t>(timeout_s), 0};
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

Result<int> connect_control(const std::string& path, unsigned timeout_s) {
    const auto address = control_address(path);
    if (!address) return std::unexpected(address.error());
    const auto fd = new_socket();
    if (!fd) return fd;
    set_control_timeout(*fd, timeout_s);
    if (::connect(*fd, plain(*address), sizeof *address) == 0) return fd;
    const int problem = errno;
    ::close(*fd);
    if (problem == ENOENT) {
        return fail(Errc::not_found,
                    fmt::format("--control {}: there is no such socket; start a target with mqblk serve --control {}",
                                path, path));
    }
    if (problem == ECONNREFUSED) {
        return fail(Errc::unreachable,
                    fmt::format("--control {}: the target that made this socket has ended; start it again", path));
    }
    return std::unexpected(
        Error::from_errno(problem, fmt::format("connecting to the target's control socket {}", path)));
}

Result<int> listen_control(const std::string& path) {
    const auto address = control_address(path);
    if (!address) return std::unexpected(address.error());
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0) {
        if (!S_ISSOCK(status.st_mode)) {
            return fail(Errc::already_exists,
                        fmt::format("--control {}: a file that is no socket is there; name another path", path));
        }
        if (const auto alive = connect_control(path, 1)) {
            ::close(*alive);
            return fail(Errc::already_exists,
                        fmt::format("--control {}: a running target listens there; name another path, or end "
                                    "that target first",
                                    path));
        }
        ::unlink(path.c_str());
    }
    const auto fd = new_socket();
    if (!fd) return fd;
    // The mode must be right from the first moment on.
    const mode_t before = ::umask(0177);
    const bool bound = ::bind(*fd, plain(*address), sizeof *address) == 0;
    const int problem = errno;
    ::umask(before);
    if (bound && ::listen(*fd, 16) == 0) return fd;
    ::close(*fd);
    return std::unexpected(Error::from_errno(bound ? errno : problem, fmt::format("listening on {}", path)));
}

bool send_all(int fd, std::string_view text) noexcept {
    while (!text.empty()) {
        const auto sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

Result<std::string> ask_control(const std::string& path, const std::string& request) {
    const auto fd = connect_control(path, answer_timeout_s);
    if (!fd) return std::unexpected(fd.error());
    std::string answer;
    bool whole = false;
    if (send_all(*fd, request + "\n")) {
        char part[65536];
        while (!whole && answer.size() < max_answer_bytes) {
            const auto got = ::recv(*fd, part, sizeof part, 0);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            answer.append(part, static_cast<std::size_t>(got));
            whole = answer.back() == '\n';
        }
    }
    ::close(*fd);
    if (!whole) return fail(Errc::closed, fmt::format("the target behind {} gave no whole answer", path));
    answer.pop_back();
    return answer;
}

}  // namespace mqblk::cli
