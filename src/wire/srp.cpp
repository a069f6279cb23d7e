// SPDX-License-Identifier: Apache-2.0
#include "wire/srp.h"

#include <cstring>

namespace mqblk::wire::srp {

namespace {

template <class T>
Decoded<T> take_unit(std::span<const std::byte> unit, Opcode opcode) noexcept {
    if (unit.size() < sizeof(T)) return std::unexpected("it is too short");
    T result;
    std::memcpy(static_cast<void*>(&result), unit.data(), sizeof result);
    if (result.opcode != static_cast<std::uint8_t>(opcode)) return std::unexpected("it has another opcode");
    return result;
}

/// Takes one direction's descriptors from the front of `rest`, which reaches to the end of the unit's descriptors.
Decoded<DataDescription> take_descriptors(std::span<const std::byte>& rest, unsigned format, unsigned count) noexcept {
    DataDescription result;
    result.format = static_cast<DescriptorFormat>(format);
    switch (result.format) {
        case DescriptorFormat::none:
            return result;
        case DescriptorFormat::direct:
            if (rest.size() < sizeof(Descriptor)) return std::unexpected("its descriptor is beyond its end");
            result.descriptors = rest.first(sizeof(Descriptor));
            result.bytes = result.descriptor(0).bytes;
            rest = rest.subspan(sizeof(Descriptor));
            return result;
        case DescriptorFormat::indirect: {
            const std::size_t list_bytes = std::size_t{count} * sizeof(Descriptor);
            if (rest.size() < sizeof(IndirectHeader) + list_bytes)
                return std::unexpected("its list of descriptors is beyond its end");
            IndirectHeader header;
            std::memcpy(static_cast<void*>(&header), rest.data(), sizeof header);
            result.table = header.table;
            result.bytes = header.data_bytes;
            result.descriptors = rest.subspan(sizeof header, list_bytes);
            if (header.table.bytes % sizeof(Descriptor) != 0)
                return std::unexpected("its table of descriptors is no multiple of 16 bytes");
            result.table_descriptors = static_cast<std::uint32_t>(header.table.bytes / sizeof(Descriptor));
            if (result.table_descriptors < count)
                return std::unexpected("it has more descriptors than its table of them");
            std::uint64_t sum = 0;
            for (std::uint32_t i = 0; i < count; ++i) sum += result.descriptor(i).bytes;
            if (sum > result.bytes || (!result.external() && sum != result.bytes))
                return std::unexpected("its descriptors are not of the length that it states");
            rest = rest.subspan(sizeof header + list_bytes);
            return result;
        }
        case DescriptorFormat::immediate:
            break;
    }
    return std::unexpected("its descriptor format is unknown");
}

Decoded<DataDescription> take_immediate(std::span<const std::byte> unit, std::size_t descriptors_at,
                                        std::optional<std::uint16_t> offset) noexcept {
    if (!offset) return std::unexpected("it has immediate data, which were not agreed on");
    if (unit.size() < descriptors_at + sizeof(ImmediateHeader))
        return std::unexpected("its descriptor is beyond its end");
    ImmediateHeader header;
    std::memcpy(static_cast<void*>(&header), unit.data() + descriptors_at, sizeof header);
    if (*offset < descriptors_at + sizeof header) return std::unexpected("its descriptor reaches into immediate data");
    if (unit.size() < *offset || unit.size() - *offset < header.bytes)
        return std::unexpected("it has fewer immediate data than it states");
    DataDescription result;
    result.format = DescriptorFormat::immediate;
    result.bytes = header.bytes;
    result.immediate = unit.subspan(*offset, header.bytes);
    return result;
}

}  // namespace

std::optional<Opcode> opcode_of(std::span<const std::byte> unit) noexcept {
    if (unit.empty()) return {};
    return static_cast<Opcode>(unit[0]);
}

Decoded<LoginReq> decode_login_req(std::span<const std::byte> private_data, bool rdma_cm) noexcept {
    if (!rdma_cm) return take_unit<LoginReq>(private_data, Opcode::login_req);
    const auto from = take_unit<LoginReqRdma>(private_data, Opcode::login_req);
    if (!from) return std::unexpected(from.error());
    LoginReq result;
    result.tag = from->tag;
    result.req_it_iu_len = from->req_it_iu_len;
    result.req_buf_fmt = from->req_buf_fmt;
    result.req_flags = from->req_flags;
    result.imm_data_offset = from->imm_data_offset;
    result.initiator_port = from->initiator_port;
    result.target_port = from->target_port;
    return result;
}

LoginReqRdma to_rdma_cm(const LoginReq& from) noexcept {
    LoginReqRdma result;
    result.tag = from.tag;
    result.req_buf_fmt = from.req_buf_fmt;
    result.req_flags = from.req_flags;
    result.req_it_iu_len = from.req_it_iu_len;
    result.initiator_port = from.initiator_port;
    result.target_port = from.target_port;
    result.imm_data_offset = from.imm_data_offset;
    return result;
}

Decoded<LoginRsp> decode_login_rsp(std::span<const std::byte> private_data) noexcept {
    return take_unit<LoginRsp>(private_data, Opcode::login_rsp);
}

Decoded<LoginRej> decode_login_rej(std::span<const std::byte> private_data) noexcept {
    return take_unit<LoginRej>(private_data, Opcode::login_rej);
}

std::string_view to_words(RejectReason reason) noexcept {
    switch (reason) {
        case RejectReason::unable_to_establish:
            return "it cannot establish the channel";
        case RejectReason::insufficient_resources:
            return "it has too few resources left";
        case RejectReason::iu_too_large:
            return "the information units asked for are too large for it";
        case RejectReason::unable_to_associate:
            return "it has no such target port";
        case RejectReason::unsupported_format:
            return "it does not support the data buffer descriptor formats asked for";
        case RejectReason::multichannel_unsupported:
            return "it does not support several channels";
        case RejectReason::channel_limit:
            return "it allows this initiator no further channel, or none at all";
    }
    return "for a reason that the standard does not know";
}

Descriptor DataDescription::descriptor(std::uint32_t index) const noexcept {
    Descriptor result;
    std::memcpy(static_cast<void*>(&result), descriptors.data() + std::size_t{index} * sizeof(Descriptor),
                sizeof result);
    return result;
}

Decoded<CmdView> decode_cmd(std::span<const std::byte> unit, std::optional<std::uint16_t> immediate_offset) noexcept {
    const auto cmd = take_unit<Cmd>(unit, Opcode::cmd);
    if (!cmd) return std::unexpected(cmd.error());
    CmdView result{.cmd = *cmd, .additional_cdb = {}, .out = {}, .in = {}};
    const std::size_t additional = cmd->add_cdb_len & ~std::size_t{3};
    if (unit.size() - sizeof(Cmd) < additional)
        return std::unexpected("its command descriptor block is beyond its end");
    result.additional_cdb = unit.subspan(sizeof(Cmd), additional);
    auto rest = unit.subspan(sizeof(Cmd) + additional);
    const unsigned out_format = cmd->buf_fmt >> 4, in_format = cmd->buf_fmt & 0x0f;
    if (out_format == static_cast<unsigned>(DescriptorFormat::immediate)) {
        if (in_format != 0) return std::unexpected("it has immediate data and a data-in buffer");
        const auto out = take_immediate(unit, sizeof(Cmd) + additional, immediate_offset);
        if (!out) return std::unexpected(out.error());
        result.out = *out;
        return result;
    }
    const auto out = take_descriptors(rest, out_format, cmd->data_out_desc_cnt);
    if (!out) return std::unexpected(out.error());
    const auto in = take_descriptors(rest, in_format, cmd->data_in_desc_cnt);
    if (!in) return std::unexpected(in.error());
    result.out = *out;
    result.in = *in;
    return result;
}

Decoded<RspView> decode_rsp(std::span<const std::byte> unit) noexcept {
    const auto rsp = take_unit<Rsp>(unit, Opcode::rsp);
    if (!rsp) return std::unexpected(rsp.error());
    RspView result{.rsp = *rsp, .code = {}, .sense = {}};
    auto rest = unit.subspan(sizeof(Rsp));
    // Where a flag is clear its length counts for nothing: the data are not there.
    if ((rsp->flags & rsp_valid) != 0) {
        if (rest.size() < rsp->resp_data_len) return std::unexpected("its response data are beyond its end");
        if (rsp->resp_data_len >= response_data_bytes) result.code = static_cast<ResponseCode>(rest[3]);
        rest = rest.subspan(rsp->resp_data_len);
    }
    if ((rsp->flags & sense_valid) != 0) {
        if (rest.size() < rsp->sense_data_len) return std::unexpected("its sense data are beyond its end");
        result.sense = rest.first(rsp->sense_data_len);
    }
    return result;
}

Decoded<AerReqView> decode_aer_req(std::span<const std::byte> unit) noexcept {
    const auto aer = take_unit<AerReq>(unit, Opcode::aer_req);
    if (!aer) return std::unexpected(aer.error());
    if (unit.size() - sizeof(AerReq) < aer->sense_data_len) return std::unexpected("its sense data are beyond its end");
    return AerReqView{.aer = *aer, .sense = unit.subspan(sizeof(AerReq), aer->sense_data_len)};
}

Decoded<CredReq> decode_cred_req(std::span<const std::byte> unit) noexcept {
    return take_unit<CredReq>(unit, Opcode::cred_req);
}

Decoded<TLogout> decode_t_logout(std::span<const std::byte> unit) noexcept {
    return take_unit<TLogout>(unit, Opcode::t_logout);
}

Decoded<TskMgmt> decode_tsk_mgmt(std::span<const std::byte> unit) noexcept {
    return take_unit<TskMgmt>(unit, Opcode::tsk_mgmt);
}

Decoded<Short> decode_short(std::span<const std::byte> unit) noexcept {
    if (unit.size() < sizeof(Short)) return std::unexpected("it is too short");
    Short result;
    std::memcpy(static_cast<void*>(&result), unit.data(), sizeof result);
    return result;
}

std::uint64_t encode_lun(unsigned lun) noexcept {
    const std::uint64_t first_level = lun < 256 ? lun : 0x4000u | (lun & max_lun);
    return first_level << 48;
}

std::optional<unsigned> decode_lun(std::uint64_t bytes) noexcept {
    if ((bytes & 0xffffffffffffull) != 0) return {};
    const unsigned first_level = static_cast<unsigned>(bytes >> 48);
    if (first_level < 256) return first_level;
    if (first_level >> 14 == 1) return first_level & max_lun;
    return {};
}

}  // namespace mqblk::wire::srp
