// SPDX-License-Identifier: Apache-2.0
//
// A host that speaks NVMe/TCP byte by byte and does as the test says, right or wrong. It shares only the wire formats
// with the code under test. Over a socket (support/socket_link.h), or over memory (support/memory_served.h).
#pragma once

#include "base/crc32c.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_tcp.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mqblk::test {

using Bytes = std::vector<std::byte>;

/// The byte stream under a scripted host.
class Link {
  public:
    virtual ~Link() = default;
    virtual bool send(std::span<const std::byte>) = 0;
    /// Exactly `bytes` of them; false at the end of the stream or when nothing comes for long.
    virtual bool receive(std::span<std::byte>) = 0;
    /// The peer has closed; waits for it. What comes before is dropped and counted.
    virtual bool ended(std::size_t& dropped) = 0;
};

struct Digests {
    bool header = false, data = false;
};

struct Pdu {
    Bytes header, data;
    [[nodiscard]] wire::nvme_tcp::PduType type() const {
        return static_cast<wire::nvme_tcp::PduType>(std::to_integer<std::uint8_t>(header[0]));
    }
    template <class Header>
    [[nodiscard]] Header as() const {
        Header result;
        std::memcpy(&result, header.data(), sizeof(result));
        return result;
    }
};

class ScriptedHost {
  public:
    explicit ScriptedHost(std::unique_ptr<Link> link) : link_(std::move(link)) {}

    /// ICReq and ICResp.
    bool initialize(Digests digests = {}, std::uint32_t max_r2t = 0, std::uint8_t hpda = 0);
    /// Connect; the response's completion.
    std::optional<wire::nvme::Completion> connect(std::uint16_t queue_id, const std::string& subsystem,
                                                  std::uint16_t controller_id, std::uint16_t sq_size = 31,
                                                  bool flow_control = false);
    /// Sets CC.EN and waits for CSTS.RDY.
    bool enable();

    // PDUs of our own, whole or bent. Digests are as negotiated.
    template <class Header>
    static Bytes build(Header header, std::span<const std::byte> data, Digests digests, std::uint8_t flags = 0) {
        const std::size_t front = sizeof(Header) + (digests.header ? 4 : 0);
        header.ch.type = static_cast<std::uint8_t>(Header::type);
        header.ch.flags =
            static_cast<std::uint8_t>(flags | (digests.header ? 1 : 0) | (digests.data && !data.empty() ? 2 : 0));
        header.ch.hlen = sizeof(Header);
        header.ch.pdo = static_cast<std::uint8_t>(data.empty() ? 0 : front);
        header.ch.plen = static_cast<std::uint32_t>(front + data.size() + (digests.data && !data.empty() ? 4 : 0));
        return assemble(std::as_bytes(std::span(&header, 1)), data, digests);
    }
    static Bytes assemble(std::span<const std::byte> header, std::span<const std::byte> data, Digests digests);
    [[nodiscard]] Bytes capsule(const wire::nvme::Command& command, std::span<const std::byte> data = {}) const {
        wire::nvme_tcp::CapsuleCmd pdu;
        pdu.command = command;
        return build(pdu, data, digests_);
    }
    [[nodiscard]] Bytes h2c_data(std::uint16_t cccid, std::uint16_t ttag, std::uint32_t offset,
                                 std::span<const std::byte> data, bool last) const {
        wire::nvme_tcp::H2CData pdu;
        pdu.cccid = cccid;
        pdu.ttag = ttag;
        pdu.datao = offset;
        pdu.datal = static_cast<std::uint32_t>(data.size());
        return build(pdu, data, digests_, last ? wire::nvme_tcp::flag_last : 0);
    }
    bool send(std::span<const std::byte> bytes) { return link_->send(bytes); }
    std::optional<Pdu> receive();
    /// The next PDU, which must be of this type.
    template <class Header>
    std::optional<Header> expect() {
        const auto pdu = receive();
        if (!pdu || pdu->type() != Header::type) return std::nullopt;
        return pdu->as<Header>();
    }
    /// Sends a command and returns the status of its response (value of the field shifted right by one).
    std::optional<std::uint16_t> run(const wire::nvme::Command& command, std::span<const std::byte> data = {});
    /// Data of a read that must succeed.
    std::optional<Bytes> read(const wire::nvme::Command& command);

    /// A TermReq comes, nothing after it, and then the end.
    struct Terminated {
        std::uint16_t fes;
        std::uint32_t fei;
    };
    std::optional<Terminated> terminated();
    [[nodiscard]] Link& link() { return *link_; }
    [[nodiscard]] Digests digests() const { return digests_; }

    static wire::nvme::Command io(std::uint8_t opcode, std::uint16_t id, std::uint64_t block, std::uint32_t blocks,
                                  std::uint32_t block_bytes = 512, bool in_capsule = false);

    std::string host_nqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000007";

  private:
    std::unique_ptr<Link> link_;
    Digests digests_;
    std::uint16_t next_id_ = 0x100;
};

inline Bytes ScriptedHost::assemble(std::span<const std::byte> header, std::span<const std::byte> data,
                                    Digests digests) {
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

inline bool ScriptedHost::initialize(Digests digests, std::uint32_t max_r2t, std::uint8_t hpda) {
    wire::nvme_tcp::IcReq request;
    request.hpda = hpda;
    request.dgst = static_cast<std::uint8_t>((digests.header ? 1 : 0) | (digests.data ? 2 : 0));
    request.maxr2t = max_r2t;
    if (!send(build(request, {}, {}))) return false;
    const auto response = expect<wire::nvme_tcp::IcResp>();
    if (!response || response->dgst != request.dgst) return false;
    digests_ = digests;
    return true;
}

inline std::optional<Pdu> ScriptedHost::receive() {
    wire::nvme_tcp::CommonHeader ch;
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
    if ((ch.flags & wire::nvme_tcp::flag_hdgst) != 0 && digest_at(ch.hlen) != Crc32c::of(whole.data(), ch.hlen))
        return std::nullopt;
    const bool data_digest = (ch.flags & wire::nvme_tcp::flag_ddgst) != 0;
    if (ch.pdo != 0) pdu.data.assign(whole.begin() + ch.pdo, whole.end() - (data_digest ? 4 : 0));
    if (data_digest && digest_at(plen - 4) != Crc32c::of(pdu.data.data(), pdu.data.size())) return std::nullopt;
    return pdu;
}

inline std::optional<wire::nvme::Completion> ScriptedHost::connect(std::uint16_t queue_id, const std::string& subsystem,
                                                                   std::uint16_t controller_id, std::uint16_t sq_size,
                                                                   bool flow_control) {
    wire::nvme::ConnectCommand connect;
    connect.command_id = next_id_++;
    connect.data.length = sizeof(wire::nvme::ConnectData);
    connect.data.type = wire::nvme::sgl_in_capsule;
    connect.queue_id = queue_id;
    connect.sq_size = sq_size;
    connect.attributes = flow_control ? 0 : wire::nvme::connect_disable_flow_control;
    connect.keep_alive_ms = queue_id == 0 ? 120'000u : 0u;
    wire::nvme::ConnectData data;
    data.host_id[0] = 7;
    data.controller_id = controller_id;
    wire::nvme::set_text(data.subsystem_nqn, subsystem, '\0');
    wire::nvme::set_text(data.host_nqn, host_nqn, '\0');
    const auto command = std::bit_cast<wire::nvme::Command>(connect);
    if (!send(capsule(command, std::as_bytes(std::span(&data, 1))))) return std::nullopt;
    const auto response = expect<wire::nvme_tcp::CapsuleResp>();
    if (!response) return std::nullopt;
    return response->completion;
}

inline bool ScriptedHost::enable() {
    wire::nvme::PropertyCommand property;
    property.type = wire::nvme::fabrics_type::property_set;
    property.offset = wire::nvme::property::cc;
    property.value = wire::nvme::cc::enable | wire::nvme::cc::entry_sizes;
    for (int tries = 0; tries < 1000; ++tries) {
        property.command_id = next_id_++;
        const auto command = std::bit_cast<wire::nvme::Command>(property);
        if (!send(capsule(command))) return false;
        const auto response = expect<wire::nvme_tcp::CapsuleResp>();
        if (!response || wire::nvme::status_of(response->completion) != 0) return false;
        if (tries > 0 && (response->completion.result & wire::nvme::csts::ready) != 0) return true;
        property.type = wire::nvme::fabrics_type::property_get;
        property.offset = wire::nvme::property::csts;
        property.value = 0;
    }
    return false;
}

inline std::optional<std::uint16_t> ScriptedHost::run(const wire::nvme::Command& command,
                                                      std::span<const std::byte> data) {
    if (!send(capsule(command, data))) return std::nullopt;
    const auto response = expect<wire::nvme_tcp::CapsuleResp>();
    if (!response || response->completion.command_id != command.command_id) return std::nullopt;
    return wire::nvme::status_of(response->completion);
}

inline std::optional<Bytes> ScriptedHost::read(const wire::nvme::Command& command) {
    if (!send(capsule(command))) return std::nullopt;
    Bytes data;
    for (;;) {
        const auto pdu = receive();
        if (!pdu || pdu->type() != wire::nvme_tcp::PduType::c2h_data) return std::nullopt;
        const auto header = pdu->as<wire::nvme_tcp::C2HData>();
        if (header.cccid != command.command_id || header.datao != data.size() || header.datal != pdu->data.size()) {
            return std::nullopt;
        }
        data.insert(data.end(), pdu->data.begin(), pdu->data.end());
        if ((header.ch.flags & wire::nvme_tcp::flag_last) == 0) continue;
        if ((header.ch.flags & wire::nvme_tcp::flag_success) != 0) return data;
        const auto response = expect<wire::nvme_tcp::CapsuleResp>();
        if (!response || wire::nvme::status_of(response->completion) != 0) return std::nullopt;
        return data;
    }
}

inline std::optional<ScriptedHost::Terminated> ScriptedHost::terminated() {
    for (;;) {
        const auto pdu = receive();
        if (!pdu) return std::nullopt;
        if (pdu->type() != wire::nvme_tcp::PduType::c2h_term_req) continue;
        const auto request = pdu->as<wire::nvme_tcp::TermReq>();
        std::size_t dropped = 0;
        if (!link_->ended(dropped) || dropped > 0) return std::nullopt;
        return Terminated{request.fes, request.fei};
    }
}

inline wire::nvme::Command ScriptedHost::io(std::uint8_t opcode, std::uint16_t id, std::uint64_t block,
                                            std::uint32_t blocks, std::uint32_t block_bytes, bool in_capsule) {
    wire::nvme::Command command;
    command.opcode = opcode;
    command.flags = wire::nvme::flag_psdt_sgl;
    command.command_id = id;
    command.namespace_id = 1;
    wire::nvme::set_block_range(command, block, blocks);
    command.data.length = blocks * block_bytes;
    command.data.type = in_capsule ? wire::nvme::sgl_in_capsule : wire::nvme::sgl_transport_data;
    return command;
}

}  // namespace mqblk::test
