// SPDX-License-Identifier: Apache-2.0
//
// PERSISTENT RESERVE OUT (SPC-4 6.16). After a PREEMPT no write of the initiators that lost their registration can
// reach the medium any more: it is answered when those in progress have ended, and a write that was checked before is
// checked again when it begins.
#include "device/scsi/commands.h"
#include "memory/segments.h"
#include "wire/scsi_reservations.h"

#include <algorithm>
#include <vector>

namespace mqblk::device::scsi {

namespace asc = wire::scsi::asc;
using wire::scsi::ReserveOut;
using wire::scsi::SenseKey;

namespace {

constexpr std::uint16_t flags_offset = offsetof(wire::scsi::ReserveOutParameters, flags);
constexpr std::uint16_t service_key_offset = offsetof(wire::scsi::ReserveOutParameters, service_key);

bool registers(ReserveOut action) noexcept {
    return action == ReserveOut::register_key || action == ReserveOut::register_and_ignore;
}

/// False: refused.
bool check_parameters(Command& command, ReserveOut action,
                      const wire::scsi::ReserveOutParameters& parameters) noexcept {
    if (!registers(action)) return true;
    std::uint8_t unsupported = wire::scsi::reserve_names_initiators | wire::scsi::reserve_all_target_ports;
    if (!command.nexus->unit().reservations().can_persist()) unsupported |= wire::scsi::reserve_persist;
    if ((parameters.flags & unsupported) == 0) return true;
    refuse_parameter(command, flags_offset, asc::invalid_field_in_parameter_list);
    return false;
}

void set_verdict(Command& command, ReserveOutcome::Verdict verdict) noexcept {
    switch (verdict) {
        case ReserveOutcome::good:
            break;
        case ReserveOutcome::conflict:
            command.status = wire::scsi::Status::reservation_conflict;
            break;
        case ReserveOutcome::invalid_type:
            refuse_field(command, 2);
            break;
        case ReserveOutcome::invalid_key:
            refuse_parameter(command, service_key_offset, asc::invalid_field_in_parameter_list);
            break;
        case ReserveOutcome::invalid_release:
            refuse(command, SenseKey::illegal_request, asc::invalid_release_of_reservation);
            break;
        case ReserveOutcome::too_many:
            refuse(command, SenseKey::illegal_request, asc::insufficient_registration_resources);
            break;
    }
}

void writes_ended(Command& command) noexcept {
    Nexus& nexus = *command.nexus;
    nexus.unit().exclusion().end(command);
    complete_good(command, command.bytes);
}

/// Commands of those initiators are cancelled, on whatever thread they are.
void abort_commands_of(LogicalUnit& unit, const std::vector<wire::scsi::TransportId>& initiators) {
    if (initiators.empty()) return;
    unit.exclusion().for_each([initiators](Nexus& nexus) {
        if (std::ranges::find(initiators, nexus.initiator().id()) != initiators.end()) nexus.abort_all();
    });
}

}  // namespace

Plan plan_reserve_out(Nexus& nexus, Command& command) noexcept {
    if (!nexus.unit().options().reservations)
        return refuse(command, SenseKey::illegal_request, asc::invalid_operation_code);
    if ((command.cdb[1] & wire::scsi::reserve_action_mask) > static_cast<std::uint8_t>(ReserveOut::register_and_ignore))
        return refuse_field(command, 1, 4);
    const std::uint64_t bytes = wire::scsi::cdb_field(command.cdb, 5, 4);
    if (bytes != sizeof(wire::scsi::ReserveOutParameters))
        return refuse(command, SenseKey::illegal_request, asc::parameter_list_length_error);
    return {.direction = Direction::from_initiator, .bytes = sizeof(wire::scsi::ReserveOutParameters)};
}

void execute_reserve_out(Command& command) noexcept {
    Nexus& nexus = *command.nexus;
    LogicalUnit& unit = nexus.unit();
    const auto action = static_cast<ReserveOut>(command.cdb[1] & wire::scsi::reserve_action_mask);
    wire::scsi::ReserveOutParameters parameters;
    if (!copy_parameter(command, 0, parameters)) {
        refuse(command, SenseKey::aborted_command, asc::data_phase_error);
        return nexus.complete(command);
    }
    if (!check_parameters(command, action, parameters)) return nexus.complete(command);
    const auto outcome = unit.change_reservations(nexus.initiator().id(),
                                                  {.action = action,
                                                   .scope = static_cast<std::uint8_t>(command.cdb[2] >> 4),
                                                   .type = static_cast<std::uint8_t>(command.cdb[2] & 0xf),
                                                   .key = parameters.key,
                                                   .service_key = parameters.service_key,
                                                   .persist = (parameters.flags & wire::scsi::reserve_persist) != 0});
    if (!outcome) {
        refuse(command, SenseKey::hardware_error, asc::internal_target_failure);
        return nexus.complete(command);
    }
    set_verdict(command, outcome->verdict);
    if (outcome->verdict != ReserveOutcome::good) return nexus.complete(command);
    const bool preempts = action == ReserveOut::preempt || action == ReserveOut::preempt_and_abort;
    if (!preempts || nexus.channel() == nullptr) return complete_good(command, command.bytes);
    if (action == ReserveOut::preempt_and_abort) abort_commands_of(unit, outcome->preempted);
    command.step = &writes_ended;
    unit.exclusion().begin(command);
}

}  // namespace mqblk::device::scsi
