// SPDX-License-Identifier: Apache-2.0
//
// Names to socket addresses. Numbers and "localhost" need no resolver and no thread; anything else is looked up on a
// helper thread, because the system's resolver blocks for as long as it likes.
#include "fabric/socket.h"
#include "reactor/reactor.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

namespace mqblk::fabric {

namespace {

SocketAddress ipv4(in_addr host, std::uint16_t port) noexcept {
    SocketAddress address;
    auto& in = reinterpret_cast<sockaddr_in&>(address.storage);
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    in.sin_addr = host;
    address.bytes = sizeof in;
    return address;
}

SocketAddress ipv6(const in6_addr& host, std::uint16_t port) noexcept {
    SocketAddress address;
    auto& in = reinterpret_cast<sockaddr_in6&>(address.storage);
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    in.sin6_addr = host;
    address.bytes = sizeof in;
    return address;
}

using Resolved = Result<std::vector<SocketAddress>>;

/// Between the helper thread and the task that waits for it, which may be gone first.
struct Lookup {
    std::mutex mutex;
    Reactor* reactor = nullptr;           ///< null once nobody waits any more
    Promise<Resolved>* answer = nullptr;  ///< likewise; used in the reactor only

    void give_up() {
        answer = nullptr;
        const std::lock_guard lock(mutex);
        reactor = nullptr;
    }
};

void look_up(const std::shared_ptr<Lookup>& lookup, const Address& address) {
    auto resolved = std::make_shared<Resolved>(resolve_blocking(address, false));
    const std::lock_guard lock(lookup->mutex);
    if (lookup->reactor == nullptr) return;
    lookup->reactor->post([lookup, resolved] {
        if (auto* const answer = std::exchange(lookup->answer, nullptr)) answer->set(std::move(*resolved));
    });
}

}  // namespace

Socket::~Socket() {
    if (fd_ < 0) return;
    ::shutdown(fd_, SHUT_RDWR);
    ::close(fd_);
}

bool SocketAddress::is_loopback() const noexcept {
    if (family() == AF_INET) return ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24 == 127;
    return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
}

SocketAddress SocketAddress::local_of(int fd) noexcept {
    SocketAddress address;
    address.bytes = sizeof address.storage;
    if (::getsockname(fd, address.get(), &address.bytes) != 0) return {};
    return address;
}

SocketAddress SocketAddress::peer_of(int fd) noexcept {
    SocketAddress address;
    address.bytes = sizeof address.storage;
    if (::getpeername(fd, address.get(), &address.bytes) != 0) return {};
    return address;
}

Address SocketAddress::to_address() const {
    char text[INET6_ADDRSTRLEN] = "?";
    if (family() == AF_INET) {
        const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
        ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
        return {text, ntohs(in.sin_port)};
    }
    if (family() == AF_INET6) {
        const auto& in = reinterpret_cast<const sockaddr_in6&>(storage);
        ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
        return {text, ntohs(in.sin6_port)};
    }
    return {text, 0};
}

std::vector<SocketAddress> resolve_literal(const Address& address, bool passive) {
    in_addr four{};
    in6_addr six{};
    if (::inet_pton(AF_INET, address.host.c_str(), &four) == 1) return {ipv4(four, address.port)};
    if (::inet_pton(AF_INET6, address.host.c_str(), &six) == 1) return {ipv6(six, address.port)};
    if (address.host == "localhost") {
        four.s_addr = htonl(INADDR_LOOPBACK);
        return {ipv4(four, address.port), ipv6(in6addr_loopback, address.port)};
    }
    if (passive && (address.host.empty() || address.host == "*")) return {ipv4(four, address.port)};
    return {};
}

Resolved resolve_blocking(const Address& address, bool passive) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = passive ? AI_PASSIVE : AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
    if (error != 0) {
        return fail(Errc::unreachable,
                    fmt::format("resolve host name '{}': {}; check the name, or give the address as a number",
                                address.host, error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error)));
    }
    std::vector<SocketAddress> all;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
        SocketAddress entry;
        if (one->ai_addrlen > sizeof entry.storage) continue;
        std::memcpy(&entry.storage, one->ai_addr, one->ai_addrlen);
        entry.bytes = one->ai_addrlen;
        if (entry.family() == AF_INET) reinterpret_cast<sockaddr_in&>(entry.storage).sin_port = htons(address.port);
        if (entry.family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(entry.storage).sin6_port = htons(address.port);
        all.push_back(entry);
    }
    ::freeaddrinfo(found);
    return all;
}

Task<Resolved> resolve(Reactor& reactor, Address address, Time deadline) {
    auto literal = resolve_literal(address, false);
    if (!literal.empty()) co_return literal;

    Promise<Resolved> answer;
    const auto lookup = std::make_shared<Lookup>();
    lookup->reactor = &reactor;
    lookup->answer = &answer;
    struct Waiting {
        Lookup& lookup;
        ~Waiting() { lookup.give_up(); }
    } const waiting{*lookup};
    Timer timer([lookup, host = address.host] {
        if (auto* const late = std::exchange(lookup->answer, nullptr)) {
            late->set(fail(Errc::timed_out, fmt::format("resolve host name '{}': no answer in time", host)));
        }
    });
    timer.arm(reactor, deadline);
    std::thread(look_up, lookup, address).detach();
    co_return co_await answer;
}

}  // namespace mqblk::fabric
