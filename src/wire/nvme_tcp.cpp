// SPDX-License-Identifier: Apache-2.0
//
// The header checks. What a PDU may look like stands in one table; order of checks: type, direction, sequence, header
// length, digest flags, data offset, length. NVM Express TCP Transport Specification 1.0, sections 3.5 and 3.6.
#include "wire/nvme_tcp.h"

#include <algorithm>
#include <cstring>

namespace mqblk::wire::nvme_tcp {

namespace {

enum class DataRule : std::uint8_t { none, optional, required, term };

struct PduFormat {
    std::uint8_t hlen;  // 0: no such type
    Sender sender;
    bool digests;      // of header and data, where negotiated
    bool initializes;  // belongs before the initialization is complete
    DataRule data;
};

constexpr PduFormat formats[] = {
    /* 00 ICReq       */ {128, Sender::host, false, true, DataRule::none},
    /* 01 ICResp      */ {128, Sender::controller, false, true, DataRule::none},
    /* 02 H2CTermReq  */ {24, Sender::host, false, false, DataRule::term},
    /* 03 C2HTermReq  */ {24, Sender::controller, false, false, DataRule::term},
    /* 04 CapsuleCmd  */ {72, Sender::host, true, false, DataRule::optional},
    /* 05 CapsuleResp */ {24, Sender::controller, true, false, DataRule::none},
    /* 06 H2CData     */ {24, Sender::host, true, false, DataRule::required},
    /* 07 C2HData     */ {24, Sender::controller, true, false, DataRule::required},
    /* 08             */ {0, Sender::host, false, false, DataRule::none},
    /* 09 R2T         */ {24, Sender::controller, true, false, DataRule::none},
};

constexpr std::uint32_t fei_type = 0, fei_flags = 1, fei_hlen = 2, fei_pdo = 3, fei_plen = 4;

std::unexpected<Violation> invalid(std::uint32_t fei, const char* what) noexcept {
    return std::unexpected(Violation{FatalStatus::invalid_header_field, fei, what});
}
std::unexpected<Violation> violation(FatalStatus fes, std::uint32_t fei, const char* what) noexcept {
    return std::unexpected(Violation{fes, fei, what});
}

std::uint32_t most_data(PduType type, const PduRules& rules) noexcept {
    return type == PduType::capsule_cmd ? rules.max_capsule_data : rules.max_data;
}

// Data offset and length of a PDU that may carry data, once its flags are known to be right.
std::expected<PduShape, Violation> check_data(const CommonHeader& ch, const PduFormat& format, const PduRules& rules,
                                              PduShape shape) noexcept {
    const std::uint32_t header_end = shape.header_bytes + (shape.header_digest ? digest_bytes : 0);
    const bool has_data = ch.pdo != 0;
    if (!has_data) {
        if (format.data == DataRule::required) return invalid(fei_pdo, "no data offset in a data PDU");
        if (ch.flags & flag_ddgst) return invalid(fei_flags, "data digest flag without data");
        if (ch.plen != header_end) return invalid(fei_plen, "PDU length does not fit a PDU without data");
        return shape;
    }
    if (format.data == DataRule::none) return invalid(fei_pdo, "data offset in a PDU that has no data");
    if (ch.pdo < header_end) return invalid(fei_pdo, "data offset inside the header");
    if (ch.pdo % rules.data_alignment != 0) return invalid(fei_pdo, "data offset not aligned as agreed");
    if (ch.pdo - header_end >= 128) return invalid(fei_pdo, "data offset far beyond the header");
    if (((ch.flags & flag_ddgst) != 0) != rules.data_digest) {
        return invalid(fei_flags, rules.data_digest ? "data digest missing" : "data digest was not agreed on");
    }
    shape.data_digest = rules.data_digest;
    shape.data_offset = ch.pdo;
    const std::uint64_t around = ch.pdo + (shape.data_digest ? digest_bytes : 0);
    if (ch.plen <= around) return invalid(fei_plen, "PDU length leaves no room for data");
    shape.data_bytes = static_cast<std::uint32_t>(ch.plen - around);
    if (shape.data_bytes > most_data(shape.type, rules)) {
        if (shape.type == PduType::capsule_cmd) return invalid(fei_plen, "more in-capsule data than announced");
        return violation(FatalStatus::limit_exceeded, fei_plen, "more data in one PDU than allowed");
    }
    return shape;
}

std::uint32_t read32(std::span<const std::byte> header, std::size_t offset) noexcept {
    le32 value;
    std::memcpy(&value, header.data() + offset, sizeof(value));
    return value;
}

}  // namespace

std::expected<PduShape, Violation> check_header(const CommonHeader& ch, const PduRules& rules) noexcept {
    if (ch.type >= std::size(formats) || formats[ch.type].hlen == 0) return invalid(fei_type, "unknown PDU type");
    const PduFormat& format = formats[ch.type];
    if (format.sender != rules.sender) return invalid(fei_type, "PDU type of the other direction");
    if (format.data != DataRule::term && format.initializes == rules.initialized) {
        return violation(FatalStatus::sequence_error, 0,
                         rules.initialized ? "connection initialized twice" : "connection not yet initialized");
    }
    if (ch.hlen != format.hlen) return invalid(fei_hlen, "wrong header length");

    PduShape shape{static_cast<PduType>(ch.type), ch.flags, format.hlen, false, false, format.hlen, 0, ch.plen};
    if (format.data == DataRule::term) {
        if (ch.plen < format.hlen || ch.plen > format.hlen + max_term_data_bytes) {
            return invalid(fei_plen, "termination request too long or too short");
        }
        shape.data_bytes = ch.plen - format.hlen;
        return shape;
    }
    if (format.digests) {
        const bool flagged = (ch.flags & flag_hdgst) != 0;
        if (rules.header_digest && !flagged) {
            return violation(FatalStatus::header_digest_error, 0, "header digest missing");
        }
        if (!rules.header_digest && flagged) return invalid(fei_flags, "header digest was not agreed on");
        shape.header_digest = flagged;
    }
    if (shape.type == PduType::c2h_data && shape.success() && !shape.last()) {
        return invalid(fei_flags, "SUCCESS without LAST_PDU");
    }
    return check_data(ch, format, rules, shape);
}

const Violation* check_fields(std::span<const std::byte> header, const PduShape& shape) noexcept {
    using enum FatalStatus;
    static constexpr Violation bad_version{unsupported_parameter, 8, "unsupported PDU format version"};
    static constexpr Violation bad_alignment{unsupported_parameter, 10, "data alignment above 31"};
    static constexpr Violation bad_maxh2cdata{invalid_header_field, 12, "MAXH2CDATA below 4096 or not dword aligned"};
    static constexpr Violation bad_datal{invalid_header_field, 16, "data length differs from what the PDU holds"};
    static constexpr Violation bad_r2tl{invalid_header_field, 16, "R2T for no data"};

    switch (shape.type) {
        case PduType::ic_req:
        case PduType::ic_resp:
            if ((read32(header, 8) & 0xffff) != 0) return &bad_version;
            if (std::to_integer<unsigned>(header[10]) > 31) return &bad_alignment;
            if (shape.type == PduType::ic_resp) {
                const std::uint32_t most = read32(header, 12);
                if (most < min_h2c_data_bytes || most % 4 != 0) return &bad_maxh2cdata;
            }
            return nullptr;
        case PduType::h2c_data:
        case PduType::c2h_data:
            return read32(header, 16) == shape.data_bytes ? nullptr : &bad_datal;
        case PduType::r2t:
            return read32(header, 16) != 0 ? nullptr : &bad_r2tl;
        default:
            return nullptr;
    }
}

std::size_t build_term_req(Sender sender, const Violation& violation, std::span<const std::byte> offending,
                           std::span<std::byte, sizeof(TermReq) + max_term_data_bytes> out) noexcept {
    const std::size_t copied = std::min(offending.size(), max_term_data_bytes);
    TermReq request;
    const PduType type = sender == Sender::host ? PduType::h2c_term_req : PduType::c2h_term_req;
    request.ch.type = static_cast<std::uint8_t>(type);
    request.ch.hlen = sizeof(TermReq);
    request.ch.plen = static_cast<std::uint32_t>(sizeof(TermReq) + copied);
    request.fes = static_cast<std::uint16_t>(violation.fes);
    request.fei = violation.fei;
    std::memcpy(out.data(), &request, sizeof(request));
    std::copy_n(offending.begin(), copied, out.begin() + sizeof(request));
    return sizeof(request) + copied;
}

}  // namespace mqblk::wire::nvme_tcp
