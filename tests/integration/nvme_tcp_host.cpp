// SPDX-License-Identifier: Apache-2.0
//
// The scripted host's side of the protocol, written out plainly.
#include "support/nvme_tcp_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace mqblk::test {

using namespace wire;
using namespace wire::nvme_tcp;

namespace {

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
            const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        }
        return true;
    }
    bool receive(std::span<std::byte> bytes) override {
        while (!bytes.empty()) {
            const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
            if (got <= 0) return false;
            bytes = bytes.subspan(static_cast<std::size_t>(got));
        }
        return true;
    }
    bool ended(std::size_t& dropped) override {
        dropped = 0;
        std::byte scratch[4096];
        for (;;) {
            const ssize_t got = ::recv(fd_, scratch, sizeof(scratch), 0);
            if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
            if (got < 0) return false;
            dropped += static_cast<std::size_t>(got);
        }
    }

  private:
    int fd_;
};

}  // namespace

std::unique_ptr<Link> connect_link(std::uint16_t port) {
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

Bytes ScriptedHost::assemble(std::span<const std::byte> header, std::span<const std::byte> data, Digests digests) {
    Bytes bytes(header.begin(), header.end());
    const auto add_digest = [&bytes](std::span<const std::byte> of) {
        const le32 digest = Crc32c::of(of.data(), of.size());
        const auto* at = reinterpret_cast<const std::byte*>(&digest);
        bytes.insert(bytes.end(), at, at + 4);
    };
    if (digests.header) add_digest(header);
    bytes.insert(bytes.end(), data.begin(), data.end());
    if (digests.data && !data.empty()) add_digest(data);
    return bytes;
}

bool ScriptedHost::initialize(Digests digests, std::uint32_t max_r2t, std::uint8_t hpda) {
    IcReq request;
    request.hpda = hpda;
    request.dgst = static_cast<std::uint8_t>((digests.header ? 1 : 0) | (digests.data ? 2 : 0));
    request.maxr2t = max_r2t;
    if (!send(build(request, {}, {}))) return false;
    const auto response = expect<IcResp>();
    if (!response || response->dgst != request.dgst) return false;
    digests_ = digests;
    return true;
}

std::optional<Pdu> ScriptedHost::receive() {
    CommonHeader ch;
    if (!link_->receive(std::as_writable_bytes(std::span(&ch, 1)))) return std::nullopt;
    const std::uint32_t plen = ch.plen;
    if (ch.hlen < sizeof(ch) || plen < ch.hlen || plen > (64u << 20)) return std::nullopt;
    Bytes whole(plen);
    std::memcpy(whole.data(), &ch, sizeof(ch));
    if (!link_->receive(std::span(whole).subspan(sizeof(ch)))) return std::nullopt;
    Pdu pdu;
    pdu.header.assign(whole.begin(), whole.begin() + ch.hlen);
    const auto digest_at = [&whole](std::size_t offset) {
        le32 digest;
        std::memcpy(&digest, whole.data() + offset, 4);
        return digest.value();
    };
    if ((ch.flags & flag_hdgst) != 0 && digest_at(ch.hlen) != Crc32c::of(whole.data(), ch.hlen)) return std::nullopt;
    const bool data_digest = (ch.flags & flag_ddgst) != 0;
    if (ch.pdo != 0) pdu.data.assign(whole.begin() + ch.pdo, whole.end() - (data_digest ? 4 : 0));
    if (data_digest && digest_at(plen - 4) != Crc32c::of(pdu.data.data(), pdu.data.size())) return std::nullopt;
    return pdu;
}

std::optional<nvme::Completion> ScriptedHost::connect(std::uint16_t queue_id, const std::string& subsystem,
                                                      std::uint16_t controller_id, std::uint16_t sq_size,
                                                      bool flow_control) {
    nvme::ConnectCommand connect;
    connect.command_id = next_id_++;
    connect.data.length = sizeof(nvme::ConnectData);
    connect.data.type = nvme::sgl_in_capsule;
    connect.queue_id = queue_id;
    connect.sq_size = sq_size;
    connect.attributes = flow_control ? 0 : nvme::connect_disable_flow_control;
    connect.keep_alive_ms = queue_id == 0 ? 120'000u : 0u;
    nvme::ConnectData data;
    data.host_id[0] = 7;
    data.controller_id = controller_id;
    nvme::set_text(data.subsystem_nqn, subsystem, '\0');
    nvme::set_text(data.host_nqn, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000007", '\0');
    nvme::Command command;
    std::memcpy(&command, &connect, sizeof(command));
    if (!send(capsule(command, std::as_bytes(std::span(&data, 1))))) return std::nullopt;
    const auto response = expect<CapsuleResp>();
    if (!response) return std::nullopt;
    return response->completion;
}

bool ScriptedHost::enable() {
    nvme::PropertyCommand property;
    property.type = nvme::fabrics_type::property_set;
    property.offset = nvme::property::cc;
    property.value = nvme::cc::enable | nvme::cc::entry_sizes;
    for (int tries = 0; tries < 1000; ++tries) {
        property.command_id = next_id_++;
        nvme::Command command;
        std::memcpy(&command, &property, sizeof(command));
        if (!send(capsule(command))) return false;
        const auto response = expect<CapsuleResp>();
        if (!response || nvme::status_of(response->completion) != 0) return false;
        if (tries > 0 && (response->completion.result & nvme::csts::ready) != 0) return true;
        property.type = nvme::fabrics_type::property_get;
        property.offset = nvme::property::csts;
        property.value = 0;
    }
    return false;
}

std::optional<std::uint16_t> ScriptedHost::run(const nvme::Command& command, std::span<const std::byte> data) {
    if (!send(capsule(command, data))) return std::nullopt;
    const auto response = expect<CapsuleResp>();
    if (!response || response->completion.command_id != command.command_id) return std::nullopt;
    return nvme::status_of(response->completion);
}

std::optional<Bytes> ScriptedHost::read(const nvme::Command& command) {
    if (!send(capsule(command))) return std::nullopt;
    Bytes data;
    for (;;) {
        const auto pdu = receive();
        if (!pdu || pdu->type() != PduType::c2h_data) return std::nullopt;
        const auto header = pdu->as<C2HData>();
        if (header.cccid != command.command_id || header.datao != data.size() || header.datal != pdu->data.size()) {
            return std::nullopt;
        }
        data.insert(data.end(), pdu->data.begin(), pdu->data.end());
        if ((header.ch.flags & flag_last) == 0) continue;
        if ((header.ch.flags & flag_success) != 0) return data;
        const auto response = expect<CapsuleResp>();
        if (!response || nvme::status_of(response->completion) != 0) return std::nullopt;
        return data;
    }
}

std::optional<ScriptedHost::Terminated> ScriptedHost::terminated() {
    for (;;) {
        const auto pdu = receive();
        if (!pdu) return std::nullopt;
        if (pdu->type() != PduType::c2h_term_req) continue;
        const auto request = pdu->as<TermReq>();
        std::size_t dropped = 0;
        if (!link_->ended(dropped) || dropped > 0) return std::nullopt;
        return Terminated{request.fes, request.fei};
    }
}

nvme::Command ScriptedHost::io(std::uint8_t opcode, std::uint16_t id, std::uint64_t block, std::uint32_t blocks,
                               std::uint32_t block_bytes, bool in_capsule) {
    nvme::Command command;
    command.opcode = opcode;
    command.flags = nvme::flag_psdt_sgl;
    command.command_id = id;
    command.namespace_id = 1;
    nvme::set_block_range(command, block, blocks);
    command.data.length = blocks * block_bytes;
    command.data.type = in_capsule ? nvme::sgl_in_capsule : nvme::sgl_transport_data;
    return command;
}

}  // namespace mqblk::test
