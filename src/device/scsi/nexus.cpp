// SPDX-License-Identifier: Apache-2.0
//
// A nexus's life, and what comes before any command: unit attention, reservations, readiness (SAM-5 5.14, SPC-4 5.11,
// 5.13).
#include "device/scsi/nexus.h"

#include "device/scsi/command_table.h"
#include "device/scsi/commands.h"
#include "reactor/reactor.h"

#include <cassert>
#include <cstring>
#include <utility>

namespace mqblk::device::scsi {

namespace opcode = wire::scsi::opcode;
namespace asc = wire::scsi::asc;
using wire::scsi::SenseKey;

Result<std::unique_ptr<Nexus>> Nexus::open(std::shared_ptr<LogicalUnit> unit, Reactor& reactor) {
    auto nobody =
        std::make_shared<Initiator>(wire::scsi::TransportId{}, unit->device().sectors(), unit->mode_generation());
    return open(std::move(unit), reactor, std::move(nobody));
}

Result<std::unique_ptr<Nexus>> Nexus::open(std::shared_ptr<LogicalUnit> unit, Reactor& reactor,
                                           std::shared_ptr<Initiator> initiator) {
    auto channel = unit->device().channel(reactor);
    if (!channel) return std::unexpected(channel.error());
    return std::make_unique<Nexus>(std::move(unit), reactor, std::move(initiator), std::move(*channel));
}

Nexus::Nexus(std::shared_ptr<LogicalUnit> unit, Reactor& reactor, std::shared_ptr<Initiator> initiator,
             std::unique_ptr<Channel> channel)
    : unit_(std::move(unit)),
      reactor_(reactor),
      initiator_(std::move(initiator)),
      access_epoch_(unit_->reservations().epoch() - 1),  // to be looked at first
      channel_(std::move(channel)) {
    holds_ = unit_->exclusion().attach(*this) ? 1 : 0;
}

Nexus::~Nexus() {
    closing_ = true;
    abort_chain(unit_->exclusion().abandon(*this));
    channel_.reset();
    abort_chain(std::exchange(held_first_, nullptr));
    unit_->exclusion().detach(*this);
}

/// Ends commands that had not begun.
void Nexus::abort_chain(Command* first) noexcept {
    while (first != nullptr) {
        Command& command = *std::exchange(first, first->next);
        set_answer(command, Status::aborted, false, 0);
        complete(command);
    }
}

void Nexus::look_for_changes() noexcept {
    const std::uint64_t sectors = unit_->device().sectors();
    const std::uint32_t modes = unit_->mode_generation();
    if (sectors == initiator_->sectors_seen.load(std::memory_order_relaxed) &&
        modes == initiator_->modes_seen.load(std::memory_order_relaxed)) [[likely]]
        return;
    // Of several channels one tells.
    const bool resized = initiator_->sectors_seen.exchange(sectors, std::memory_order_relaxed) != sectors;
    const bool changed = initiator_->modes_seen.exchange(modes, std::memory_order_relaxed) != modes;
    if (!unit_->options().attentions) return;
    if (resized) attend(asc::capacity_changed);
    if (changed) attend(asc::mode_parameters_changed);
}

bool Nexus::is_excluded(const CommandInfo& info, const wire::scsi::Cdb& cdb) noexcept {
    if (const std::uint32_t epoch = unit_->reservations().epoch(); epoch != access_epoch_) [[unlikely]] {
        access_epoch_ = epoch;
        access_ = unit_->reservations().access(initiator_->id());
    }
    if (access_ == Access::all || info.need == Need::nothing) [[likely]]
        return false;
    if (cdb[0] == opcode::start_stop_unit && (cdb[4] & 0xf1) == 1) return false;  // a start
    return info.need == Need::writes || access_ == Access::none;
}

Plan Nexus::plan(Command& command) noexcept {
    command.nexus = this;
    command.status = wire::scsi::Status::good;
    command.step = nullptr;
    command.transferred = 0;
    command.position = 0;
    command.writes = command.submitted = command.cancelled = false;
    const CommandInfo& info = command_info(command.cdb[0]);
    look_for_changes();
    if (initiator_->attended() && !info.always_answered) [[unlikely]] {
        if (const std::uint16_t code = initiator_->take_attention(); code != 0)
            return refuse(command, SenseKey::unit_attention, code);
    }
    if (is_excluded(info, command.cdb)) [[unlikely]] {
        command.status = wire::scsi::Status::reservation_conflict;
        return {.refused = true};
    }
    if (unit_->stopped() && !info.always_answered && !info.without_medium) [[unlikely]]
        return refuse(command, SenseKey::not_ready, asc::initializing_command_required);
    if (unit_->device().removed() && !info.always_answered) [[unlikely]]
        return refuse(command, SenseKey::not_ready, asc::medium_not_present);
    const Plan plan = info.plan(*this, command);
    command.bytes = plan.bytes;
    return plan;
}

void Nexus::execute(Command& command) noexcept {
    ++outstanding_;
    const CommandInfo& info = command_info(command.cdb[0]);
    if (info.need == Need::writes && is_excluded(info, command.cdb)) [[unlikely]] {
        command.status = wire::scsi::Status::reservation_conflict;  // since it was planned
        return complete(command);
    }
    if (info.changes_data) {
        if (holds_ > 0) [[unlikely]] {
            command.next = nullptr;
            *held_last_ = &command;
            held_last_ = &command.next;
            return;
        }
        command.writes = true;
        ++writes_;
    }
    info.execute(command);
}

void Nexus::cancel(Command& command) noexcept {
    command.cancelled = true;
    if (command.submitted) channel_->cancel(command.bio);
}

void Nexus::hold_writes(std::shared_ptr<void> drained) noexcept {
    ++holds_;
    if (writes_ > 0) drained_ = std::move(drained);
}

void Nexus::let_writes_go() noexcept {
    if (--holds_ > 0) return;
    held_last_ = &held_first_;
    for (Command* held = std::exchange(held_first_, nullptr); held != nullptr;) {
        Command& command = *std::exchange(held, held->next);
        --outstanding_;  // execute() counts it again
        execute(command);
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
