// SPDX-License-Identifier: Apache-2.0
//
// A host that speaks NVMe/TCP byte by byte and does as the test says, right or wrong. It shares only the wire formats
// with the code under test. Over a socket with a time limit, or over memory with the target's reactor run in between.
#pragma once

#include "base/crc32c.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_tcp.h"

#include <array>
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

/// A TCP socket to 127.0.0.1. Waits up to a minute.
[[nodiscard]] std::unique_ptr<Link> connect_link(std::uint16_t port);

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

  private:
    std::unique_ptr<Link> link_;
    Digests digests_;
    std::uint16_t next_id_ = 0x100;
};

}  // namespace mqblk::test
