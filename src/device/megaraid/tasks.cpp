// SPDX-License-Identifier: Apache-2.0
//
// Task management. What is to be ended ends first, with replies of its own, and the request is answered after that: so
// a driver that has the answer has the replies; and it comes a pass later, so that the driver has been interrupted for
// them before it is for the answer. What a disk is working on is waited for.
#include "device/megaraid/controller.h"
#include "wire/megaraid_mpi.h"

#include <algorithm>
#include <bit>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

void Controller::take_task(Slot& slot, const ScsiIoRequest& request) noexcept {
    const auto task = std::bit_cast<TaskRequest>(request);
    if (const auto wrong = faults_.take(FaultKind::wrong_abort, counters_.requests)) [[unlikely]]
        return answer_task(slot, wrong->response);
    if (!options_.task_management) return answer_task(slot, TaskResponse::not_supported);
    if (!std::ranges::all_of(task.lun, [](std::uint8_t b) { return b == 0; }))
        return answer_task(slot, TaskResponse::invalid_lun);
    slot.task.target = (task.flags & task_for_ld) != 0 ? topology_.volume(task.dev_handle)
                                                       : topology_.by_handle(task.dev_handle).target;
    if (slot.task.target == nullptr) return answer_task(slot, TaskResponse::invalid_frame);
    switch (static_cast<TaskType>(task.task_type)) {
        case TaskType::abort_task:
        case TaskType::query_task: {
            Slot* const found = slots_.find(task.task_smid);
            const bool there = found != nullptr && found != &slot && found->state != SlotState::free &&
                               found->target == slot.task.target;
            if (static_cast<TaskType>(task.task_type) == TaskType::query_task)
                return answer_task(slot, there ? TaskResponse::succeeded : TaskResponse::complete);
            slot.task.smid = task.task_smid;
            slot.task.waits = true;
            ++tasks_waiting_;
            slot.state = SlotState::pended;
            if (there) abort_command(*found);
            break;
        }
        case TaskType::abort_task_set:
        case TaskType::target_reset:
        case TaskType::logical_unit_reset:
            slot.task.waits = true;
            ++tasks_waiting_;
            slot.state = SlotState::pended;
            slots_.for_each_used([this, &slot](Slot& each) {
                if (each.target == slot.task.target) abort_command(each);
            });
            break;
        default:
            return answer_task(slot, TaskResponse::not_supported);
    }
    look_at_tasks_ = true;
}

/// Ends an I/O as failed, now or when its disk lets go of it.
void Controller::abort_command(Slot& slot) noexcept {
    if (slot.aborted) return;
    slot.aborted = true;
    ++counters_.aborted;
    slot.command.transferred = 0;
    switch (slot.state) {
        case SlotState::waiting:
            copy_pool_->cancel(slot.data.copy);
            return tell(slot);
        case SlotState::delayed:
            delayed_.remove(slot);
            return tell(slot);
        case SlotState::lost:
            return tell(slot);
        default:
            return;  // finish() sees it
    }
}

void Controller::look_at_tasks() noexcept {
    look_at_tasks_ = false;
    slots_.for_each_used([this](Slot& slot) {
        if (!slot.task.waits) return;
        bool there = false;
        if (slot.task.smid != 0) {
            const Slot* const found = slots_.find(slot.task.smid);
            there = found != nullptr && found != &slot && found->state != SlotState::free && found->aborted;
        } else {
            slots_.for_each_used([&](const Slot& each) { there |= each.target == slot.task.target && each.aborted; });
        }
        if (there) return;
        slot.task.waits = false;
        --tasks_waiting_;
        answer_task(slot, TaskResponse::complete);
    });
}

void Controller::answer_task(Slot& slot, TaskResponse response) noexcept {
    TaskReply reply;
    reply.function = static_cast<std::uint8_t>(Function::task_management);
    reply.msg_length = sizeof reply / 4;
    reply.response = static_cast<std::uint8_t>(response);
    if (!host_->memory().store(slot.frame + task_reply_offset, reply)) {
        return breach(slot, "MegaRAID model: a request frame is not mapped any more");
    }
    post_reply(slot);
}

}  // namespace mqblk::device::megaraid
