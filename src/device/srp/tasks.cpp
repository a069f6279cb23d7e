// SPDX-License-Identifier: Apache-2.0
//
// Task management (SRP rev. 16a 5.9; SAM-5 chapter 7). A function is answered when what it ends has ended, in whichever
// channel and thread; what was ended has no answer of its own. A command is ended at once where it waits, else when the
// disk or the RDMA device lets go of it.
#include "device/srp/rdma_channel.h"
#include "device/srp/target.h"

#include <algorithm>
#include <cstring>

namespace mqblk::device::srp {

namespace asc = wire::scsi::asc;
using wire::srp::ResponseCode;
using wire::srp::TaskFunction;
using State = SrpCommand::State;

void RdmaChannel::take_task(SrpCommand& task, std::span<const std::byte> unit) noexcept {
    const auto request = wire::srp::decode_tsk_mgmt(unit);
    if (!request) return answer_task(task, ResponseCode::invalid_fields);
    task.lun = request->lun;
    const auto unit_index = units_->find(request->lun);
    scsi::Nexus* const nexus = unit_index ? nexus_of(*unit_index) : nullptr;
    AbortOrder order{.lun = request->lun};
    bool of_channel = false, of_all = false;
    switch (static_cast<TaskFunction>(request->function)) {
        case TaskFunction::abort_task:
            order.tag = request->task_tag.value();
            of_channel = true;
            break;
        case TaskFunction::abort_task_set:
            break;
        case TaskFunction::clear_task_set:
        case TaskFunction::lun_reset:
            of_all = true;
            break;
        default:
            return answer_task(task, ResponseCode::not_supported);
    }
    if (nexus == nullptr) return answer_task(task, ResponseCode::failed);
    scsi::LogicalUnit& disk = nexus->unit();
    if (static_cast<TaskFunction>(request->function) == TaskFunction::lun_reset) {
        disk.reset(&nexus->initiator());
    } else if (of_all) {
        disk.attend_others(asc::commands_cleared_by_another_initiator, &nexus->initiator());
    }
    task.state = State::task;
    task.outcome = ResponseCode::success;
    order.ended = target_.make_task_token(*this, task.index, task.number);
    if (!of_channel) target_.abort_elsewhere(*this, order, of_all);
    abort_before(std::move(order), task.number);
}

void RdmaChannel::task_ended(unsigned index, std::uint64_t number) noexcept {
    SrpCommand& task = commands_[index];
    if (task.state == State::task && task.number == number) answer_task(task, task.outcome);
}

void RdmaChannel::answer_task(SrpCommand& task, ResponseCode code) noexcept {
    wire::srp::Rsp& answer = prepare_answer(task);
    auto* const data = reinterpret_cast<std::byte*>(&answer + 1);
    std::memset(data, 0, wire::srp::response_data_bytes);
    data[3] = static_cast<std::byte>(code);
    answer.flags = wire::srp::rsp_valid;
    answer.resp_data_len = wire::srp::response_data_bytes;
    send_answer(task, sizeof answer + wire::srp::response_data_bytes);
}

bool RdmaChannel::concerns(const PendingOrder& pending, const SrpCommand& command) noexcept {
    if (command.state == State::free || command.state == State::task || command.state == State::answering) return false;
    if (command.number >= pending.before || command.lun != pending.order.lun) return false;
    return !pending.order.tag || command.tag.value() == *pending.order.tag;
}

void RdmaChannel::abort_before(AbortOrder order, std::uint64_t before) noexcept {
    const PendingOrder pending{std::move(order), before};
    for (SrpCommand& command : commands_) {
        if (concerns(pending, command)) abort_command(command);
    }
    for (const auto& nexus : nexuses_) {
        if (nexus) nexus->drop_cancelled();
    }
    orders_.push_back(pending);
    look_at_orders();
}

/// Another initiator has preempted this one.
void RdmaChannel::abort_unit(unsigned unit) noexcept {
    abort(AbortOrder{.lun = wire::srp::encode_lun(units_->entries()[unit].lun)});
}

void RdmaChannel::abort_command(SrpCommand& command) noexcept {
    if (command.state == State::answering || command.aborted) return;
    command.aborted = true;
    switch (command.state) {
        case State::waiting_table:
            worker_->tables().shares().cancel(command.table_request);
            return end_silently(command);
        case State::waiting_data:
            worker_->data().shares().cancel(command.data_request);
            return end_silently(command);
        case State::executing:
            if (!command.absent) nexuses_[command.unit]->cancel(command.core);
            return;
        default:
            // In the RDMA device, or in the line for it: its completions, or its turn, come.
            return;
    }
}

/// Those of which nothing is left.
void RdmaChannel::look_at_orders() noexcept {
    std::vector<std::shared_ptr<void>> ended;  // their end may call back
    std::erase_if(orders_, [&](PendingOrder& pending) {
        const bool left =
            std::ranges::any_of(commands_, [&](const auto& command) { return concerns(pending, command); });
        if (!left) ended.push_back(std::move(pending.order.ended));
        return !left;
    });
}

}  // namespace mqblk::device::srp
