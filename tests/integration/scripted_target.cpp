// SPDX-License-Identifier: Apache-2.0
#include "scripted_target.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace mqblk::test {

namespace tcp = wire::nvme_tcp;
namespace nvme = wire::nvme;

namespace {
constexpr std::size_t largest_pdu = 1 << 20;

template <class Header>
tcp::CommonHeader common_header(std::uint8_t flags, std::size_t data_bytes) {
    tcp::CommonHeader header;
    header.type = static_cast<std::uint8_t>(Header::type);
    header.flags = flags;
    header.hlen = sizeof(Header);
    header.pdo = data_bytes > 0 ? sizeof(Header) : 0;
    header.plen = static_cast<std::uint32_t>(sizeof(Header) + data_bytes);
    return header;
}
}  // namespace

void ScriptedTarget::Wire::send(const void* bytes, std::size_t count) {
    const char* at = static_cast<const char*>(bytes);
    while (count > 0) {
        const ssize_t sent = ::send(fd_, at, count, MSG_NOSIGNAL);
        if (sent <= 0) return;
        at += sent;
        count -= static_cast<std::size_t>(sent);
    }
}

bool ScriptedTarget::Wire::receive(void* bytes, std::size_t count) {
    return count == 0 || ::recv(fd_, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
}

void ScriptedTarget::Wire::respond(std::uint16_t command_id, std::uint16_t status, std::uint64_t result) {
    tcp::CapsuleResp pdu;
    pdu.ch = common_header<tcp::CapsuleResp>(0, 0);
    pdu.completion.command_id = command_id;
    pdu.completion.result = result;
    nvme::set_status(pdu.completion, status);
    send(&pdu, sizeof(pdu));
}

void ScriptedTarget::Wire::data(std::uint16_t command_id, std::uint32_t offset, std::span<const std::byte> bytes,
                                std::uint8_t flags) {
    tcp::C2HData pdu;
    pdu.ch = common_header<tcp::C2HData>(flags, bytes.size());
    pdu.cccid = command_id;
    pdu.datao = offset;
    pdu.datal = static_cast<std::uint32_t>(bytes.size());
    send(&pdu, sizeof(pdu));
    send(bytes.data(), bytes.size());
}

void ScriptedTarget::Wire::ready(std::uint16_t command_id, std::uint16_t tag, std::uint32_t offset,
                                 std::uint32_t bytes) {
    tcp::R2T pdu;
    pdu.ch = common_header<tcp::R2T>(0, 0);
    pdu.cccid = command_id;
    pdu.ttag = tag;
    pdu.r2to = offset;
    pdu.r2tl = bytes;
    send(&pdu, sizeof(pdu));
}

void ScriptedTarget::Wire::raw(tcp::CommonHeader header, std::span<const std::byte> rest) {
    send(&header, sizeof(header));
    send(rest.data(), rest.size());
}

bool ScriptedTarget::Wire::take(Pdu& pdu) {
    tcp::CommonHeader common;
    if (!receive(&common, sizeof(common)) || common.hlen < sizeof(common) || common.plen < common.hlen ||
        common.plen > largest_pdu) {
        return false;
    }
    pdu.header.resize(common.hlen);
    std::memcpy(pdu.header.data(), &common, sizeof(common));
    pdu.data.resize(common.plen - common.hlen);
    return receive(pdu.header.data() + sizeof(common), common.hlen - sizeof(common)) &&
           receive(pdu.data.data(), pdu.data.size());
}

bool ScriptedTarget::Wire::take_data(std::vector<std::byte>& to) {
    Pdu pdu;
    while (take(pdu)) {
        if (static_cast<tcp::PduType>(pdu.header[0]) == tcp::PduType::h2c_data) {
            to.insert(to.end(), pdu.data.begin(), pdu.data.end());
            return true;
        }
        kept_.push_back(std::move(pdu));
    }
    return false;
}

bool ScriptedTarget::Wire::take_command(nvme::Command& command, std::vector<std::byte>& data) {
    Pdu pdu;
    if (!kept_.empty()) {
        pdu = std::move(kept_.front());
        kept_.pop_front();
    } else if (!take(pdu)) {
        return false;
    }
    if (static_cast<tcp::PduType>(pdu.header[0]) != tcp::PduType::capsule_cmd ||
        pdu.header.size() != sizeof(tcp::CapsuleCmd)) {
        return false;
    }
    std::memcpy(&command, pdu.header.data() + sizeof(tcp::CommonHeader), sizeof(command));
    data = std::move(pdu.data);
    return true;
}

bool ScriptedTarget::Wire::await_close() {
    pollfd waiting{fd_, POLLIN, 0};
    std::array<char, 4096> scratch;
    while (::poll(&waiting, 1, 10'000) == 1) {
        if (::recv(fd_, scratch.data(), scratch.size(), 0) <= 0) return true;
    }
    return false;
}

ScriptedTarget::ScriptedTarget(Script script) : script_(std::move(script)), memory_(blocks * 512u) {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i * 7 + i / 512);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (listener_ < 0 || ::bind(listener_, generic, size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, generic, &size) != 0) {
        throw std::runtime_error("the scripted target cannot listen");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept(); });
}

ScriptedTarget::~ScriptedTarget() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    {
        const std::scoped_lock lock(mutex_);
        for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
}

void ScriptedTarget::accept() {
    for (;;) {
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) return;
        const int on = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        ++connections_;
        const std::scoped_lock lock(mutex_);
        open_.push_back(fd);
        if (stopping_) ::shutdown(fd, SHUT_RDWR);
        threads_.emplace_back([this, fd] { serve(fd); });
    }
}

bool ScriptedTarget::initialize(Wire& wire) {
    tcp::IcReq request;
    if (!wire.receive(&request, sizeof(request))) return false;
    tcp::IcResp response;
    response.ch = common_header<tcp::IcResp>(0, 0);
    response.maxh2cdata = 8192;
    if (script_.ic_resp) script_.ic_resp(response);
    wire.send(&response, sizeof(response));
    return true;
}

void ScriptedTarget::serve(int fd) {
    Wire wire(fd);
    if (initialize(wire)) {
        nvme::Command command;
        std::vector<std::byte> data;
        while (wire.take_command(command, data)) {
            if (!script_.command || !script_.command(wire, command, data)) execute(wire, command, data);
        }
    }
    const std::scoped_lock lock(mutex_);
    std::erase(open_, fd);
    ::close(fd);
}

std::vector<std::byte> ScriptedTarget::memory() {
    const std::scoped_lock lock(mutex_);
    return memory_;
}

void ScriptedTarget::fill_memory(std::byte value) {
    const std::scoped_lock lock(mutex_);
    std::ranges::fill(memory_, value);
}

void ScriptedTarget::execute(Wire& wire, const nvme::Command& command, std::span<const std::byte> data) {
    if (command.opcode == nvme::admin_opcode::fabrics) {
        fabrics(wire, command, data);
    } else if (wire.queue_id == 0) {
        admin(wire, command);
    } else {
        io(wire, command, data);
    }
}

void ScriptedTarget::fabrics(Wire& wire, const nvme::Command& command, std::span<const std::byte> data) {
    const auto property = std::bit_cast<nvme::PropertyCommand>(command);
    switch (nvme::fabrics_type_of(command)) {
        case nvme::fabrics_type::connect: {
            const auto connect = std::bit_cast<nvme::ConnectCommand>(command);
            wire.queue_id = connect.queue_id;
            const auto& fields = *reinterpret_cast<const nvme::ConnectData*>(data.data());
            if (data.size() != sizeof(nvme::ConnectData) || nvme::nqn_of(fields.subsystem_nqn) != nqn) {
                wire.respond(command.command_id, nvme::status::connect_invalid_parameters | nvme::status::do_not_retry,
                             nvme::connect_invalid_in_data(offsetof(nvme::ConnectData, subsystem_nqn)));
                return;
            }
            wire.respond(command.command_id, 0, 1);
            return;
        }
        case nvme::fabrics_type::property_set: {
            const std::scoped_lock lock(mutex_);
            configuration_ = static_cast<std::uint32_t>(property.value);
            wire.respond(command.command_id);
            return;
        }
        default:
            break;
    }
    const std::scoped_lock lock(mutex_);
    const bool down = (configuration_ & nvme::cc::shutdown_mask) != 0;
    switch (property.offset) {
        case nvme::property::cap:
            wire.respond(command.command_id, 0, 127 | 2ull << 24 | nvme::cap::css_nvm);
            return;
        case nvme::property::vs:
            wire.respond(command.command_id, 0, nvme::version_1_4);
            return;
        case nvme::property::csts:
            wire.respond(command.command_id, 0, nvme::csts::ready | (down ? nvme::csts::shutdown_complete : 0));
            return;
        default:
            wire.respond(command.command_id, nvme::status::invalid_field);
            return;
    }
}

void ScriptedTarget::admin(Wire& wire, const nvme::Command& command) {
    const std::uint16_t id = command.command_id;
    if (command.opcode == nvme::admin_opcode::async_event_request) return;  // held
    if (command.opcode == nvme::admin_opcode::set_features) return wire.respond(id, 0, 0);
    if (command.opcode != nvme::admin_opcode::identify) return wire.respond(id);
    std::array<std::byte, nvme::identify_bytes> page{};
    switch (nvme::identify_cns(command)) {
        case nvme::cns::controller: {
            nvme::IdentifyController controller;
            nvme::set_text(controller.sn, "SCRIPTED", ' ');
            nvme::set_text(controller.mn, "scripted target", ' ');
            controller.cntlid = 1;
            controller.mdts = 5;  // 128 KiB
            controller.kas = 10;
            controller.vwc = nvme::vwc_present;
            controller.sqes = 0x66;
            controller.cqes = 0x44;
            controller.nn = 1;
            controller.sgls = nvme::sgls_supported | nvme::sgls_in_capsule_offset;
            controller.ioccsz = (64 + 4096) / 16;
            controller.iorcsz = 1;
            if (script_.controller) script_.controller(controller);
            std::memcpy(page.data(), &controller, sizeof(controller));
            break;
        }
        case nvme::cns::identify_namespace: {
            nvme::IdentifyNamespace ns;
            ns.nsze = ns.ncap = ns.nuse = blocks;
            ns.lbaf[0].data_shift = 9;
            ns.nguid[0] = 1;
            if (script_.ns) script_.ns(ns);
            std::memcpy(page.data(), &ns, sizeof(ns));
            break;
        }
        case nvme::cns::active_namespaces:
            if (command.namespace_id == 0) page[0] = std::byte{1};
            break;
        case nvme::cns::descriptors:
            break;
        default:
            return wire.respond(id, nvme::status::invalid_field | nvme::status::do_not_retry);
    }
    wire.data(id, 0, page, tcp::flag_last | tcp::flag_success);
}

void ScriptedTarget::io(Wire& wire, const nvme::Command& command, std::span<const std::byte> data) {
    const std::uint16_t id = command.command_id;
    const std::size_t offset = nvme::first_block(command) * 512;
    const std::size_t bytes = nvme::block_count(command) * 512u;
    switch (command.opcode) {
        case nvme::io_opcode::flush:
            return wire.respond(id);
        case nvme::io_opcode::read: {
            const std::scoped_lock lock(mutex_);
            return wire.data(id, 0, std::span(memory_).subspan(offset, bytes), tcp::flag_last | tcp::flag_success);
        }
        case nvme::io_opcode::write: {
            std::vector<std::byte> taken(data.begin(), data.end());
            if (taken.empty()) wire.ready(id, 7, 0, static_cast<std::uint32_t>(bytes));
            while (taken.size() < bytes) {
                if (!wire.take_data(taken)) return;
            }
            const std::scoped_lock lock(mutex_);
            std::ranges::copy(taken, memory_.begin() + static_cast<std::ptrdiff_t>(offset));
            return wire.respond(id);
        }
        default:
            return wire.respond(id, nvme::status::invalid_opcode | nvme::status::do_not_retry);
    }
}

}  // namespace mqblk::test
