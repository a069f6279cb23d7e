// SPDX-License-Identifier: Apache-2.0
//
// A command between its capsule and its response: memory for its data, the core, and the answer. Whoever waits for
// memory waits in order; whoever holds some waits for nobody but the host and the backend. A slot is free again when
// its last PDU was sent. NVM Express TCP Transport Specification 1.0, section 3.3.2.
#include "device/nvme/tcp_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mqblk::device::nvme {

using memory::BufferPool;
using memory::BufferRequest;
using State = TcpCommand::State;

// Commands that the core has not begun, in no order: what is given up when the connection ends.
void TcpQueue::list(TcpCommand& command) noexcept {
    command.previous = nullptr;
    command.next = unbegun_;
    if (unbegun_ != nullptr) unbegun_->previous = &command;
    unbegun_ = &command;
}

void TcpQueue::unlist(TcpCommand& command) noexcept {
    (command.previous != nullptr ? command.previous->next : unbegun_) = command.next;
    if (command.next != nullptr) command.next->previous = command.previous;
}

void TcpQueue::want_buffer(TcpCommand& command) noexcept {
    command.from_reserve =
        (!connected_ || core_->queue_id() == 0) && command.plan.bytes <= TcpWorker::reserve_block_bytes;
    command.buffer.bytes = command.plan.bytes;
    command.buffer.ready = buffer_ready;
    command.buffer.context = &command;
    TcpHostShare& share = host_share_ ? *host_share_ : own_share_;
    command.buffer.account = command.from_reserve ? &share.reserve : &share.buffers;
    switch (worker_.shares(command.from_reserve).get(command.buffer)) {
        case BufferPool::Grant::granted:
            have_memory(command);
            break;
        case BufferPool::Grant::waiting:
            command.state = State::waiting;
            list(command);
            break;
        case BufferPool::Grant::too_large:
            core_->abandon(command.core);
            reject(command, wire::nvme::status::internal_error);
            respond(command);
            break;
    }
}

bool TcpQueue::abort(std::uint16_t command_id) noexcept {
    for (TcpCommand* command = unbegun_; command != nullptr; command = command->next) {
        if (command->state != State::waiting || command->core.command.command_id != command_id) continue;
        unlist(*command);
        worker_.shares(command->from_reserve).cancel(command->buffer);
        core_->abandon(command->core);
        reject(*command, wire::nvme::status::aborted_by_request);
        respond(*command);
        return true;
    }
    return false;
}

void TcpQueue::buffer_ready(BufferRequest& request) noexcept {
    TcpCommand& command = *static_cast<TcpCommand*>(request.context);
    TcpQueue& queue = *command.queue;
    command.state = State::receiving;  // no longer waiting
    if (queue.ending_) return;         // it is given up with the others, buffer and all
    queue.unlist(command);
    queue.have_memory(command);
    queue.activate();
}

// The command's data have a place: a buffer, or what the core lent.
void TcpQueue::have_memory(TcpCommand& command) noexcept {
    const Segment arrived = command.segment;
    command.segment = command.plan.lent ? command.core.direct : Segment{command.buffer.data, command.plan.bytes};
    if (command.held != nullptr) {
        std::memcpy(command.segment.data, arrived.data, arrived.bytes);
        stream_.release(std::exchange(command.held, nullptr));
        execute(command);
    } else if (command.plan.direction == Direction::to_host) {
        execute(command);
    } else {
        command.state = State::receiving;
        list(command);
        request_data(command);
    }
}

void TcpQueue::execute(TcpCommand& command) noexcept {
    command.state = State::executing;
    command.core.data = command.plan.bytes > 0 ? Segments{&command.segment, 1} : Segments{};
    command.on_loan = command.plan.lent && command.plan.direction == Direction::to_host;
    core_->execute(command.core);
}

// The command ends with `status`, found by the transport. It was abandoned; the caller responds.
void TcpQueue::reject(TcpCommand& command, std::uint16_t status) noexcept {
    wire::nvme::set_status(command.core.completion, status);
    command.state = State::refused;
}

void TcpQueue::responded(TargetCommand& core) noexcept {
    TcpCommand& command = *static_cast<TcpCommand*>(core.transport);
    command.queue->respond(command);
}

std::uint32_t TcpQueue::answer_bytes(const TcpCommand& command) noexcept {
    const bool data =
        command.plan.direction == Direction::to_host && wire::nvme::status_of(command.core.completion) == 0;
    return data ? command.plan.bytes : 0;
}

void TcpQueue::respond(TcpCommand& command) noexcept {
    if (std::exchange(command.parked, false)) --parked_;
    if (!connected_ && core_->connected()) note_connected();
    if (resting_) activate();
    command.state = State::sending;
    const wire::nvme::Completion& completion = command.core.completion;
    const Plan& plan = command.plan;
    ++so_far_.answers;
    if (answer_bytes(command) > 0) {
        so_far_.bytes += plan.bytes;
        const bool success = !core_->flow_control() && completion.result == 0;
        wire::nvme_tcp::C2HData header;
        header.cccid = completion.command_id;
        for (std::uint32_t offset = 0; offset < plan.bytes;) {
            const std::uint32_t piece = std::min(plan.bytes - offset, c2h_data_bytes);
            const bool last = offset + piece == plan.bytes;
            header.datao = offset;
            header.datal = piece;
            const unsigned flags = !last     ? 0
                                   : success ? wire::nvme_tcp::flag_last | wire::nvme_tcp::flag_success
                                             : wire::nvme_tcp::flag_last;
            stream_.send(header, static_cast<std::uint8_t>(flags), {{&command.segment, 1}, offset, piece},
                         last && success ? sent : nullptr, &command);
            offset += piece;
        }
        if (success) return;
    }
    wire::nvme_tcp::CapsuleResp response;
    response.completion = completion;
    stream_.send(response, 0, {}, sent, &command);
}

void TcpQueue::sent(void* context) noexcept {
    TcpCommand& command = *static_cast<TcpCommand*>(context);
    ++command.queue->so_far_.answers_taken;
    command.queue->so_far_.bytes -= answer_bytes(command);
    command.queue->free(command);
}

void TcpQueue::free(TcpCommand& command) noexcept {
    if (command.held != nullptr) stream_.release(command.held);
    if (command.on_loan) core_->release(command.core);
    std::byte* const data = command.buffer.data;
    const std::size_t bytes = command.buffer.bytes;
    memory::BufferShares& shares = worker_.shares(command.from_reserve);
    memory::BufferAccount* const account = command.buffer.account;
    --commands_;
    worker_.commands.give(&command);
    if (data != nullptr) shares.put(*account, data, bytes);  // last: others, of any queue, may begin within
}

}  // namespace mqblk::device::nvme
