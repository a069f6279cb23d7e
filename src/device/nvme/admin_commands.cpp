// SPDX-License-Identifier: Apache-2.0
//
// Admin commands: which there are and what data they move, and the short ones whole: Abort, Keep Alive, Asynchronous
// Event Request. NVMe 1.4, section 5.
#include "device/nvme/commands.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/target_impl.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_logs.h"

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
namespace opcode = wire::nvme::admin_opcode;
using wire::nvme::Command;

namespace {

Plan plan_get_log_page(QueueCore& queue, TargetCommand& command) noexcept {
    const std::uint64_t bytes = wire::nvme::log_bytes_of(command.command);
    if (bytes > queue.target().limits.max_transfer_bytes) {
        return queue.refuse(command, status::permanent(status::invalid_field));
    }
    return queue.admit(command, Direction::to_host, static_cast<std::uint32_t>(bytes));
}

/// A feature that is not there is refused as that, whatever data a host asks to go with it.
Plan plan_features(QueueCore& queue, TargetCommand& command) noexcept {
    if (!has_feature(*queue.controller(), wire::nvme::feature_of(command.command))) {
        return queue.refuse(command, status::permanent(status::invalid_field));
    }
    const std::uint32_t bytes = feature_data_bytes(command.command);
    if (bytes == 0) return queue.admit(command, Direction::none, 0);
    const bool set = command.command.opcode == opcode::set_features;
    return queue.admit(command, set ? Direction::to_controller : Direction::to_host, bytes);
}

/// Section 5.1. Commands in a backend run to their end, which is near; only what waits for an event can be taken out.
void execute_abort(QueueCore& queue, TargetCommand& command) noexcept {
    constexpr std::uint32_t not_aborted = 1;
    const auto queue_id = static_cast<std::uint16_t>(command.command.cdw10 & 0xffff);
    const auto command_id = static_cast<std::uint16_t>(command.command.cdw10 >> 16);
    command.completion.result = not_aborted;
    if (queue_id == 0) {
        if (TargetCommand* const held = queue.controller()->events.take(command_id)) {
            command.completion.result = 0;
            queue.complete(*held, status::aborted_by_request);
        }
    }
    queue.complete(command, status::success);
}

void execute_keep_alive(QueueCore& queue, TargetCommand& command) noexcept {
    if (queue.controller()->keep_alive_ms() == 0) {
        return queue.complete(command, status::permanent(status::keep_alive_invalid));
    }
    queue.controller()->keep_alive_received();
    queue.complete(command, status::success);
}

}  // namespace

Plan plan_admin(QueueCore& queue, TargetCommand& command) noexcept {
    const Command& sqe = command.command;
    if (sqe.flags != wire::nvme::flag_psdt_sgl) {
        return queue.refuse(command, status::permanent(status::invalid_field));
    }
    const Controller& controller = *queue.controller();
    if (!controller.ready.load(std::memory_order_relaxed)) {
        return queue.refuse(command, status::permanent(status::command_sequence_error));
    }
    switch (sqe.opcode) {
        case opcode::identify:
            return queue.admit(command, Direction::to_host, static_cast<std::uint32_t>(wire::nvme::identify_bytes));
        case opcode::get_log_page:
            return plan_get_log_page(queue, command);
        case opcode::get_features:
        case opcode::set_features:
            return plan_features(queue, command);
        case opcode::abort:
            if (controller.subsystem->discovery) break;
            return queue.admit(command, Direction::none, 0);
        case opcode::async_event_request:
        case opcode::keep_alive:
            return queue.admit(command, Direction::none, 0);
        default:
            break;
    }
    return queue.refuse(command, status::permanent(status::invalid_opcode));
}

void execute_admin(QueueCore& queue, TargetCommand& command) noexcept {
    if (queue.controller() == nullptr) return queue.complete(command, status::aborted_queue_deleted);
    Controller& controller = *queue.controller();
    switch (command.command.opcode) {
        case opcode::identify:
            return queue.complete(command, identify(controller, command.command, command.data));
        case opcode::get_log_page:
            return queue.complete(command, get_log_page(controller, command.command, command.data));
        case opcode::get_features:
            return queue.complete(command, get_features(controller, command));
        case opcode::set_features:
            return queue.complete(command, set_features(controller, command));
        case opcode::abort:
            return execute_abort(queue, command);
        case opcode::keep_alive:
            return execute_keep_alive(queue, command);
        default:
            break;
    }
    if (!controller.events.hold(command)) {
        queue.complete(command, status::permanent(status::async_event_limit_exceeded));
    }
}

}  // namespace mqblk::device::nvme
