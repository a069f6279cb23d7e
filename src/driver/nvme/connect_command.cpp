// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/connect_command.h"

#include "driver/nvme/admin_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>

namespace mqblk::driver::nvme {

namespace {

namespace sc = wire::nvme::status;
using wire::nvme::ConnectData;

constexpr std::uint32_t in_data(std::size_t offset) noexcept {
    return wire::nvme::connect_invalid_in_data(offset);
}

std::uint32_t keep_alive_ms_of(Duration keep_alive) noexcept {
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(keep_alive).count();
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(milliseconds, 0, UINT32_MAX));
}

Error refused_parameter(const Association::Terms& terms, std::uint32_t field, std::uint16_t status) {
    const std::string& target = terms.transport->target();
    switch (field) {
        case in_data(offsetof(ConnectData, subsystem_nqn)):
            return {Errc::not_found,
                    fmt::format("target {} has no subsystem '{}'; 'mqblk discover {}' lists what it offers", target,
                                terms.subsystem_nqn, target)};
        case in_data(offsetof(ConnectData, host_nqn)):
            return {Errc::permission_denied,
                    fmt::format("target {} does not accept '{}' as a host NQN; give another", target, terms.host.nqn)};
        case in_data(offsetof(ConnectData, controller_id)):
            return {Errc::closed,
                    fmt::format("target {} no longer knows this controller of '{}'", target, terms.subsystem_nqn)};
        default:
            return {Errc::protocol,
                    fmt::format("target {} refused to connect '{}': parameter at {:#x} is invalid (status {:#x})",
                                target, terms.subsystem_nqn, field, status)};
    }
}

}  // namespace

ConnectRequest build_connect(const Association::Terms& terms, std::uint16_t queue_id, std::uint32_t entries,
                             std::uint16_t controller_id, Duration keep_alive) {
    wire::nvme::ConnectCommand command{};
    command.queue_id = queue_id;
    command.sq_size = static_cast<std::uint16_t>(entries - 1);
    if (!terms.flow_control) command.attributes = wire::nvme::connect_disable_flow_control;
    if (queue_id == 0) command.keep_alive_ms = keep_alive_ms_of(keep_alive);
    ConnectRequest request;
    request.command = std::bit_cast<wire::nvme::Command>(command);
    request.data.host_id = terms.host.id;
    request.data.controller_id = controller_id;
    wire::nvme::set_text(request.data.subsystem_nqn, terms.subsystem_nqn, '\0');
    wire::nvme::set_text(request.data.host_nqn, terms.host.nqn, '\0');
    return request;
}

bool refused_for_good(const wire::nvme::Completion& completion) noexcept {
    const std::uint16_t status = wire::nvme::status_of(completion);
    return (status & sc::do_not_retry) != 0 && (status & sc::code_mask) == sc::connect_invalid_host;
}

Error connect_error(const Association::Terms& terms, const wire::nvme::Completion& completion) {
    const std::uint16_t status = wire::nvme::status_of(completion);
    const std::string& target = terms.transport->target();
    switch (status & sc::code_mask) {
        case sc::connect_invalid_parameters:
            return refused_parameter(terms, static_cast<std::uint32_t>(completion.result & 0x1ffff), status);
        case sc::connect_invalid_host:
            return {Errc::permission_denied,
                    fmt::format("target {} does not allow host NQN '{}' to use '{}'; allow it there with --allow-host",
                                target, terms.host.nqn, terms.subsystem_nqn)};
        case sc::connect_controller_busy:
            return {Errc::no_space,
                    fmt::format("target {} has no controller left for '{}'; disconnect another host first", target,
                                terms.subsystem_nqn)};
        default:
            return status_error("Connect", status)
                .in(fmt::format("connect to '{}' at {}", terms.subsystem_nqn, target));
    }
}

}  // namespace mqblk::driver::nvme
