// SPDX-License-Identifier: Apache-2.0
#include "unit/pci_served.h"

#include "pci/vfio_user_version.h"
#include "unit/reactor_support.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <limits>
#include <stdexcept>
#include <thread>

namespace mqblk::test {

namespace {

namespace vu = wire::vfio_user;
constexpr std::int64_t patience_ns = 60'000'000'000;

pci::OwnedFd connect_or_throw(const std::string& path) {
    auto fd = pci::connect_unix(path, std::chrono::seconds(60));
    if (!fd) throw std::runtime_error(fd.error().message());
    return std::move(*fd);
}

}  // namespace

ServedDevice::ServedDevice(bool map_areas, Duration version_timeout) : version_timeout_(version_timeout) {
    directory_ = std::filesystem::temp_directory_path() / "mqblk-pci-XXXXXX";
    if (::mkdtemp(directory_.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = directory_ + "/device";
    start(map_areas);
}

ServedDevice::~ServedDevice() {
    stop();
    std::filesystem::remove_all(directory_);
}

void ServedDevice::start(bool map_areas) {
    reactor_ = uring_reactor();
    auto model = std::make_unique<CopyDevice>();
    model_ = model.get();
    auto server = pci::VfioUserServer::listen(*reactor_, path_, std::move(model),
                                              {.map_areas = map_areas, .version_timeout = version_timeout_});
    if (!server) throw std::runtime_error(server.error().message());
    server_ = std::move(*server);
    stop_.store(false);
    thread_ = std::thread([this] {
        while (!stop_.load()) reactor_->run_once(Reactor::Sleep::yes);
        server_.reset();
    });
}

void ServedDevice::stop() {
    stop_.store(true);
    reactor_->wake();
    thread_.join();
}

void ServedDevice::restart(bool map_areas) {
    stop();
    start(map_areas);
}

void ServedDevice::run(const std::function<void()>& task) {
    std::promise<void> done;
    reactor_->post([&] {
        task();
        done.set_value();
    });
    done.get_future().wait();
}

std::uint64_t ServedDevice::clients_served() {
    std::uint64_t count = 0;
    run([&] { count = server_->clients_served(); });
    return count;
}

bool ServedDevice::connected() {
    bool is = false;
    run([&] { is = server_->connected(); });
    return is;
}

bool ServedDevice::wait_until_free() {
    const std::int64_t limit = pci::MessageSocket::now_ns() + patience_ns;
    while (connected()) {
        if (pci::MessageSocket::now_ns() > limit) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
}

std::size_t open_descriptors() {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (int look = 0; look < 4; ++look) {
        std::size_t count = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
        least = std::min(least, count);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return least;
}

RawClient::RawClient(const std::string& path) : socket_(connect_or_throw(path)) {}

bool RawClient::negotiate(bool posted_writes) {
    return ask(vu::Command::version,
               pci::encode_version({.max_fds = 8, .posted_writes = posted_writes ? vu::posted_writes_version : 0})) ==
           0;
}

std::vector<std::byte> RawClient::message(vu::Command command, const std::vector<std::byte>& payload, std::uint16_t id,
                                          std::uint32_t flags) {
    const vu::Header header{.message_id = id,
                            .command = static_cast<std::uint16_t>(command),
                            .message_size = static_cast<std::uint32_t>(sizeof header + payload.size()),
                            .flags = flags,
                            .error = 0};
    return bytes_of(header, payload);
}

bool RawClient::send(std::span<const std::byte> bytes, std::span<const int> fds) {
    while (!bytes.empty()) {
        iovec place{const_cast<std::byte*>(bytes.data()), bytes.size()};
        msghdr header{};
        header.msg_iov = &place;
        header.msg_iovlen = 1;
        alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int) * 253)] = {};
        if (!fds.empty()) {
            header.msg_control = control;
            header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
            cmsghdr* const part = CMSG_FIRSTHDR(&header);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
            std::memcpy(CMSG_DATA(part), fds.data(), sizeof(int) * fds.size());
        }
        const auto sent = ::sendmsg(socket_.fd(), &header, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            if (!socket_.wait(true, pci::MessageSocket::now_ns() + patience_ns)) return false;
            continue;
        }
        if (sent < 0) return false;
        fds = {};
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
}

bool RawClient::receive(pci::Message& message) {
    for (;;) {
        const auto state = socket_.receive(message);
        if (state == pci::MessageSocket::State::whole) return true;
        if (state != pci::MessageSocket::State::waiting) return false;
        if (!socket_.wait(false, pci::MessageSocket::now_ns() + patience_ns)) return false;
    }
}

int RawClient::ask(vu::Command command, const std::vector<std::byte>& payload, std::span<const int> fds) {
    const std::uint16_t id = next_id_++;
    answer_ = {};
    if (!send(message(command, payload, id), fds) || !receive(answer_)) return -1;
    if (!answer_.is_reply() || answer_.header.message_id != id ||
        answer_.header.command != static_cast<std::uint16_t>(command)) {
        return -2;
    }
    return (answer_.header.flags & vu::flag_error) != 0 ? static_cast<int>(answer_.header.error) : 0;
}

int RawClient::write_register(std::uint64_t offset, std::uint64_t value, unsigned bytes) {
    const auto data = std::as_bytes(std::span(&value, 1)).first(bytes);
    return ask(vu::Command::region_write, bytes_of(vu::RegionAccess{offset, 2, bytes}, data));
}

std::uint64_t RawClient::read_register(std::uint64_t offset, unsigned bytes) {
    if (ask(vu::Command::region_read, vu::RegionAccess{offset, 2, bytes}) != 0) return ~std::uint64_t{0};
    std::uint64_t value = 0;
    std::memcpy(&value, answer_.payload.data() + sizeof(vu::RegionAccess), bytes);
    return value;
}

int RawClient::map(std::uint64_t address, std::uint64_t bytes, int fd, std::uint64_t offset, std::uint32_t flags) {
    const std::span<const int> fds(&fd, fd < 0 ? 0 : 1);
    return ask(vu::Command::dma_map, vu::DmaMap{sizeof(vu::DmaMap), flags, offset, address, bytes}, fds);
}

int RawClient::unmap(std::uint64_t address, std::uint64_t bytes) {
    return ask(vu::Command::dma_unmap, vu::DmaUnmap{sizeof(vu::DmaUnmap), 0, address, bytes});
}

bool RawClient::closed() {
    pci::Message rest;
    const std::int64_t limit = pci::MessageSocket::now_ns() + patience_ns;
    for (;;) {
        const auto state = socket_.receive(rest);
        if (state == pci::MessageSocket::State::closed) return true;
        if (state == pci::MessageSocket::State::waiting && !socket_.wait(false, limit)) return false;
    }
}

}  // namespace mqblk::test
