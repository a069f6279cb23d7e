// SPDX-License-Identifier: Apache-2.0
#include "cli/control_server.h"

#include "base/log.h"
#include "cli/control_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace mqblk::cli {

namespace {
constexpr unsigned client_timeout_s = 5;  // for a client that does not read its answer
}

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
    for (const auto& client : clients_) entries.push_back({client.fd, POLLIN, 0});
}

void ControlServer::serve(const pollfd* entries, std::size_t count) {
    std::vector<int> gone;
    for (std::size_t i = 1; i < count && i <= clients_.size(); ++i) {
        if (entries[i].revents != 0 && !read_from(clients_[i - 1])) gone.push_back(clients_[i - 1].fd);
    }
    std::erase_if(clients_, [&](const Client& client) {
        const bool leave = std::find(gone.begin(), gone.end(), client.fd) != gone.end();
        if (leave) ::close(client.fd);
        return leave;
    });
    if (count > 0 && entries[0].revents != 0) accept_client();
}

void ControlServer::accept_client() {
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    set_control_timeout(fd, client_timeout_s);
    if (clients_.size() >= max_clients) {
        [[maybe_unused]] const bool sent = send_all(
            fd, fmt::format("{{\"ok\":false,\"code\":\"no space\",\"error\":\"{} clients are connected already\"}}\n",
                            max_clients));
        ::close(fd);
        return;
    }
    clients_.push_back({fd, {}});
}

bool ControlServer::read_from(Client& client) {
    char part[65536];
    const auto got = ::recv(client.fd, part, sizeof part, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    const auto old_bytes = client.input.size();  // no line ends before there
    client.input.append(part, static_cast<std::size_t>(got));
    return answer_lines(client, old_bytes);
}

bool ControlServer::answer_lines(Client& client, std::size_t search_from) {
    std::size_t begin = 0;
    while (true) {
        const auto end = client.input.find('\n', std::max(begin, search_from));
        if (end == std::string::npos) break;
        const auto answer = handle_(std::string_view(client.input).substr(begin, end - begin));
        if (!send_all(client.fd, answer + "\n")) return false;
        begin = end + 1;
    }
    client.input.erase(0, begin);
    if (client.input.size() <= max_line_bytes_) return true;
    log_limited("control: line too long", "a control client sent a line that is too long; its connection is closed");
    return false;
}

}  // namespace mqblk::cli
