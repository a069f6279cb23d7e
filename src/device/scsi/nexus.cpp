// SPDX-License-Identifier: Apache-2.0
//
// Dispatch, unit attention and readiness: what comes before any command (SAM-5 5.14, SPC-4 5.11).
#include "device/scsi/nexus.h"

#include "device/scsi/commands.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace mqblk::device::scsi {

namespace opcode = wire::scsi::opcode;
namespace asc = wire::scsi::asc;
using wire::scsi::SenseKey;

Result<std::unique_ptr<Nexus>> Nexus::open(std::shared_ptr<LogicalUnit> unit, Reactor& reactor) {
    auto channel = unit->device().channel(reactor);
    if (!channel) return std::unexpected(channel.error());
    return std::make_unique<Nexus>(std::move(unit), std::move(*channel));
}

Nexus::Nexus(std::shared_ptr<LogicalUnit> unit, std::unique_ptr<Channel> channel)
    : unit_(std::move(unit)),
      sectors_seen_(unit_->device().sectors()),
      modes_seen_(unit_->mode_generation()),
      channel_(std::move(channel)) {}

Nexus::~Nexus() {
    closing_ = true;
    channel_.reset();
}

void Nexus::attend(std::uint16_t code) noexcept {
    const auto end = attentions_.begin() + attention_count_;
    if (attention_count_ < attentions_.size() && std::find(attentions_.begin(), end, code) == end)
        attentions_[attention_count_++] = code;
}

std::uint16_t Nexus::take_attention() noexcept {
    if (attention_count_ == 0) return 0;
    const std::uint16_t first = attentions_[0];
    std::shift_left(attentions_.begin(), attentions_.begin() + attention_count_--, 1);
    return first;
}

void Nexus::look_for_changes() noexcept {
    const std::uint64_t sectors = unit_->device().sectors();
    const std::uint32_t modes = unit_->mode_generation();
    if (sectors == sectors_seen_ && modes == modes_seen_) [[likely]]
        return;
    if (unit_->options().attentions) {
        if (sectors != sectors_seen_) attend(asc::capacity_changed);
        if (modes != modes_seen_) attend(asc::mode_parameters_changed);
    }
    sectors_seen_ = sectors;
    modes_seen_ = modes;
}

namespace {

/// Answered whatever the unit's state is.
bool always_answered(std::uint8_t operation) noexcept {
    return operation == opcode::inquiry || operation == opcode::report_luns || operation == opcode::request_sense;
}

/// Needs no medium that turns.
bool without_medium(std::uint8_t operation) noexcept {
    switch (operation) {
        case opcode::start_stop_unit:
        case opcode::mode_sense_6:
        case opcode::mode_sense_10:
        case opcode::mode_select_6:
        case opcode::mode_select_10:
        case opcode::read_buffer:
        case opcode::write_buffer:
            return true;
        default:
            return false;
    }
}

Plan plan_command(Nexus& nexus, Command& command) noexcept {
    switch (command.cdb[0]) {
        case opcode::read_6:
        case opcode::read_10:
        case opcode::read_12:
        case opcode::read_16:
        case opcode::write_6:
        case opcode::write_10:
        case opcode::write_12:
        case opcode::write_16:
            return plan_transfer(nexus, command);
        case opcode::synchronize_cache_10:
        case opcode::synchronize_cache_16:
            return plan_synchronize(nexus, command);
        case opcode::verify_10:
        case opcode::verify_12:
        case opcode::verify_16:
            return plan_verify(nexus, command);
        case opcode::write_same_10:
        case opcode::write_same_16:
            return plan_write_same(nexus, command);
        case opcode::unmap:
            return plan_unmap(nexus, command);
        case opcode::inquiry:
            return plan_inquiry(nexus, command);
        case opcode::mode_sense_6:
        case opcode::mode_sense_10:
            return plan_mode_sense(nexus, command);
        case opcode::mode_select_6:
        case opcode::mode_select_10:
            return plan_mode_select(nexus, command);
        case opcode::read_capacity_10:
        case opcode::service_action_in_16:
            return plan_capacity(nexus, command);
        case opcode::request_sense:
            return plan_request_sense(nexus, command);
        case opcode::report_luns:
            return plan_report_luns(nexus, command);
        case opcode::read_buffer:
        case opcode::write_buffer:
            return plan_buffer(nexus, command);
        case opcode::test_unit_ready:
        case opcode::start_stop_unit:
            return {};
        default:
            return refuse(command, SenseKey::illegal_request, asc::invalid_operation_code);
    }
}

}  // namespace

Plan Nexus::plan(Command& command) noexcept {
    command.nexus = this;
    command.status = wire::scsi::Status::good;
    command.step = nullptr;
    command.transferred = 0;
    command.position = 0;
    const std::uint8_t operation = command.cdb[0];
    look_for_changes();
    if (attention_count_ > 0 && !always_answered(operation)) [[unlikely]]
        return refuse(command, SenseKey::unit_attention, take_attention());
    if (unit_->stopped() && !always_answered(operation) && !without_medium(operation)) [[unlikely]]
        return refuse(command, SenseKey::not_ready, asc::initializing_command_required);
    if (unit_->device().removed() && !always_answered(operation)) [[unlikely]]
        return refuse(command, SenseKey::not_ready, asc::medium_not_present);
    const Plan plan = plan_command(*this, command);
    command.bytes = plan.bytes;
    return plan;
}

void Nexus::execute(Command& command) noexcept {
    ++outstanding_;
    switch (command.cdb[0]) {
        case opcode::synchronize_cache_10:
        case opcode::synchronize_cache_16:
            return execute_synchronize(command);
        case opcode::verify_10:
        case opcode::verify_12:
        case opcode::verify_16:
            return execute_verify(command);
        case opcode::write_same_10:
        case opcode::write_same_16:
            return execute_write_same(command);
        case opcode::unmap:
            return execute_unmap(command);
        case opcode::inquiry:
            return execute_inquiry(command);
        case opcode::mode_sense_6:
        case opcode::mode_sense_10:
            return execute_mode_sense(command);
        case opcode::mode_select_6:
        case opcode::mode_select_10:
            return execute_mode_select(command);
        case opcode::read_capacity_10:
        case opcode::service_action_in_16:
            return execute_capacity(command);
        case opcode::request_sense:
            return execute_request_sense(command);
        case opcode::report_luns:
            return execute_report_luns(command);
        case opcode::read_buffer:
        case opcode::write_buffer:
            return execute_buffer(command);
        case opcode::start_stop_unit:
            return execute_start_stop(command);
        case opcode::test_unit_ready:
            return complete_good(command);
        default:
            return execute_transfer(command);
    }
}

std::size_t Nexus::build_sense(const Command& command,
                               std::span<std::uint8_t, wire::scsi::descriptor_sense_bytes> to) const noexcept {
    if (command.status != wire::scsi::Status::check_condition) return 0;
    if (unit_->descriptor_sense()) return wire::scsi::build_descriptor_sense(command.sense, to);
    const wire::scsi::FixedSense fixed = wire::scsi::build_fixed_sense(command.sense);
    std::memcpy(to.data(), &fixed, sizeof fixed);
    return sizeof fixed;
}

bool Nexus::claim_workspace(Command& command) noexcept {
    if (workspace_.empty()) workspace_.resize(workspace_bytes);
    if (workspace_owner_ == nullptr) {
        workspace_owner_ = &command;
        return true;
    }
    command.next = nullptr;
    *waiting_last_ = &command;
    waiting_last_ = &command.next;
    return false;
}

void Nexus::give_back_workspace() noexcept {
    assert(workspace_owner_ != nullptr);
    workspace_owner_ = std::exchange(waiting_first_, waiting_first_ != nullptr ? waiting_first_->next : nullptr);
    if (waiting_first_ == nullptr) waiting_last_ = &waiting_first_;
    if (workspace_owner_ != nullptr) workspace_owner_->step(*workspace_owner_);
}

}  // namespace mqblk::device::scsi
