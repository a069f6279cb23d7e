// SPDX-License-Identifier: Apache-2.0
//
// SRP, the SCSI RDMA Protocol, as it travels: information units, memory descriptors, and the views that both ends take
// of units that a peer sent, with every length checked. All integers are big endian; a tag is returned as it came. T10
// SRP revision 16a; immediate data as of SRP-2; the private data of a login over RDMA CM as Linux has it.
#pragma once

#include "base/endian.h"
#include "wire/scsi.h"

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string_view>

namespace mqblk::wire::srp {

enum class Opcode : std::uint8_t {
    login_req = 0x00,
    tsk_mgmt = 0x01,
    cmd = 0x02,
    i_logout = 0x03,
    cred_rsp = 0x41,
    aer_rsp = 0x42,
    t_logout = 0x80,
    cred_req = 0x81,
    aer_req = 0x82,
    login_rsp = 0xc0,
    rsp = 0xc1,
    login_rej = 0xc2,
};

/// Bits of buf_fmt in a login: descriptor formats that are supported.
enum BufferFormat : std::uint16_t { format_direct = 0x0002, format_indirect = 0x0004 };
inline constexpr std::uint16_t formats_known = format_direct | format_indirect;

/// Bits of req_flags and rsp_flags.
inline constexpr std::uint8_t multichannel_mask = 0x03;
inline constexpr std::uint8_t multichannel_single = 0x00;  ///< request: other channels of the pair end
inline constexpr std::uint8_t multichannel_multi = 0x01;   ///< request: they stay
inline constexpr std::uint8_t result_no_other = 0x00, result_terminated = 0x01, result_maintained = 0x02;
inline constexpr std::uint8_t flag_immediate = 0x80;  ///< immediate data, asked for or supported

inline constexpr unsigned min_it_iu_bytes = 64;  ///< that any target takes
inline constexpr std::uint16_t io_class_16a = 0x0100;
inline constexpr std::uint16_t io_class_10 = 0xff00;

/// A port's name: {id extension, GUID} or, of revision 10, {GUID, id extension}.
struct PortId {
    be64 first{}, second{};
    [[nodiscard]] friend bool operator==(const PortId& a, const PortId& b) noexcept {
        return a.first.value() == b.first.value() && a.second.value() == b.second.value();
    }
};
static_assert(sizeof(PortId) == 16);

struct LoginReq {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::login_req);
    std::uint8_t reserved1[7] = {};
    be64 tag{};
    be32 req_it_iu_len{};  ///< bytes of the longest unit that the initiator will send
    std::uint8_t reserved2[4] = {};
    be16 req_buf_fmt{};
    std::uint8_t req_flags = 0;
    std::uint8_t reserved3 = 0;
    be16 imm_data_offset{};
    std::uint8_t reserved4[2] = {};
    PortId initiator_port{}, target_port{};
};
static_assert(sizeof(LoginReq) == 64 && offsetof(LoginReq, tag) == 8 && offsetof(LoginReq, req_buf_fmt) == 24 &&
              offsetof(LoginReq, imm_data_offset) == 28 && offsetof(LoginReq, initiator_port) == 32 &&
              offsetof(LoginReq, target_port) == 48);

/// The same in the 56 bytes that RDMA CM leaves.
struct LoginReqRdma {
    be64 tag{};
    be16 req_buf_fmt{};
    std::uint8_t req_flags = 0;
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::login_req);
    be32 req_it_iu_len{};
    PortId initiator_port{}, target_port{};
    be16 imm_data_offset{};
    std::uint8_t reserved[6] = {};
};
static_assert(sizeof(LoginReqRdma) == 56 && offsetof(LoginReqRdma, opcode) == 11 &&
              offsetof(LoginReqRdma, initiator_port) == 16 && offsetof(LoginReqRdma, imm_data_offset) == 48);

struct LoginRsp {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::login_rsp);
    std::uint8_t reserved1[3] = {};
    be32 req_lim_delta{};  ///< the first credits
    be64 tag{};
    be32 max_it_iu_len{};  ///< that the target receives
    be32 max_ti_iu_len{};  ///< that the target will send
    be16 buf_fmt{};
    std::uint8_t rsp_flags = 0;
    std::uint8_t reserved2[25] = {};
};
static_assert(sizeof(LoginRsp) == 52 && offsetof(LoginRsp, max_it_iu_len) == 16 && offsetof(LoginRsp, rsp_flags) == 26);

enum class RejectReason : std::uint32_t {
    unable_to_establish = 0x00010000,
    insufficient_resources = 0x00010001,
    iu_too_large = 0x00010002,  ///< req_it_iu_len: too large, or below 64
    unable_to_associate = 0x00010003,
    unsupported_format = 0x00010004,
    multichannel_unsupported = 0x00010005,
    channel_limit = 0x00010006,
};

struct LoginRej {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::login_rej);
    std::uint8_t reserved1[3] = {};
    be32 reason{};
    be64 tag{};
    std::uint8_t reserved2[8] = {};
    be16 buf_fmt{};
    std::uint8_t reserved3[6] = {};
};
static_assert(sizeof(LoginRej) == 32 && offsetof(LoginRej, tag) == 8 && offsetof(LoginRej, buf_fmt) == 24);

/// I_LOGOUT, CRED_RSP, AER_RSP: nothing but a tag.
struct Short {
    std::uint8_t opcode = 0;
    std::uint8_t reserved[7] = {};
    be64 tag{};
};
static_assert(sizeof(Short) == 16);

struct TLogout {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::t_logout);
    std::uint8_t sol_not = 0;
    std::uint8_t reserved[2] = {};
    be32 reason{};
    be64 tag{};
};
static_assert(sizeof(TLogout) == 16 && offsetof(TLogout, reason) == 4);

struct CredReq {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::cred_req);
    std::uint8_t sol_not = 0;
    std::uint8_t reserved[2] = {};
    be32 req_lim_delta{};
    be64 tag{};
};
static_assert(sizeof(CredReq) == 16 && offsetof(CredReq, req_lim_delta) == 4);

/// Sense data follow.
struct AerReq {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::aer_req);
    std::uint8_t sol_not = 0;
    std::uint8_t reserved1[2] = {};
    be32 req_lim_delta{};
    be64 tag{};
    std::uint8_t reserved2[4] = {};
    be64 lun{};
    be32 sense_data_len{};
    std::uint8_t reserved3[4] = {};
};
static_assert(sizeof(AerReq) == 36 && offsetof(AerReq, lun) == 20 && offsetof(AerReq, sense_data_len) == 28);

enum class DescriptorFormat : std::uint8_t { none = 0, direct = 1, indirect = 2, immediate = 3 };
enum class TaskAttribute : std::uint8_t { simple = 0, head_of_queue = 1, ordered = 2, aca = 4 };

/// Additional CDB bytes and descriptors follow.
struct Cmd {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::cmd);
    std::uint8_t sol_not = 0;
    std::uint8_t reserved1[3] = {};
    std::uint8_t buf_fmt = 0;            ///< DescriptorFormat: data-out in 7:4, data-in in 3:0
    std::uint8_t data_out_desc_cnt = 0;  ///< descriptors of an indirect list that are in the unit
    std::uint8_t data_in_desc_cnt = 0;
    be64 tag{};
    std::uint8_t reserved2[4] = {};
    be64 lun{};
    std::uint8_t reserved3 = 0;
    std::uint8_t task_attr = 0;
    std::uint8_t reserved4 = 0;
    std::uint8_t add_cdb_len = 0;  ///< bits 7:2: 32-bit words of additional CDB
    scsi::Cdb cdb{};
};
static_assert(sizeof(Cmd) == 48 && offsetof(Cmd, buf_fmt) == 5 && offsetof(Cmd, tag) == 8 && offsetof(Cmd, lun) == 20 &&
              offsetof(Cmd, task_attr) == 29 && offsetof(Cmd, add_cdb_len) == 31 && offsetof(Cmd, cdb) == 32);

/// A memory descriptor.
struct Descriptor {
    be64 address{};
    be32 key{};
    be32 bytes{};
};
static_assert(sizeof(Descriptor) == 16);

/// Descriptors of the partial list follow.
struct IndirectHeader {
    Descriptor table{};  ///< the whole list in the initiator's memory; bytes: of the table
    be32 data_bytes{};
};
static_assert(sizeof(IndirectHeader) == 20);

struct ImmediateHeader {
    be32 bytes{};
};
static_assert(sizeof(ImmediateHeader) == 4);

inline constexpr unsigned max_descriptors_in_unit = 255;
/// Where Linux has immediate data begin: behind a command and the longest immediate descriptor.
inline constexpr std::uint16_t linux_immediate_offset = 68;
/// Of a command with `descriptors` in its indirect list.
[[nodiscard]] constexpr std::uint32_t indirect_unit_bytes(std::uint32_t descriptors) noexcept {
    return static_cast<std::uint32_t>(sizeof(Cmd) + sizeof(IndirectHeader) + sizeof(Descriptor) * descriptors);
}

enum ResponseFlag : std::uint8_t {
    rsp_valid = 0x01,
    sense_valid = 0x02,
    data_out_overflow = 0x04,
    data_out_underflow = 0x08,
    data_in_overflow = 0x10,
    data_in_underflow = 0x20,
};

/// Response data, then sense data follow.
struct Rsp {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::rsp);
    std::uint8_t sol_not = 0;
    std::uint8_t reserved1[2] = {};
    be32 req_lim_delta{};
    be64 tag{};
    std::uint8_t reserved2[2] = {};
    std::uint8_t flags = 0;  ///< ResponseFlag
    std::uint8_t status = 0;
    be32 data_out_res_cnt{}, data_in_res_cnt{};
    be32 sense_data_len{}, resp_data_len{};
};
static_assert(sizeof(Rsp) == 36 && offsetof(Rsp, flags) == 18 && offsetof(Rsp, data_out_res_cnt) == 20 &&
              offsetof(Rsp, sense_data_len) == 28 && offsetof(Rsp, resp_data_len) == 32);

/// Byte 3 of response data.
enum class ResponseCode : std::uint8_t {
    success = 0,
    invalid_fields = 2,
    not_supported = 4,
    failed = 5,
};
inline constexpr unsigned response_data_bytes = 4;

enum class TaskFunction : std::uint8_t {
    abort_task = 0x01,
    abort_task_set = 0x02,
    clear_task_set = 0x04,
    lun_reset = 0x08,
    clear_aca = 0x40,
};

struct TskMgmt {
    std::uint8_t opcode = static_cast<std::uint8_t>(Opcode::tsk_mgmt);
    std::uint8_t sol_not = 0;
    std::uint8_t reserved1[6] = {};
    be64 tag{};
    std::uint8_t reserved2[4] = {};
    be64 lun{};
    std::uint8_t reserved3[2] = {};
    std::uint8_t function = 0;
    std::uint8_t reserved4 = 0;
    be64 task_tag{};
    std::uint8_t reserved5[8] = {};
};
static_assert(sizeof(TskMgmt) == 48 && offsetof(TskMgmt, lun) == 20 && offsetof(TskMgmt, function) == 30 &&
              offsetof(TskMgmt, task_tag) == 32);

// What a peer sent. A decoder gives what is there, or a short text that says what is wrong.

template <class T>
using Decoded = std::expected<T, std::string_view>;

/// Nothing of an empty unit.
[[nodiscard]] std::optional<Opcode> opcode_of(std::span<const std::byte> unit) noexcept;

/// A login in either form: 64 bytes or more as of InfiniBand CM, 56 as of RDMA CM (`rdma_cm`; what is behind counts
/// for nothing, since CMs fill up private data).
[[nodiscard]] Decoded<LoginReq> decode_login_req(std::span<const std::byte> private_data, bool rdma_cm) noexcept;
[[nodiscard]] LoginReqRdma to_rdma_cm(const LoginReq&) noexcept;

/// What a target answers to a login.
[[nodiscard]] Decoded<LoginRsp> decode_login_rsp(std::span<const std::byte> private_data) noexcept;
[[nodiscard]] Decoded<LoginRej> decode_login_rej(std::span<const std::byte> private_data) noexcept;
/// In words, for people: every reason, also unknown ones.
[[nodiscard]] std::string_view to_words(RejectReason) noexcept;

/// How a command describes its data.
struct DataDescription {
    DescriptorFormat format = DescriptorFormat::none;
    std::uint64_t bytes = 0;                   ///< of data, as the sum of the descriptors or the stated total says
    std::span<const std::byte> descriptors{};  ///< in the unit: one, or the partial list; each of 16 bytes
    std::uint32_t table_descriptors = 0;       ///< indirect: of the whole list
    Descriptor table{};                        ///< indirect: the whole list
    std::span<const std::byte> immediate{};    ///< the data
    [[nodiscard]] std::uint32_t in_unit() const noexcept {
        return static_cast<std::uint32_t>(descriptors.size() / sizeof(Descriptor));
    }
    [[nodiscard]] Descriptor descriptor(std::uint32_t index) const noexcept;
    /// The list is longer than the part that is in the unit.
    [[nodiscard]] bool external() const noexcept { return table_descriptors > in_unit(); }
};

struct CmdView {
    Cmd cmd;
    std::span<const std::byte> additional_cdb{};
    DataDescription out, in;
};
/// `immediate_offset`: as agreed in the login, nothing where immediate data are not. Sums are checked as far as the
/// whole list is in the unit.
[[nodiscard]] Decoded<CmdView> decode_cmd(std::span<const std::byte> unit,
                                          std::optional<std::uint16_t> immediate_offset) noexcept;

struct RspView {
    Rsp rsp;
    std::optional<ResponseCode> code{};  ///< of valid response data
    std::span<const std::byte> sense{};
};
[[nodiscard]] Decoded<RspView> decode_rsp(std::span<const std::byte> unit) noexcept;

struct AerReqView {
    AerReq aer;
    std::span<const std::byte> sense{};
};
[[nodiscard]] Decoded<AerReqView> decode_aer_req(std::span<const std::byte> unit) noexcept;
[[nodiscard]] Decoded<CredReq> decode_cred_req(std::span<const std::byte> unit) noexcept;
[[nodiscard]] Decoded<TLogout> decode_t_logout(std::span<const std::byte> unit) noexcept;
[[nodiscard]] Decoded<TskMgmt> decode_tsk_mgmt(std::span<const std::byte> unit) noexcept;
/// I_LOGOUT, CRED_RSP, AER_RSP.
[[nodiscard]] Decoded<Short> decode_short(std::span<const std::byte> unit) noexcept;

// LUNs.

/// The 8 bytes that name LUN `lun` (up to 16383): peripheral addressing below 256, else flat space. SAM-5 4.7.
[[nodiscard]] std::uint64_t encode_lun(unsigned lun) noexcept;
/// Nothing where it is neither of the two, or has further levels.
[[nodiscard]] std::optional<unsigned> decode_lun(std::uint64_t bytes) noexcept;
inline constexpr unsigned max_lun = 16383;

}  // namespace mqblk::wire::srp
