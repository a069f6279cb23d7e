// SPDX-License-Identifier: Apache-2.0
//
// What an initiator sends: each unit is looked at once, and refused as the standard says where it is wrong (SRP rev.
// 16a 5.7, 6.2). What comes before the connection stands is kept until it does.
#include "base/log.h"
#include "device/srp/rdma_channel.h"
#include "device/srp/target.h"
#include "wire/scsi_reservations.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mqblk::device::srp {

using fabric::rdma::LocalPiece;
using wire::srp::Opcode;

namespace {

constexpr std::uint8_t max_task_attribute = 2;        // simple, head of queue, ordered
constexpr std::uint32_t max_page_bytes = 256 * 1024;  // of data that is made here: LUNs, pages, status
constexpr std::size_t tag_end = offsetof(wire::srp::Cmd, tag) + sizeof(be64);

bool needs_slot(std::span<const std::byte> unit) noexcept {
    const auto opcode = wire::srp::opcode_of(unit);
    return opcode == Opcode::cmd || opcode == Opcode::tsk_mgmt;
}

}  // namespace

std::byte* RdmaChannel::receive_data(std::uint32_t receive) const noexcept {
    return memory_.data() + receive * receive_stride_ + receive_pad_;
}

void RdmaChannel::post_receive(std::uint32_t receive) noexcept {
    const LocalPiece piece{receive_data(receive), grant_.it_iu_bytes, memory_key_};
    if (!queue_pair_->post_receive(work_id(kind_receive, receive), {&piece, 1})) end(nullptr);
}

void RdmaChannel::received(std::uint32_t receive, std::uint32_t bytes) noexcept {
    received_bytes_[receive] = bytes;
    queued_.push_back(receive);
}

void RdmaChannel::take_queued() noexcept {
    while (established_ && !ending_ && !queued_.empty()) {
        const std::uint32_t receive = queued_.front();
        const std::uint32_t bytes = received_bytes_[receive];
        if (free_ == nullptr && needs_slot({receive_data(receive), bytes})) return;
        queued_.pop_front();
        take_unit(receive, bytes);
    }
}

SrpCommand* RdmaChannel::take_slot() noexcept {
    SrpCommand& slot = *free_;
    free_ = slot.next;
    ++used_;
    slot.core.data = {};
    slot.core.nexus = nullptr;
    slot.core.status = wire::scsi::Status::good;
    slot.core.transferred = 0;
    slot.plan = {};
    slot.absent = slot.aborted = slot.lent = slot.queued = false;
    slot.tag = {};
    slot.lun = 0;
    slot.number = ++numbers_;
    slot.description = {};
    slot.out_bytes = slot.in_bytes = 0;
    slot.data = {nullptr, 0};
    slot.move_bytes = slot.moved = slot.descriptor = slot.descriptor_offset = 0;
    slot.works = 0;
    return &slot;
}

bool RdmaChannel::take_credit() noexcept {
    if (limit_ == 0) {
        end("it sends more requests than it has credits for");
        return false;
    }
    --limit_;
    return true;
}

void RdmaChannel::take_unit(std::uint32_t receive, std::uint32_t bytes) noexcept {
    const std::span<const std::byte> unit(receive_data(receive), bytes);
    switch (wire::srp::opcode_of(unit).value_or(Opcode::login_req)) {
        case Opcode::cmd:
        case Opcode::tsk_mgmt: {
            if (!take_credit()) return;
            SrpCommand& slot = *take_slot();
            slot.receive = static_cast<std::uint16_t>(receive);
            slot.state = SrpCommand::State::executing;
            if (unit.size() >= tag_end)
                std::memcpy(static_cast<void*>(&slot.tag), unit.data() + offsetof(wire::srp::Cmd, tag), sizeof(be64));
            return wire::srp::opcode_of(unit) == Opcode::cmd ? take_command(slot, unit) : take_task(slot, unit);
        }
        case Opcode::i_logout:
            return end("its initiator has logged out");
        case Opcode::cred_rsp:
        case Opcode::aer_rsp:
            request_open_ = false;
            break;
        default:
            log_limited("srp: unknown unit", "an SRP initiator sends units with an opcode that is not for targets");
    }
    post_receive(receive);
}

void RdmaChannel::take_command(SrpCommand& command, std::span<const std::byte> unit) noexcept {
    const auto view = wire::srp::decode_cmd(unit, grant_.immediate_offset);
    if (!view) {
        if (unit.size() < tag_end) {  // nobody to answer to
            ++owed_credits_;
            post_receive(command.receive);
            return free(command);
        }
        return refuse(command, view.error().data());
    }
    command.lun = view->cmd.lun;
    command.out_bytes = view->out.bytes;
    command.in_bytes = view->in.bytes;
    if (view->cmd.task_attr > max_task_attribute) return refuse(command, "its task attribute is unknown");
    plan(command, *view);
}

scsi::Nexus* RdmaChannel::nexus_of(unsigned unit) noexcept {
    auto& nexus = nexuses_[unit];
    if (nexus) [[likely]]
        return nexus.get();
    const auto& disk = units_->entries()[unit].unit;
    const auto port = std::bit_cast<std::array<std::uint8_t, 16>>(initiator_);
    auto opened = scsi::Nexus::open(disk, reactor_, disk->initiator(wire::scsi::srp_transport_id(port)));
    if (!opened) {
        log_limited("srp: unit not opened", opened.error().message());
        return nullptr;
    }
    nexus = std::move(*opened);
    nexus->on_abort(
        [](void* context) noexcept {
            const auto& place = *static_cast<const UnitPlace*>(context);
            place.channel->abort_unit(place.unit);
        },
        &places_[unit]);
    return nexus.get();
}

void RdmaChannel::plan(SrpCommand& command, const wire::srp::CmdView& view) noexcept {
    scsi::Command& core = command.core;
    core.cdb = view.cmd.cdb;
    core.context = &command;
    core.done = [](scsi::Command& done) noexcept {
        auto& ended = *static_cast<SrpCommand*>(done.context);
        ended.channel->executed(ended);
    };
    const auto unit = units_->find(command.lun);
    command.absent = scsi::Inventory::answers(core.cdb, unit.has_value());
    command.unit = static_cast<std::uint16_t>(unit.value_or(0));
    if (command.absent) {
        command.plan = units_->inventory().plan(core);
    } else {
        scsi::Nexus* const nexus = nexus_of(*unit);
        if (nexus == nullptr) {
            core.status = wire::scsi::Status::busy;
            return answer(command);
        }
        command.plan = nexus->plan(core);
    }
    if (command.plan.refused) return answer(command);
    const bool out = command.plan.direction == scsi::Direction::from_initiator;
    if (command.plan.direction != scsi::Direction::none) command.description = out ? view.out : view.in;
    begin(command);
}

/// What the initiator gives and what the command asks for: the less of both.
void RdmaChannel::begin(SrpCommand& command) noexcept {
    const scsi::Plan& plan = command.plan;
    std::uint64_t bytes = std::min<std::uint64_t>(plan.bytes, command.description.bytes);
    if (plan.granule == 1 && plan.direction == scsi::Direction::to_initiator)
        bytes = std::min<std::uint64_t>(bytes, max_page_bytes);
    if (bytes != plan.bytes) bytes -= bytes % plan.granule;
    command.move_bytes = static_cast<std::uint32_t>(bytes);
    if (bytes == 0) return execute(command);
    if (command.description.external()) return want_table(command);
    want_data(command);
}

}  // namespace mqblk::device::srp
