// SPDX-License-Identifier: Apache-2.0
//
// What the target sends, held against what it was asked. A PDU that does not fit ends the connection with the fatal
// status of the specification; it never moves a byte outside the command it names.
#include "driver/nvme/tcp_queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mqblk::driver::nvme {

namespace tcp = wire::nvme_tcp;
using fabric::NvmeTcpPdu;
using fabric::Placement;
using tcp::FatalStatus;

namespace {

Placement refuse_pdu(FatalStatus fes, std::size_t field, const char* what) noexcept {
    return Placement::refused({fes, static_cast<std::uint32_t>(field), what});
}

constexpr std::size_t cccid_field = 8;

std::string_view name_of(FatalStatus fes) noexcept {
    switch (fes) {
        case FatalStatus::invalid_header_field:
            return "invalid PDU header field";
        case FatalStatus::sequence_error:
            return "PDU sequence error";
        case FatalStatus::header_digest_error:
            return "header digest error";
        case FatalStatus::out_of_range:
            return "data transfer out of range";
        case FatalStatus::limit_exceeded:
            return "data or R2T limit exceeded";
        case FatalStatus::unsupported_parameter:
            return "unsupported parameter";
    }
    return "unknown to NVMe/TCP 1.0";
}

/// "FES 1 (invalid PDU header field) at byte 8 of the PDU". TCP transport 1.0, section 3.6.2.5.
std::string describe_fatal(FatalStatus fes, std::uint32_t information) {
    const bool field = fes == FatalStatus::invalid_header_field || fes == FatalStatus::out_of_range ||
                       fes == FatalStatus::unsupported_parameter;
    return fmt::format(
        "FES {} ({}), {}", static_cast<unsigned>(fes), name_of(fes),
        field ? fmt::format("at byte {} of the PDU", information) : fmt::format("FEI {:#x}", information));
}

}  // namespace

TcpQueuePair::TcpQueuePair(std::unique_ptr<fabric::Connection> connection, QueuePairEvents& events, Terms terms)
    : events_(events),
      terms_(terms),
      stream_(std::move(connection), buffers_, *this, tcp::PduRules{.sender = tcp::Sender::controller}) {
    // Being called from a pass is all that is wanted of it: the owner polls in each.
    stream_.connection().on_ready([] {});
}

TcpQueuePair::~TcpQueuePair() {
    stream_.close();
}

void TcpQueuePair::initialize() noexcept {
    tcp::IcReq request{};
    request.dgst = static_cast<std::uint8_t>((terms_.header_digest ? tcp::dgst_header : 0) |
                                             (terms_.data_digest ? tcp::dgst_data : 0));
    request.maxr2t = max_r2t - 1;
    stream_.send(request);
    stream_.flush();
}

void TcpQueuePair::submit(Capsule& capsule) noexcept {
    if (lost()) return;
    tcp::CapsuleCmd pdu{};
    wire::nvme::Command& command = capsule.command();
    command.data = wire::nvme::Sgl{};
    command.data.length = capsule.bytes();
    command.data.type = wire::nvme::sgl_transport_data;
    // Connect comes before any agreement: its data always travel in the capsule (TCP transport 1.0, section 3.3.2.1).
    const bool fabrics = command.opcode == wire::nvme::admin_opcode::fabrics;
    const std::uint32_t most = fabrics ? tcp::admin_capsule_bytes : terms_.in_capsule_bytes;
    const bool in_capsule = capsule.transfer == Transfer::to_target && capsule.bytes() <= most;
    if (!in_capsule) {
        pdu.command = command;
        stream_.send(pdu);
        return;
    }
    command.data.type = wire::nvme::sgl_in_capsule;
    pdu.command = command;
    capsule.moved = capsule.bytes();
    capsule.unsent = 1;
    stream_.send(
        pdu, 0, {.segments = capsule.loop.data, .offset = 0, .bytes = capsule.bytes()},
        [](void* context) noexcept { --static_cast<Capsule*>(context)->unsent; }, &capsule);
}

void TcpQueuePair::commit() noexcept {
    if (stream_.unsent()) stream_.flush();
}

unsigned TcpQueuePair::poll() noexcept {
    if (lost()) return 0;
    completions_ = 0;
    const std::size_t received = stream_.receive();
    if (stream_.unsent()) stream_.flush();
    return completions_ > 0 ? completions_ : received > 0;
}

bool TcpQueuePair::prepare_sleep() noexcept {
    if (lost() || !stream_.open()) return false;
    stream_.connection().arm(false);
    if (stream_.blocked()) stream_.connection().arm(true);
    return true;
}

Parting TcpQueuePair::part() noexcept {
    lose("it was given up");
    Parting parting{stream_.take_connection(), ended_by_peer_};
    if (parting.connection) parting.connection->shutdown();
    return parting;
}

Placement TcpQueuePair::on_pdu(const NvmeTcpPdu& pdu) noexcept {
    receiving_ = nullptr;
    switch (pdu.shape.type) {
        case tcp::PduType::capsule_resp:
            return on_capsule_resp(pdu.as<tcp::CapsuleResp>());
        case tcp::PduType::c2h_data:
            return on_c2h_data(pdu);
        case tcp::PduType::r2t:
            return on_r2t(pdu.as<tcp::R2T>());
        case tcp::PduType::ic_resp:
            return on_ic_resp(pdu.as<tcp::IcResp>());
        case tcp::PduType::c2h_term_req:
            return on_term_req(pdu.as<tcp::TermReq>());
        default:
            return refuse_pdu(FatalStatus::invalid_header_field, 0, "a PDU that only a host sends");
    }
}

Placement TcpQueuePair::on_ic_resp(const tcp::IcResp& response) noexcept {
    const std::uint8_t asked = static_cast<std::uint8_t>((terms_.header_digest ? tcp::dgst_header : 0) |
                                                         (terms_.data_digest ? tcp::dgst_data : 0));
    if (initialized_) return refuse_pdu(FatalStatus::sequence_error, 0, "a second ICResp");
    if (response.pfv != 0) {
        return refuse_pdu(FatalStatus::unsupported_parameter, offsetof(tcp::IcResp, pfv), "an unknown PDU version");
    }
    if (response.dgst != asked) {
        return refuse_pdu(FatalStatus::unsupported_parameter, offsetof(tcp::IcResp, dgst),
                          (response.dgst & ~asked) != 0
                              ? "digests granted that were not asked for"
                              : "digests asked for that this target does not grant; leave out hdgst and ddgst");
    }
    if (response.cpda > 31) {
        return refuse_pdu(FatalStatus::unsupported_parameter, offsetof(tcp::IcResp, cpda), "CPDA above 31");
    }
    if (response.maxh2cdata < tcp::min_h2c_data_bytes || response.maxh2cdata % 4 != 0) {
        return refuse_pdu(FatalStatus::invalid_header_field, offsetof(tcp::IcResp, maxh2cdata),
                          "MAXH2CDATA below 4096 or not a multiple of 4");
    }
    max_h2c_bytes_ = response.maxh2cdata;
    tcp::PduRules rules = stream_.rules();
    rules.initialized = true;
    rules.header_digest = terms_.header_digest;
    rules.data_digest = terms_.data_digest;
    stream_.set_rules(rules);
    stream_.set_transmit(terms_.header_digest, terms_.data_digest, 4u * (response.cpda + 1u));
    initialized_ = true;
    return {};
}

Placement TcpQueuePair::on_capsule_resp(const tcp::CapsuleResp& response) noexcept {
    Capsule* const capsule = events_.find(response.completion.command_id);
    if (capsule == nullptr) {
        return refuse_pdu(FatalStatus::sequence_error, cccid_field + offsetof(wire::nvme::Completion, command_id),
                          "a response to a command that is not outstanding");
    }
    const bool ok = (wire::nvme::status_of(response.completion) & wire::nvme::status::code_mask) == 0;
    if (capsule->unsent > 0) {
        return refuse_pdu(FatalStatus::sequence_error, cccid_field, "a response before its command's data was sent");
    }
    if (ok && capsule->moved != capsule->bytes()) {
        return refuse_pdu(FatalStatus::sequence_error, cccid_field, "success before all data was transferred");
    }
    complete(*capsule, response.completion);
    return {};
}

Placement TcpQueuePair::on_c2h_data(const NvmeTcpPdu& pdu) noexcept {
    const auto& header = pdu.as<tcp::C2HData>();
    Capsule* const capsule = events_.find(header.cccid);
    if (capsule == nullptr || capsule->transfer != Transfer::to_host) {
        return refuse_pdu(FatalStatus::sequence_error, cccid_field, "data for no outstanding read");
    }
    if (header.datal != pdu.shape.data_bytes || header.datal == 0) {
        return refuse_pdu(FatalStatus::invalid_header_field, offsetof(tcp::C2HData, datal),
                          "DATAL that differs from the PDU's length");
    }
    if (header.datao != capsule->moved || capsule->last_data) {
        return refuse_pdu(FatalStatus::out_of_range, offsetof(tcp::C2HData, datao), "read data out of order");
    }
    if (header.datal > capsule->bytes() - capsule->moved) {
        return refuse_pdu(FatalStatus::out_of_range, offsetof(tcp::C2HData, datal), "more data than was asked for");
    }
    if (pdu.shape.success() && (!pdu.shape.last() || capsule->moved + header.datal != capsule->bytes())) {
        return refuse_pdu(FatalStatus::invalid_header_field, 1, "SUCCESS before the last data");
    }
    receiving_ = capsule;
    return Placement::into(capsule->cursor.rest(), capsule->cursor.offset());
}

void TcpQueuePair::on_data(const NvmeTcpPdu& pdu, std::byte*, bool digest_ok) noexcept {
    Capsule* const capsule = std::exchange(receiving_, nullptr);
    if (capsule == nullptr) return;
    const std::uint32_t bytes = pdu.shape.data_bytes;
    capsule->cursor.advance(bytes);
    capsule->moved += bytes;
    capsule->last_data = pdu.shape.last();
    if (!digest_ok) capsule->data_wrong = true;
    if (!pdu.shape.success()) return;
    wire::nvme::Completion completion{};
    completion.command_id = capsule->command().command_id;
    complete(*capsule, completion);
}

Placement TcpQueuePair::on_r2t(const tcp::R2T& r2t) noexcept {
    Capsule* const capsule = events_.find(r2t.cccid);
    if (capsule == nullptr || capsule->transfer != Transfer::to_target) {
        return refuse_pdu(FatalStatus::sequence_error, cccid_field, "R2T for no outstanding write");
    }
    if (r2t.r2to != capsule->moved) {
        return refuse_pdu(FatalStatus::out_of_range, offsetof(tcp::R2T, r2to), "R2T out of order");
    }
    if (r2t.r2tl == 0 || r2t.r2tl > capsule->bytes() - capsule->moved) {
        return refuse_pdu(FatalStatus::out_of_range, offsetof(tcp::R2T, r2tl), "R2T beyond the command's data");
    }
    if (capsule->unsent >= max_r2t) {
        return refuse_pdu(FatalStatus::limit_exceeded, cccid_field, "more R2Ts than agreed");
    }
    send_data(*capsule, r2t);
    return {};
}

void TcpQueuePair::send_data(Capsule& capsule, const tcp::R2T& r2t) noexcept {
    ++capsule.unsent;
    std::uint32_t left = r2t.r2tl;
    while (left > 0) {
        const std::uint32_t bytes = std::min(left, max_h2c_bytes_);
        tcp::H2CData pdu{};
        pdu.cccid = r2t.cccid;
        pdu.ttag = r2t.ttag;
        pdu.datao = capsule.moved;
        pdu.datal = bytes;
        const fabric::TxData data{.segments = capsule.cursor.rest(), .offset = capsule.cursor.offset(), .bytes = bytes};
        capsule.cursor.advance(bytes);
        capsule.moved += bytes;
        left -= bytes;
        if (left > 0) {
            stream_.send(pdu, 0, data);
        } else {
            stream_.send(
                pdu, tcp::flag_last, data, [](void* context) noexcept { --static_cast<Capsule*>(context)->unsent; },
                &capsule);
        }
    }
}

void TcpQueuePair::complete(Capsule& capsule, const wire::nvme::Completion& answer) noexcept {
    ++completions_;
    wire::nvme::Completion completion = answer;
    if (capsule.data_wrong) wire::nvme::set_status(completion, wire::nvme::status::data_transfer_error);
    events_.completed(capsule, completion);
}

Placement TcpQueuePair::on_term_req(const tcp::TermReq& request) noexcept {
    lose(fmt::format("the target ended the connection: {}",
                     describe_fatal(static_cast<FatalStatus>(request.fes.value()), request.fei)));
    return {};
}

void TcpQueuePair::on_violation(const tcp::Violation& violation) noexcept {
    lose(fmt::format("the target broke the protocol: {}: {}", violation.what,
                     describe_fatal(violation.fes, violation.fei)));
    stream_.flush();
}

void TcpQueuePair::on_closed(int error_number) noexcept {
    ended_by_peer_ = Drain::ended_by_peer(error_number);
    lose(error_number == 0 ? std::string("the target closed the connection")
                           : fmt::format("the connection failed: {}", std::strerror(error_number)));
}

}  // namespace mqblk::driver::nvme
