// SPDX-License-Identifier: Apache-2.0
//
// PDUs from the host. A capsule becomes a command: in-capsule data stay where they arrived, other data are asked for by
// R2T, and every H2CData PDU must be exactly the next piece of one such request. NVM Express TCP Transport
// Specification 1.0, sections 3.3.1 (initialization), 3.3.2 (data transfer), 3.5 (errors).
#include "device/nvme/tcp_queue.h"

#include <algorithm>
#include <utility>

namespace mqblk::device::nvme {

using fabric::NvmeTcpPdu;
using fabric::NvmeTcpStream;
using fabric::Placement;
using wire::nvme_tcp::FatalStatus;
using wire::nvme_tcp::PduType;

Placement TcpQueue::on_pdu(const NvmeTcpPdu& pdu) noexcept {
    so_far_.pdus += pdu.shape.data_bytes == 0 ? 1 : 0;
    if (ending_) return {};
    switch (pdu.shape.type) {
        case PduType::capsule_cmd:
            return begin(pdu);
        case PduType::h2c_data:
            return begin_transfer(pdu);
        case PduType::ic_req:
            return initialize(pdu.as<wire::nvme_tcp::IcReq>());
        default:
            end("the host terminated the connection");
            return {};
    }
}

void TcpQueue::on_data(const NvmeTcpPdu& pdu, std::byte* in_place, bool digest_ok) noexcept {
    ++so_far_.pdus;
    if (ending_ || current_ == nullptr) return;
    TcpCommand& command = *std::exchange(current_, nullptr);
    if (pdu.shape.type == PduType::h2c_data) {
        transfer_data(transfers_[current_transfer_], pdu.shape.data_bytes, digest_ok);
    } else {
        capsule_data(command, in_place, digest_ok);
    }
}

Placement TcpQueue::initialize(const wire::nvme_tcp::IcReq& request) noexcept {
    const bool header_digest = (request.dgst & wire::nvme_tcp::dgst_header) != 0 && worker_.options.header_digest;
    const bool data_digest = (request.dgst & wire::nvme_tcp::dgst_data) != 0 && worker_.options.data_digest;
    max_r2ts_ = std::min<std::uint32_t>(request.maxr2t, most_r2ts - 1) + 1;

    wire::nvme_tcp::PduRules rules = stream_.rules();
    rules.initialized = true;
    rules.header_digest = header_digest;
    rules.data_digest = data_digest;
    rules.max_data = worker_.options.max_h2c_data_bytes;
    stream_.set_rules(rules);
    stream_.set_transmit(header_digest, data_digest, 4 * (request.hpda + 1u));
    core_.emplace(worker_.target, worker_.reactor, worker_.port_id, static_cast<TargetQueue::Events&>(*this),
                  !data_digest);
    core_->set_peer(stream_.connection().peer());

    wire::nvme_tcp::IcResp response;
    response.dgst = static_cast<std::uint8_t>((header_digest ? wire::nvme_tcp::dgst_header : 0) |
                                              (data_digest ? wire::nvme_tcp::dgst_data : 0));
    response.maxh2cdata = rules.max_data;
    stream_.send(response);
    return {};
}

Placement TcpQueue::begin(const NvmeTcpPdu& pdu) noexcept {
    if (commands_ >= std::min<std::uint32_t>(core_->depth(), max_transfers)) {
        return Placement::refused({FatalStatus::sequence_error, 0, "more commands than the queue has entries"});
    }
    TcpCommand* const slot = worker_.commands.take();
    if (slot == nullptr) {
        end("no memory for a command");
        return {};
    }
    ++commands_;
    TcpCommand& command = *slot;
    command.queue = this;
    command.core.command = pdu.as<wire::nvme_tcp::CapsuleCmd>().command;
    command.core.respond = responded;
    command.core.transport = slot;
    command.plan = core_->plan(command.core);
    command.parked = command.core.command.opcode == wire::nvme::admin_opcode::async_event_request && connected_ &&
                     core_->queue_id() == 0;
    parked_ += command.parked ? 1 : 0;

    const Plan& plan = command.plan;
    const std::uint32_t bytes = pdu.shape.data_bytes;
    const bool in_capsule = plan.direction == Direction::to_controller && plan.bytes > 0 &&
                            command.core.command.data.type == wire::nvme::sgl_in_capsule;
    if (plan.status == 0 && bytes != (in_capsule ? plan.bytes : 0)) {
        core_->abandon(command.core);
        reject(command, wire::nvme::status::sgl_invalid_data_length | wire::nvme::status::do_not_retry);
        if (bytes == 0) respond(command);
    } else if (plan.status != 0) {
        command.state = TcpCommand::State::refused;
        if (bytes == 0) respond(command);
    } else if (bytes > 0) {
        command.state = TcpCommand::State::receiving;
        list(command);
    } else if (plan.bytes == 0) {
        execute(command);
    } else if (plan.lent) {
        have_memory(command);
    } else {
        want_buffer(command);
    }
    if (bytes == 0) return {};

    current_ = slot;  // refused commands are responded to when their data are out of the way
    if (command.state == TcpCommand::State::refused) return {.kind = Placement::discard};
    if (!plan.lent) return {.kind = Placement::in_place};
    command.segment = command.core.direct;
    return Placement::into({&command.segment, 1});
}

void TcpQueue::capsule_data(TcpCommand& command, std::byte* in_place, bool digest_ok) noexcept {
    if (command.state == TcpCommand::State::refused) {
        respond(command);
        return;
    }
    unlist(command);
    if (!digest_ok) {
        core_->abandon(command.core);
        reject(command, wire::nvme::status::data_transfer_error);
        respond(command);
        return;
    }
    if (in_place != nullptr) {
        command.held = stream_.hold();
        command.segment = {in_place, command.plan.bytes};
        if ((reinterpret_cast<std::uintptr_t>(in_place) & command.plan.memory_mask) != 0) {
            want_buffer(command);  // the device cannot take them as they lie
            return;
        }
    }
    execute(command);
}

Placement TcpQueue::begin_transfer(const NvmeTcpPdu& pdu) noexcept {
    const auto& header = pdu.as<wire::nvme_tcp::H2CData>();
    const std::uint32_t index = header.ttag & (max_transfers - 1);
    if (index >= transfers_.size() || transfers_[index].command == nullptr ||
        transfers_[index].generation != header.ttag >> transfer_bits) {
        return Placement::refused({FatalStatus::sequence_error, 0, "data for a transfer tag that is not outstanding"});
    }
    const Transfer& transfer = transfers_[index];
    TcpCommand& command = *transfer.command;
    if (header.cccid != command.core.command.command_id) {
        return Placement::refused({FatalStatus::invalid_header_field, 8, "data for another command than their tag's"});
    }
    if (header.datao != transfer.offset + transfer.received) {
        return Placement::refused({FatalStatus::out_of_range, 12, "data offset is not the next byte asked for"});
    }
    const std::uint32_t left = transfer.bytes - transfer.received;
    if (header.datal > left) {
        return Placement::refused({FatalStatus::out_of_range, 16, "more data than asked for"});
    }
    if (pdu.shape.last() != (header.datal == left)) {
        return Placement::refused({FatalStatus::invalid_header_field, 1, "LAST_PDU does not fit the data sent"});
    }
    current_ = &command;
    current_transfer_ = index;
    return Placement::into({&command.segment, 1}, header.datao);
}

void TcpQueue::transfer_data(Transfer& transfer, std::uint32_t bytes, bool digest_ok) noexcept {
    TcpCommand& command = *transfer.command;
    command.digest_error |= !digest_ok;
    so_far_.bytes -= bytes;
    transfer.received += bytes;
    command.received += bytes;
    if (transfer.received < transfer.bytes) return;
    give_transfer(transfer);
    --command.r2ts;
    if (command.received < command.plan.bytes) {
        request_data(command);
        return;
    }
    unlist(command);
    if (command.digest_error) {
        core_->abandon(command.core);
        reject(command, wire::nvme::status::data_transfer_error);
        respond(command);
        return;
    }
    execute(command);
}

// One R2T for as much as can be where the host takes no more than one, else several at once. Commands times R2Ts never
// exceed the table of transfers. None asks for more than fits one PDU: Linux before 5.18 does not know MAXH2CDATA and
// answers each R2T with one PDU.
void TcpQueue::request_data(TcpCommand& command) noexcept {
    const std::uint32_t most = std::clamp(max_transfers / std::max<std::uint32_t>(core_->depth(), 1), 1u, max_r2ts_);
    const std::uint32_t longest = worker_.options.max_h2c_data_bytes;
    const std::uint32_t piece = most > 1 ? std::min(r2t_bytes, longest) : longest;
    while (command.requested < command.plan.bytes && command.r2ts < most) {
        const std::uint32_t index = take_transfer();
        Transfer& transfer = transfers_[index];
        transfer.command = &command;
        transfer.offset = command.requested;
        transfer.bytes = std::min(piece, command.plan.bytes - command.requested);
        transfer.received = 0;
        transfer.number = so_far_.asked++;
        so_far_.bytes += transfer.bytes;
        wire::nvme_tcp::R2T request;
        request.cccid = command.core.command.command_id;
        request.ttag = static_cast<std::uint16_t>(transfer.generation << transfer_bits | index);
        request.r2to = transfer.offset;
        request.r2tl = transfer.bytes;
        command.requested += transfer.bytes;
        ++command.r2ts;
        stream_.send(request);
    }
    guard_progress();
}

std::uint32_t TcpQueue::take_transfer() noexcept {
    if (free_transfer_ == transfers_.size()) {
        transfers_.emplace_back();
        transfers_.back().next_free = static_cast<std::uint32_t>(transfers_.size());
    }
    const std::uint32_t index = free_transfer_;
    free_transfer_ = transfers_[index].next_free;
    ++transfers_used_;
    return index;
}

void TcpQueue::give_transfer(Transfer& transfer) noexcept {
    transfer.command = nullptr;
    transfer.generation = (transfer.generation + 1) & (0xffff >> transfer_bits);
    transfer.next_free = free_transfer_;
    free_transfer_ = static_cast<std::uint32_t>(&transfer - transfers_.data());
    --transfers_used_;
}

}  // namespace mqblk::device::nvme
