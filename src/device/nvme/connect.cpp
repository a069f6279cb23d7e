// SPDX-License-Identifier: Apache-2.0
//
// Connect: from a queue that nobody knows to a queue of a controller. NVMe over Fabrics 1.1, section 3.3. The checks
// come in the order of the fields' weight, and a refusal names the field that is wrong.
#include "base/log.h"
#include "device/nvme/commands.h"
#include "device/nvme/page_window.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/target_impl.h"
#include "wire/nvme_fabrics.h"

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <optional>
#include <string>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
using wire::nvme::ConnectCommand;
using wire::nvme::ConnectData;

namespace {

/// Why a Connect is refused: for people, a status and, for invalid parameters, where.
struct Refusal {
    std::string_view reason;
    std::uint16_t status;
    std::uint32_t where = 0;
};
using Verdict = std::optional<Refusal>;

Refusal invalid_data(std::string_view reason, std::size_t offset) noexcept {
    return {reason, status::permanent(status::connect_invalid_parameters), wire::nvme::connect_invalid_in_data(offset)};
}
Refusal invalid_command(std::string_view reason, std::size_t offset) noexcept {
    return {reason, status::permanent(status::connect_invalid_parameters),
            wire::nvme::connect_invalid_in_command(offset)};
}

struct Request {
    ConnectCommand sqe;
    ConnectData data;
    std::string host_nqn;
    std::shared_ptr<Subsystem> subsystem;
};

Verdict check(QueueCore& queue, Request& request) {
    const ConnectCommand& sqe = request.sqe;
    const ConnectData& data = request.data;
    if (sqe.record_format != 0) return Refusal{"unknown record format", status::permanent(status::connect_format)};
    if (sqe.queue_id == 0 && data.controller_id != wire::nvme::controller_id_dynamic) {
        return invalid_data("it asks for a controller by number", offsetof(ConnectData, controller_id));
    }
    const auto subsystem_nqn = wire::nvme::nqn_of(data.subsystem_nqn);
    if (!subsystem_nqn) return invalid_data("malformed subsystem NQN", offsetof(ConnectData, subsystem_nqn));
    request.subsystem = queue.target().find(*subsystem_nqn);
    if (!request.subsystem) return invalid_data("no such subsystem", offsetof(ConnectData, subsystem_nqn));
    const auto host_nqn = wire::nvme::nqn_of(data.host_nqn);
    if (!host_nqn) return invalid_data("malformed host NQN", offsetof(ConnectData, host_nqn));
    request.host_nqn = *host_nqn;
    if (!request.subsystem->allows(request.host_nqn)) {
        return Refusal{"the host is not allowed", status::permanent(status::connect_invalid_host),
                       wire::nvme::connect_invalid_in_data(offsetof(ConnectData, host_nqn))};
    }
    const AnnouncedLimits& limits = queue.target().limits;
    if (sqe.sq_size == 0 || sqe.sq_size >= limits.max_queue_entries) {
        return invalid_command("queue size out of range", offsetof(ConnectCommand, sq_size));
    }
    const unsigned last_queue = request.subsystem->discovery ? 0u : limits.max_io_queues;
    if (sqe.queue_id > last_queue) return invalid_command("queue id out of range", offsetof(ConnectCommand, queue_id));
    return std::nullopt;
}

void become(QueueCore& queue, const Request& request, std::shared_ptr<Controller> controller,
            std::shared_ptr<Instance> instance) noexcept {
    const bool flow_control = (request.sqe.attributes & wire::nvme::connect_disable_flow_control) == 0;
    queue.attach(std::move(controller), std::move(instance), request.sqe.queue_id,
                 static_cast<std::uint16_t>(request.sqe.sq_size + 1), flow_control);
}

Verdict connect_admin(QueueCore& queue, const Request& request) {
    const std::uint16_t id = request.subsystem->reserve_controller_id();
    if (id == wire::nvme::controller_id_dynamic)
        return Refusal{"no controller id is free", status::connect_controller_busy};
    Uuid host_id;
    std::copy(request.data.host_id.begin(), request.data.host_id.end(), host_id.begin());
    const std::uint64_t random = queue.reactor().random().next() | 1;  // not 0
    auto instance = request.subsystem->make_instance(id, random, request.host_nqn, host_id);
    auto controller = std::make_shared<Controller>(
        queue.target(), Controller::Config{request.subsystem, instance, queue.port(), request.host_nqn, host_id,
                                           request.sqe.keep_alive_ms, queue.peer()});
    request.subsystem->insert(controller);
    controller->start(queue.shared_from_this());
    become(queue, request, std::move(controller), std::move(instance));
    return std::nullopt;
}

Verdict connect_io(QueueCore& queue, const Request& request) {
    auto controller = request.subsystem->controller(request.data.controller_id);
    if (!controller || controller->host_nqn != request.host_nqn) {
        return invalid_data("the host has no such controller", offsetof(ConnectData, controller_id));
    }
    if (!std::equal(controller->host_id.begin(), controller->host_id.end(), request.data.host_id.begin())) {
        return invalid_data("another host identifier", offsetof(ConnectData, host_id));
    }
    if (!controller->ready.load(std::memory_order_relaxed)) {
        return Refusal{"the controller is not enabled", status::permanent(status::command_sequence_error)};
    }
    // Before it joins: who counts as a queue of it keeps the instance.
    auto instance = controller->instance();
    if (!instance) return Refusal{"its association is ending", status::connect_controller_busy};
    if (const auto why = controller->join(queue.shared_from_this(), request.sqe.queue_id)) {
        return Refusal{"the queue is in use or its association is ending", why};
    }
    become(queue, request, std::move(controller), std::move(instance));
    return std::nullopt;
}

}  // namespace

void execute_connect(QueueCore& queue, TargetCommand& command) noexcept {
    if (queue.controller() != nullptr) {  // two of them were under way
        return queue.complete(command, status::permanent(status::command_sequence_error));
    }
    Request request;
    request.sqe = std::bit_cast<ConnectCommand>(command.command);
    if (!copy_out(command.data, 0, &request.data, sizeof request.data)) {
        return queue.complete(command, status::permanent(status::sgl_invalid_data_length));
    }
    Verdict refusal = check(queue, request);
    if (!refusal) refusal = request.sqe.queue_id == 0 ? connect_admin(queue, request) : connect_io(queue, request);
    if (refusal) {
        log_limited("nvme target: Connect refused",
                    fmt::format("nvme target: Connect of {} by '{}' refused: {}",
                                queue.peer().empty() ? "a host" : queue.peer(), request.host_nqn, refusal->reason));
        command.completion.result = refusal->where;
        return queue.complete(command, refusal->status);
    }
    // Its SQHD is that of the new queue, which has taken just this command.
    command.completion.result = queue.controller()->id;
    queue.complete(command, status::success);
}

}  // namespace mqblk::device::nvme
