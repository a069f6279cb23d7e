// SPDX-License-Identifier: Apache-2.0
#include "cli/control_server.h"

#include "base/log.h"
#include "cli/control_socket.h"
#include "cli/signals.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace mqblk::cli {

Result<std::unique_ptr<ControlServer>> ControlServer::listen(const std::string& path, std::size_t max_line_bytes,
                                                             Handle handle) {
    const auto fd = listen_control(path);
    if (!fd) return std::unexpected(fd.error());
    return std::unique_ptr<ControlServer>(new ControlServer(path, *fd, max_line_bytes, std::move(handle)));
}

ControlServer::ControlServer(std::string path, int fd, std::size_t max_line_bytes, Handle handle)
    : path_(std::move(path)), fd_(fd), max_line_bytes_(max_line_bytes), handle_(std::move(handle)) {}

ControlServer::~ControlServer() {
    for (const auto& client : clients_) ::close(client.fd);
    ::close(fd_);
    ::unlink(path_.c_str());
}

void ControlServer::collect(std::vector<pollfd>& entries) const {
    entries.push_back({fd_, POLLIN, 0});
    for (const auto& client : clients_)
        entries.push_back({client.fd, static_cast<short>(client.output.empty() ? POLLIN : POLLOUT), 0});
}

void ControlServer::serve(const pollfd* entries, std::size_t count) {
    std::vector<int> gone;
    for (std::size_t i = 1; i < count && i <= clients_.size(); ++i) {
        if (entries[i].revents != 0 && !serve_client(clients_[i - 1])) gone.push_back(clients_[i - 1].fd);
    }
    std::erase_if(clients_, [&](const Client& client) {
        const bool leave = std::find(gone.begin(), gone.end(), client.fd) != gone.end();
        if (leave) ::close(client.fd);
        return leave;
    });
    if (count > 0 && entries[0].revents != 0) accept_client();
}

void ControlServer::accept_client() {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (clients_.size() >= max_clients) make_place();
    clients_.push_back({fd, ++heard_, {}});
}

void ControlServer::make_place() {
    const auto silent = std::ranges::min_element(clients_, {}, &Client::last_heard);
    log_limited("control: clients", fmt::format("{} control clients are connected: the one that was silent for longest "
                                                "is closed for another",
                                                clients_.size()));
    ::close(silent->fd);
    clients_.erase(silent);
}

bool ControlServer::serve_client(Client& client) {
    if (!client.output.empty()) return send_to(client) && (!client.output.empty() || answer_lines(client));
    return read_from(client) && answer_lines(client);
}

bool ControlServer::read_from(Client& client) {
    char part[65536];
    const auto got = ::recv(client.fd, part, sizeof part, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    client.last_heard = ++heard_;
    client.input.append(part, static_cast<std::size_t>(got));
    return true;
}

/// Whole lines of the input, until an answer is not taken at once.
bool ControlServer::answer_lines(Client& client) {
    std::size_t begin = 0;
    while (client.output.empty()) {
        const auto end = client.input.find('\n', std::max(begin, client.searched));
        client.searched = 0;
        if (end == std::string::npos) {
            client.searched = client.input.size() - begin;
            break;
        }
        client.output = handle_(std::string_view(client.input).substr(begin, end - begin)) + "\n";
        client.sent = 0;
        begin = end + 1;
        if (!send_to(client)) return false;
    }
    client.input.erase(0, begin);
    if (client.input.size() <= max_line_bytes_) return true;
    log_limited("control: line too long", "a control client sent a line that is too long; its connection is closed");
    return false;
}

/// What the client takes now.
bool ControlServer::send_to(Client& client) {
    while (client.sent < client.output.size()) {
        const auto sent =
            ::send(client.fd, client.output.data() + client.sent, client.output.size() - client.sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        client.sent += static_cast<std::size_t>(sent);
    }
    client.output = {};
    return true;
}

void wait_for_end(Signals& signals, ControlServer* control) {
    while (Signals::caught() == 0) {
        std::vector<pollfd> entries{{signals.fd(), POLLIN, 0}};
        if (control != nullptr) control->collect(entries);
        if (::poll(entries.data(), entries.size(), -1) < 0) continue;
        const Signals::Bounded bounded;  // what a client asks for may take for ever: a device to be opened, say
        if (control != nullptr) control->serve(entries.data() + 1, entries.size() - 1);
    }
}

}  // namespace mqblk::cli
