// SPDX-License-Identifier: Apache-2.0
//
// From a request to the disk: which disk or volume it is for, what its scatter-gather list names, and the disk works on
// the host's memory itself where it can.
#include "device/megaraid/controller.h"
#include "device/scsi/nexus.h"
#include "wire/scsi_cdb.h"

#include <algorithm>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;
namespace asc = wire::scsi::asc;
namespace opcode = wire::scsi::opcode;
using wire::scsi::SenseKey;

namespace {

bool reads(std::uint8_t operation) noexcept {
    return operation == opcode::read_6 || operation == opcode::read_10 || operation == opcode::read_12 ||
           operation == opcode::read_16;
}
bool writes(std::uint8_t operation) noexcept {
    return operation == opcode::write_6 || operation == opcode::write_10 || operation == opcode::write_12 ||
           operation == opcode::write_16;
}

}  // namespace

void Controller::take_io(Slot& slot, const ScsiIoRequest& request, bool fast) noexcept {
    if (fast) ++counters_.fast_path;
    scsi::Command& command = slot.command;
    command.done = [](scsi::Command& done) noexcept {
        auto& ended = *static_cast<Slot*>(done.context);
        --ended.controller->running_;
        ended.controller->finish(ended);
    };
    command.data = {};
    slot.asked_bytes = request.data_bytes;
    slot.sense = sense_high_ | request.sense_low;
    slot.sense_bytes = request.sense_bytes;
    const unsigned cdb_length = std::min<unsigned>(request.io_flags & io_cdb_length, command.cdb.size());
    std::copy_n(request.cdb, cdb_length, command.cdb.begin());
    std::fill(command.cdb.begin() + cdb_length, command.cdb.end(), std::uint8_t{0});
    if (const MfiStatus status = find_target(slot, request, fast); status != MfiStatus::ok) [[unlikely]]
        return fail_with(slot, status);
    if (slot.state != SlotState::starting) return;  // it was refused
    if (!faults_.empty()) [[unlikely]] {
        if (!meet_faults(slot)) return finish(slot);
    }
    const scsi::Plan plan = slot.target->nexus->plan(command);
    if (plan.refused) [[unlikely]]
        return finish(slot);
    // What the host gives and what the command asks for: the less of both.
    scsi::HostData& data = slot.data;
    data.bytes = std::min(plan.bytes, slot.asked_bytes);
    if (data.bytes != plan.bytes) [[unlikely]]
        data.bytes -= data.bytes % plan.granule;
    if (data.bytes == 0) return execute(slot);
    data.direction = plan.direction;
    gather(slot, request, plan);
}

MfiStatus Controller::find_target(Slot& slot, const ScsiIoRequest& request, bool fast) noexcept {
    unsigned arm = 0;
    if (fast) {
        const Topology::Place place = topology_.by_handle(request.dev_handle);
        slot.target = place.target;
        arm = place.arm;
    } else if ((request.context.raid_flags & raid_flags_subtype_mask) >> raid_flags_subtype_shift ==
               subtype_system_pd) {
        slot.target = topology_.disk(request.context.target_id);
    } else {
        slot.target = topology_.volume(request.context.target_id);
    }
    const Target* const target = slot.target;
    if (target == nullptr || !std::ranges::all_of(request.lun, [](std::uint8_t b) { return b == 0; })) [[unlikely]]
        return MfiStatus::device_not_found;
    if (!target->present) [[unlikely]]
        return target->is_volume ? MfiStatus::ld_offline : MfiStatus::device_not_found;
    // Numbers begin at 1: 0 is from a driver that has no map.
    if ((request.context.lock_flags & lock_sequence_number) != 0 && request.context.config_seq != 0 &&
        request.context.config_seq != target->sequence) [[unlikely]] {
        return MfiStatus::config_seq_mismatch;
    }
    if (fast && target->is_volume && !to_volume(slot, arm)) [[unlikely]]
        refuse(slot, SenseKey::illegal_request, asc::invalid_field_in_cdb);
    return MfiStatus::ok;
}

/// The command is for a member disk: it is brought back to the volume's blocks. False if it has no place there.
bool Controller::to_volume(Slot& slot, unsigned arm) noexcept {
    const Layout& layout = slot.target->layout;
    if (layout.arms == 1) return true;  // block by block the same
    auto range = wire::scsi::parse_blocks(slot.command.cdb);
    if (!range) return false;
    const bool read = reads(range->operation);
    // A write that goes around the firmware leaves mirror and parity behind.
    if (!read && !(writes(range->operation) && layout.level == 0)) return false;
    const std::uint64_t offset = range->lba & (layout.strip_blocks() - 1);
    if (range->blocks == 0 || offset + range->blocks > layout.strip_blocks()) return false;
    const auto block = volume_block_of(layout, arm, range->lba);
    if (!block) return false;
    range->operation = read ? opcode::read_16 : opcode::write_16;
    range->lba = *block;
    slot.command.cdb = wire::scsi::build_blocks(*range);
    return true;
}

bool Controller::meet_faults(Slot& slot) noexcept {
    bool goes_on = true;
    scsi::Command& command = slot.command;
    const IoFacts facts{
        .number = counters_.requests, .is_volume = slot.target->is_volume, .id = slot.target->id, .cdb = &command.cdb};
    faults_.for_io(facts, [&](const Fault& fault) {
        switch (fault.kind) {
            case FaultKind::medium_error: {
                const auto range = wire::scsi::parse_blocks(command.cdb);
                command.status = wire::scsi::Status::check_condition;
                command.sense = {.key = SenseKey::medium_error,
                                 .code = reads(command.cdb[0]) ? asc::unrecovered_read_error : asc::write_error,
                                 .information = std::max(range ? range->lba : 0, fault.lba)};
                command.transferred = 0;
                goes_on = false;
                return;
            }
            case FaultKind::scsi_status:
                command.status = static_cast<wire::scsi::Status>(fault.status);
                command.sense = fault.sense;
                command.transferred = 0;
                goes_on = false;
                return;
            case FaultKind::io_failed:
                slot.failure = fault.status;
                command.transferred = 0;
                goes_on = false;
                return;
            case FaultKind::lost_completion:
                slot.lost = true;
                return;
            case FaultKind::late_completion:
                slot.due = host_->reactor().now() + fault.duration;
                return;
            default:
                slot.twice = true;
                slot.again = fault.duration;
                return;
        }
    });
    return goes_on;
}

void Controller::gather(Slot& slot, const ScsiIoRequest& request, const scsi::Plan& plan) noexcept {
    const pci::HostMemory& memory = host_->memory();
    const SgList list = walk_sg_list(memory, request, slot.data.bytes, slot.data.range_room.first<max_ranges>());
    if (list.error != SgError::none) [[unlikely]]
        return fail_with(slot, MfiStatus::invalid_parameter);
    slot.data.ranges = list.ranges;
    if (slot.data.map(memory, plan, slot.command)) [[likely]]
        return execute(slot);
    gather_by_copy(slot);
}

void Controller::gather_by_copy(Slot& slot) noexcept {
    ++counters_.copied;
    slot.data.copy.ready = [](memory::BufferRequest& granted) noexcept {
        auto& waiter = *static_cast<Slot*>(granted.context);
        waiter.data.granted();
        waiter.controller->copy_memory_granted(waiter);
    };
    switch (slot.data.ask(*copy_pool_)) {
        case memory::BufferPool::Grant::granted:
            return copy_memory_granted(slot);
        case memory::BufferPool::Grant::waiting:
            slot.state = SlotState::waiting;
            return;
        case memory::BufferPool::Grant::too_large:
            return fail_with(slot, MfiStatus::invalid_parameter);
    }
}

void Controller::copy_memory_granted(Slot& slot) noexcept {
    if (slot.dropped) return release(slot);
    if (!slot.data.fill(host_->memory(), slot.command)) return fail_with(slot, MfiStatus::invalid_parameter);
    execute(slot);
}

void Controller::execute(Slot& slot) noexcept {
    slot.state = SlotState::running;
    ++running_;
    slot.target->nexus->execute(slot.command);
}

void Controller::fail_with(Slot& slot, MfiStatus status) noexcept {
    slot.failure = static_cast<std::uint8_t>(status);
    slot.command.status = wire::scsi::Status::good;
    slot.command.transferred = 0;
    finish(slot);
}

void Controller::refuse(Slot& slot, SenseKey key, std::uint16_t code) noexcept {
    slot.command.status = wire::scsi::Status::check_condition;
    slot.command.sense = {.key = key, .code = code};
    slot.command.transferred = 0;
    finish(slot);
}

}  // namespace mqblk::device::megaraid
