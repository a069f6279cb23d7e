// SPDX-License-Identifier: Apache-2.0
//
// Fabrics commands but for Connect's execution: what may come when, Property Get and Set, Disconnect. NVMe over Fabrics
// 1.1, section 3.
#include "wire/nvme_fabrics.h"

#include "device/nvme/commands.h"
#include "device/nvme/queue_core.h"

#include <bit>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
namespace type = wire::nvme::fabrics_type;
namespace property = wire::nvme::property;
using wire::nvme::Command;
using wire::nvme::PropertyCommand;

namespace {

Plan plan_connect(QueueCore& queue, TargetCommand& command) noexcept {
    if (queue.controller() != nullptr) {
        return queue.refuse(command, status::permanent(status::command_sequence_error));
    }
    // Its data is in the capsule: no peer makes us ask for data before it has said who it is.
    const std::uint8_t sgl = command.command.data.type;
    if (sgl == wire::nvme::sgl_transport_data) {
        return queue.refuse(command, status::permanent(status::sgl_invalid_type));
    }
    return queue.admit(command, Direction::to_controller, sizeof(wire::nvme::ConnectData));
}

std::uint16_t property_get(const Controller& controller, const PropertyCommand& sqe, le64& result) noexcept {
    const bool eight_bytes = (sqe.attributes & 7) == 1;
    if ((sqe.attributes & 7) > 1 || eight_bytes != (sqe.offset == property::cap)) {
        return status::permanent(status::invalid_field);
    }
    switch (sqe.offset) {
        case property::cap:
            result = controller.capabilities();
            break;
        case property::vs:
            result = wire::nvme::version_1_4;
            break;
        case property::cc:
            result = controller.configuration();
            break;
        case property::csts:
            result = controller.status_register();
            break;
        default:
            return status::permanent(status::invalid_field);
    }
    return status::success;
}

std::uint16_t property_set(Controller& controller, const PropertyCommand& sqe) noexcept {
    if ((sqe.attributes & 7) != 0 || sqe.offset != property::cc) return status::permanent(status::invalid_field);
    controller.configure(static_cast<std::uint32_t>(sqe.value));
    return status::success;
}

}  // namespace

Plan plan_fabrics(QueueCore& queue, TargetCommand& command) noexcept {
    const Command& sqe = command.command;
    if (sqe.flags != wire::nvme::flag_psdt_sgl) {
        return queue.refuse(command, status::permanent(status::invalid_field));
    }
    const std::uint8_t kind = wire::nvme::fabrics_type_of(sqe);
    if (kind == type::connect) return plan_connect(queue, command);
    if (queue.controller() == nullptr) {
        return queue.refuse(command, status::permanent(status::command_sequence_error));
    }
    switch (kind) {
        case type::property_get:
        case type::property_set:
            if (queue.queue_id() != 0) break;
            return queue.admit(command, Direction::none, 0);
        case type::disconnect:
            if (queue.queue_id() == 0) break;
            return queue.admit(command, Direction::none, 0);
        default:
            return queue.refuse(command, status::permanent(status::invalid_field));
    }
    return queue.refuse(command, status::permanent(status::fabrics_invalid_queue_type));
}

void execute_fabrics(QueueCore& queue, TargetCommand& command) noexcept {
    switch (wire::nvme::fabrics_type_of(command.command)) {
        case type::connect:
            return execute_connect(queue, command);
        case type::disconnect:
            // The queue is none any more; the host closes the connection.
            queue.detach();
            return queue.complete(command, status::success);
        default:
            break;
    }
    const auto& sqe = std::bit_cast<PropertyCommand>(command.command);
    if (queue.controller() == nullptr) return queue.complete(command, status::aborted_queue_deleted);
    const bool get = sqe.type == type::property_get;
    queue.complete(command, get ? property_get(*queue.controller(), sqe, command.completion.result)
                                : property_set(*queue.controller(), sqe));
}

}  // namespace mqblk::device::nvme
