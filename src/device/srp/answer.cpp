// SPDX-License-Identifier: Apache-2.0
//
// Answers: status, sense, residuals and credits (SRP rev. 16a 5.8, 6.5). The receive that held a request is posted
// again before the answer gives its credit back.
#include "base/log.h"
#include "device/srp/rdma_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace mqblk::device::srp {

using wire::srp::ResponseCode;
using wire::srp::Rsp;
using State = SrpCommand::State;

namespace {

constexpr std::uint16_t invalid_field_in_unit = 0x0e03;

/// What is left of the initiator's buffer, or what it had too little of.
void set_residual(Rsp& answer, bool out, std::uint64_t given, std::uint64_t wanted, std::uint64_t moved) noexcept {
    const bool over = wanted > given;
    const std::uint64_t residual = over ? wanted - given : given - std::min(moved, given);
    if (residual == 0) return;
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(residual, UINT32_MAX));
    if (out) {
        answer.flags |= over ? wire::srp::data_out_overflow : wire::srp::data_out_underflow;
        answer.data_out_res_cnt = count;
    } else {
        answer.flags |= over ? wire::srp::data_in_overflow : wire::srp::data_in_underflow;
        answer.data_in_res_cnt = count;
    }
}

}  // namespace

Rsp& RdmaChannel::prepare_answer(SrpCommand& command) noexcept {
    Rsp& answer = *new (memory_.data() + answers_at_ + std::size_t{command.index} * answer_bytes) Rsp;
    answer.tag = command.tag;
    return answer;
}

/// The unit cannot be understood: said in SRP's words and, for initiators that do not look there, in SCSI's.
void RdmaChannel::refuse(SrpCommand& command, const char* why) noexcept {
    log_limited(why, fmt::format("SRP request of {} refused: {}", name(), why));
    release(command);
    Rsp& answer = prepare_answer(command);
    auto* const rest = reinterpret_cast<std::byte*>(&answer + 1);
    std::memset(rest, 0, wire::srp::response_data_bytes);
    rest[3] = static_cast<std::byte>(ResponseCode::invalid_fields);
    const auto sense =
        wire::scsi::build_fixed_sense({.key = wire::scsi::SenseKey::illegal_request, .code = invalid_field_in_unit});
    std::memcpy(rest + wire::srp::response_data_bytes, &sense, sizeof sense);
    answer.flags = wire::srp::rsp_valid | wire::srp::sense_valid;
    answer.status = static_cast<std::uint8_t>(wire::scsi::Status::check_condition);
    answer.resp_data_len = wire::srp::response_data_bytes;
    answer.sense_data_len = sizeof sense;
    send_answer(command, sizeof answer + wire::srp::response_data_bytes + sizeof sense);
}

void RdmaChannel::answer(SrpCommand& command) noexcept {
    if (command.works == 0) release(command);
    const scsi::Command& core = command.core;
    Rsp& answer = prepare_answer(command);
    answer.status = static_cast<std::uint8_t>(core.status);
    std::uint32_t bytes = sizeof answer;
    if (core.status == wire::scsi::Status::check_condition) {
        std::array<std::uint8_t, wire::scsi::descriptor_sense_bytes> sense;
        std::size_t sense_bytes = 0;
        if (core.nexus != nullptr) {
            sense_bytes = core.nexus->build_sense(core, sense);
        } else {
            const auto fixed = wire::scsi::build_fixed_sense(core.sense);
            std::memcpy(sense.data(), &fixed, sense_bytes = sizeof fixed);
        }
        std::memcpy(reinterpret_cast<std::byte*>(&answer + 1), sense.data(), sense_bytes);
        answer.flags |= wire::srp::sense_valid;
        answer.sense_data_len = static_cast<std::uint32_t>(sense_bytes);
        bytes += static_cast<std::uint32_t>(sense_bytes);
    }
    // Only what moves blocks wants exactly so much; a page is as long as it is.
    const scsi::Plan& plan = command.plan;
    const bool out = plan.direction == scsi::Direction::from_initiator;
    const bool in = plan.direction == scsi::Direction::to_initiator;
    const std::uint64_t wanted = plan.granule > 1 ? plan.bytes : 0;
    set_residual(answer, true, command.out_bytes, out ? wanted : 0, out ? core.transferred : 0);
    set_residual(answer, false, command.in_bytes, in ? wanted : 0, in ? core.transferred : 0);
    send_answer(command, bytes);
}

void RdmaChannel::send_answer(SrpCommand& command, std::uint32_t bytes) noexcept {
    if (ending_) return end_silently(command);
    post_receive(command.receive);
    const std::uint32_t credits = 1 + std::exchange(owed_credits_, 0);
    limit_ += credits;
    std::byte* const from = memory_.data() + answers_at_ + std::size_t{command.index} * answer_bytes;
    reinterpret_cast<Rsp*>(from)->req_lim_delta = credits;
    const fabric::rdma::LocalPiece piece{from, bytes, memory_key_};
    command.state = State::answering;
    if (queue_pair_->post_send(work_id(kind_answer, command.index), {&piece, 1})) [[likely]]
        return;
    end("its answers cannot be sent");
    command.state = State::delivering;
    command.aborted = true;
    if (command.works == 0) free(command);
}

/// It has no answer: its credit goes with another one.
void RdmaChannel::end_silently(SrpCommand& command) noexcept {
    if (command.works > 0 || command.queued) {  // memory is in use still
        command.aborted = true;
        command.state = State::delivering;
        return;
    }
    if (!ending_) {
        ++owed_credits_;
        post_receive(command.receive);
    }
    free(command);
}

void RdmaChannel::free(SrpCommand& command) noexcept {
    release(command);
    command.state = State::free;
    command.next = std::exchange(free_, &command);
    --used_;
    if (!orders_.empty()) look_at_orders();
}

/// Credits of what was aborted go with the next answer; when none is to come, with a request of the target's own.
void RdmaChannel::give_owed_credits() noexcept {
    if (owed_credits_ == 0 || used_ > 0 || request_open_ || ending_) return;
    auto* const from = memory_.data() + answers_at_ + commands_.size() * answer_bytes;
    auto& request = *new (from) wire::srp::CredReq;
    request.req_lim_delta = owed_credits_;
    const fabric::rdma::LocalPiece piece{from, sizeof request, memory_key_};
    if (!queue_pair_->post_send(work_id(kind_request, 0), {&piece, 1})) return end("its answers cannot be sent");
    limit_ += std::exchange(owed_credits_, 0);
    request_open_ = true;
}

}  // namespace mqblk::device::srp
