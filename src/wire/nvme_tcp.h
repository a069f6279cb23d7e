// SPDX-License-Identifier: Apache-2.0
//
// NVMe/TCP protocol data units as they travel, and the check that every received header passes before a byte more is
// read: it says what the PDU is, or which fatal error (FES and FEI of a TermReq) it deserves. Pure functions over
// bytes; both ends use them. NVM Express TCP Transport Specification 1.0, section 3.6; errors: section 3.5.
#pragma once

#include "wire/nvme.h"

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

namespace mqblk::wire::nvme_tcp {

enum class PduType : std::uint8_t {
    ic_req = 0x00,
    ic_resp = 0x01,
    h2c_term_req = 0x02,
    c2h_term_req = 0x03,
    capsule_cmd = 0x04,
    capsule_resp = 0x05,
    h2c_data = 0x06,
    c2h_data = 0x07,
    r2t = 0x09,
};

/// Bits of CommonHeader::flags.
enum PduFlag : std::uint8_t {
    flag_hdgst = 1,    ///< HDGSTF: a header digest follows the header
    flag_ddgst = 2,    ///< DDGSTF: a data digest follows the data
    flag_last = 4,     ///< LAST_PDU of this R2T or read
    flag_success = 8,  ///< SUCCESS: status 0, no CapsuleResp follows
};

inline constexpr std::uint32_t digest_bytes = 4;
inline constexpr std::size_t max_header_bytes = 128;        ///< largest HLEN of any PDU
inline constexpr std::size_t max_term_data_bytes = 128;     ///< copy of the offending header in a TermReq
inline constexpr std::uint32_t admin_capsule_bytes = 8192;  ///< in-capsule data of admin and fabrics commands
inline constexpr std::uint32_t min_h2c_data_bytes = 4096;   ///< least MAXH2CDATA

struct CommonHeader {
    std::uint8_t type = 0;
    std::uint8_t flags = 0;
    std::uint8_t hlen = 0;  ///< bytes of the header without digest
    std::uint8_t pdo = 0;   ///< offset of the data from the PDU's start; 0 without data
    le32 plen{};            ///< bytes of the whole PDU
};
static_assert(sizeof(CommonHeader) == 8);

struct IcReq {
    static constexpr PduType type = PduType::ic_req;
    CommonHeader ch{};
    le16 pfv{};
    std::uint8_t hpda = 0;  ///< alignment of data to the host: 4 · (n + 1) bytes
    std::uint8_t dgst = 0;  ///< bit 0 header digest, bit 1 data digest
    le32 maxr2t{};          ///< R2Ts outstanding per command, 0's based
    std::uint8_t reserved[112] = {};
};
static_assert(sizeof(IcReq) == 128 && offsetof(IcReq, maxr2t) == 12);

struct IcResp {
    static constexpr PduType type = PduType::ic_resp;
    CommonHeader ch{};
    le16 pfv{};
    std::uint8_t cpda = 0;  ///< alignment of data to the controller: 4 · (n + 1) bytes
    std::uint8_t dgst = 0;
    le32 maxh2cdata{};  ///< most data in one H2CData PDU, bytes
    std::uint8_t reserved[112] = {};
};
static_assert(sizeof(IcResp) == 128 && offsetof(IcResp, maxh2cdata) == 12);

/// Bits of IcReq::dgst and IcResp::dgst.
enum DigestBit : std::uint8_t { dgst_header = 1, dgst_data = 2 };

/// H2CTermReq and C2HTermReq; up to 128 bytes of the offending header follow.
struct TermReq {
    CommonHeader ch{};
    le16 fes{};
    le32 fei{};
    std::uint8_t reserved[10] = {};
};
static_assert(sizeof(TermReq) == 24 && offsetof(TermReq, fei) == 10);

struct CapsuleCmd {
    static constexpr PduType type = PduType::capsule_cmd;
    CommonHeader ch{};
    nvme::Command command{};
};
static_assert(sizeof(CapsuleCmd) == 72);

struct CapsuleResp {
    static constexpr PduType type = PduType::capsule_resp;
    CommonHeader ch{};
    nvme::Completion completion{};
};
static_assert(sizeof(CapsuleResp) == 24);

struct H2CData {
    static constexpr PduType type = PduType::h2c_data;
    CommonHeader ch{};
    le16 cccid{};  ///< command identifier of the capsule
    le16 ttag{};   ///< copied from the R2T
    le32 datao{};  ///< offset in the command's data
    le32 datal{};  ///< bytes of data in this PDU
    std::uint8_t reserved[4] = {};
};
static_assert(sizeof(H2CData) == 24 && offsetof(H2CData, datal) == 16);

struct C2HData {
    static constexpr PduType type = PduType::c2h_data;
    CommonHeader ch{};
    le16 cccid{};
    std::uint8_t reserved0[2] = {};
    le32 datao{};
    le32 datal{};
    std::uint8_t reserved1[4] = {};
};
static_assert(sizeof(C2HData) == 24 && offsetof(C2HData, datal) == 16);

struct R2T {
    static constexpr PduType type = PduType::r2t;
    CommonHeader ch{};
    le16 cccid{};
    le16 ttag{};
    le32 r2to{};  ///< first byte wanted
    le32 r2tl{};  ///< bytes wanted
    std::uint8_t reserved[4] = {};
};
static_assert(sizeof(R2T) == 24 && offsetof(R2T, r2tl) == 16);

/// FES of a TermReq.
enum class FatalStatus : std::uint16_t {
    invalid_header_field = 0x01,  ///< FEI: byte offset of the field
    sequence_error = 0x02,
    header_digest_error = 0x03,  ///< FEI: the digest that was received
    out_of_range = 0x04,         ///< FEI: byte offset of the field
    limit_exceeded = 0x05,       ///< more data or more R2Ts than agreed
    unsupported_parameter = 0x06,
};

/// Why a connection must end.
struct Violation {
    FatalStatus fes;
    std::uint32_t fei;
    const char* what;  ///< static text for the log
};

enum class Sender : std::uint8_t { host, controller };

/// What a received header is judged by. Changes as the connection is negotiated.
struct PduRules {
    Sender sender = Sender::host;  ///< who sends what is checked
    bool initialized = false;      ///< ICReq (or ICResp) was accepted
    bool header_digest = false;
    bool data_digest = false;
    std::uint32_t data_alignment = 4;                      ///< of PDO, bytes: 4 · (CPDA or HPDA + 1)
    std::uint32_t max_capsule_data = admin_capsule_bytes;  ///< in-capsule data, bytes
    std::uint32_t max_data = UINT32_MAX;                   ///< data of one H2CData or C2HData, bytes
};

/// A PDU whose common header is sound.
struct PduShape {
    PduType type;
    std::uint8_t flags;
    std::uint8_t header_bytes;  ///< HLEN
    bool header_digest;         ///< HDGST follows the header
    bool data_digest;           ///< DDGST follows the data
    std::uint8_t data_offset;   ///< from the PDU's start; meaningless without data
    std::uint32_t data_bytes;
    std::uint32_t pdu_bytes;  ///< PLEN: header, digests, padding, data

    [[nodiscard]] bool last() const noexcept { return (flags & flag_last) != 0; }
    [[nodiscard]] bool success() const noexcept { return (flags & flag_success) != 0; }
};

/// Judges the first eight bytes: type, direction, order, HLEN, digest flags, PDO, PLEN. No more than
/// `header_bytes + 4 + padding + data_bytes + 4` bytes belong to a PDU that passes.
[[nodiscard]] std::expected<PduShape, Violation> check_header(const CommonHeader&, const PduRules&) noexcept;

/// Judges the rest of a complete header of `shape.header_bytes`, as far as that needs no knowledge of commands:
/// versions, alignments and limits of the initialization, DATAL against PLEN, R2TL. Null if nothing is wrong.
[[nodiscard]] const Violation* check_fields(std::span<const std::byte> header, const PduShape&) noexcept;

/// Bytes of a TermReq about `offending` (cut to 128 bytes) for the given sender. Returns the length used of `out`.
[[nodiscard]] std::size_t build_term_req(Sender, const Violation&, std::span<const std::byte> offending,
                                         std::span<std::byte, sizeof(TermReq) + max_term_data_bytes> out) noexcept;

}  // namespace mqblk::wire::nvme_tcp
