// SPDX-License-Identifier: Apache-2.0
//
// From a doorbell to the disk: the FIT message is copied, each request gets a slot, its scatter-gather list is walked,
// and the disk works on the host's memory itself where it can. No lock, no allocation.
#include "device/scsi/nexus.h"
#include "device/skd/card.h"
#include "device/skd/fit.h"
#include "wire/scsi_cdb.h"

#include <algorithm>
#include <bit>

namespace mqblk::device::skd {

using namespace wire::skd;
namespace asc = wire::scsi::asc;
using wire::scsi::SenseKey;

namespace {
/// Of a pass, in descriptors and pages of data: what a host rings for at once can be seconds of work, and the reactor
/// has others to serve. The message that exceeds it is the last; the rest is the next pass's.
constexpr unsigned most_work = 8192;
constexpr unsigned page_bytes = 4096;
}  // namespace

bool Card::can_take() const noexcept {
    if (fifo_count_ == 0 || !takes_commands()) return false;
    // A whole message, in slots and in the ring.
    const unsigned most = std::min(SlotTable::count, ring_.depth());
    return slots_.used() == 0 || slots_.used() + max_requests_per_message <= most;
}

unsigned Card::take_doorbells() noexcept {
    unsigned taken = 0;
    work_ = 0;
    while (work_ < most_work && can_take()) {
        const std::uint64_t value = fifo_[fifo_first_];
        fifo_first_ = (fifo_first_ + 1) % fifo_entries;
        --fifo_count_;
        ++taken;
        take_fit_message(value);
        if (!striking_) [[likely]]
            continue;
        const Fault fault = *striking_;
        striking_.reset();
        if (fault.kind == FaultKind::disappear) {
            pull_out(fault.duration);
        } else {
            enter(fault.state, fault.duration);
        }
    }
    return taken;
}

void Card::take_fit_message(std::uint64_t doorbell) noexcept {
    const Doorbell bell = decode_doorbell(doorbell);
    if (bell.address == 0 && bell.bytes == sizeof(FitHeader)) return;  // FLUSH_QUEUE: the FIFO is in order anyway
    FitMessage message;
    const FitRead read = read_message(host_->memory(), bell, message);
    if (read.error == FitError::unreadable)
        return fatal("S1120 model: a doorbell names a message where the host has no memory");
    const unsigned room = std::min(SlotTable::count, ring_.depth()) - slots_.used();
    for (unsigned i = 0; i < std::min(read.requests, room) && takes_commands(); ++i)
        take_request(message.request[i], read.error != FitError::none);
}

void Card::take_request(const ScsiRequest& request, bool malformed) noexcept {
    Slot& slot = slots_.take();
    ++counters_.commands;
    slot.tag = request.tag;
    scsi::Command& command = slot.command;
    command.cdb = request.cdb;
    command.done = [](scsi::Command& done) noexcept {
        auto& ended = *static_cast<Slot*>(done.context);
        --ended.card->running_;
        ended.card->finish(ended);
    };
    if (malformed || request.additional_cdb_words != 0) [[unlikely]]
        return refuse(slot, SenseKey::illegal_request, asc::invalid_field_in_cdb);
    if (!faults_.empty()) [[unlikely]] {
        if (!meet_faults(slot)) return finish(slot);
    }
    const scsi::Plan plan = nexus_->plan(command);
    if (!timing_.instant()) set_due(slot);
    if (plan.refused) [[unlikely]]
        return finish(slot);
    command.data = {};
    // What the host gives and what the command asks for: the less of both.
    scsi::HostData& data = slot.data;
    data.bytes = std::min(plan.bytes, request.sg_list_bytes.value());
    if (data.bytes != plan.bytes) [[unlikely]]
        data.bytes -= data.bytes % plan.granule;
    if (data.bytes == 0) return execute(slot);
    data.direction = plan.direction;
    gather(slot, request, plan);
}

void Card::refuse(Slot& slot, SenseKey key, std::uint16_t code) noexcept {
    slot.command.status = wire::scsi::Status::check_condition;
    slot.command.sense = {.key = key, .code = code};
    slot.command.transferred = 0;
    finish(slot);
}

bool Card::meet_faults(Slot& slot) noexcept {
    bool goes_on = true;
    scsi::Command& command = slot.command;
    faults_.for_command(counters_.commands, command.cdb, [&](const Fault& fault) {
        switch (fault.kind) {
            case FaultKind::medium_error: {
                const auto range = wire::scsi::parse_blocks(command.cdb);
                const bool write = range && range->operation != wire::scsi::opcode::read_6 &&
                                   range->operation != wire::scsi::opcode::read_10 &&
                                   range->operation != wire::scsi::opcode::read_12 &&
                                   range->operation != wire::scsi::opcode::read_16;
                command.status = wire::scsi::Status::check_condition;
                command.sense = {.key = SenseKey::medium_error,
                                 .code = write ? asc::write_error : asc::unrecovered_read_error,
                                 .information = std::max(range ? range->lba : 0, fault.lba)};
                command.transferred = 0;
                goes_on = false;
                return;
            }
            case FaultKind::scsi_status:
                command.status = fault.status;
                command.sense = fault.sense;
                command.transferred = 0;
                goes_on = false;
                return;
            case FaultKind::lost_completion:
                slot.lost = true;
                return;
            case FaultKind::late_completion:
                slot.due = host_->reactor().now() + fault.duration;
                return;
            case FaultKind::wrong_tag:
                slot.wrong_tag = true;
                return;
            case FaultKind::duplicate_completion:
                slot.twice = true;
                slot.again_after = fault.duration;
                return;
            default:
                striking_ = fault;
                return;
        }
    });
    return goes_on;
}

void Card::gather(Slot& slot, const ScsiRequest& request, const scsi::Plan& plan) noexcept {
    const pci::HostMemory& memory = host_->memory();
    const SgList list = walk_sg_list(memory, request.sg_list_address, slot.data.bytes, slot.data.range_room);
    work_ += static_cast<unsigned>(list.descriptors) + slot.data.bytes / page_bytes;
    switch (list.error) {
        case SgError::none:
            break;
        case SgError::unreadable:
        case SgError::too_short:
            return refuse(slot, SenseKey::aborted_command, asc::data_phase_error);
        default:
            return refuse(slot, SenseKey::illegal_request, asc::invalid_field_in_parameter_list);
    }
    slot.data.ranges = list.ranges;
    if (slot.data.map(memory, plan, slot.command)) [[likely]]
        return execute(slot);
    gather_by_copy(slot);
}

void Card::gather_by_copy(Slot& slot) noexcept {
    ++counters_.copied;
    slot.data.copy.ready = [](memory::BufferRequest& granted) noexcept {
        auto& waiter = *static_cast<Slot*>(granted.context);
        waiter.data.granted();
        waiter.card->copy_memory_granted(waiter);
    };
    switch (slot.data.ask(*copy_pool_)) {
        case memory::BufferPool::Grant::granted:
            return copy_memory_granted(slot);
        case memory::BufferPool::Grant::waiting:
            slot.state = SlotState::waiting;
            return;
        case memory::BufferPool::Grant::too_large:
            return refuse(slot, SenseKey::illegal_request, asc::invalid_field_in_cdb);
    }
}

void Card::copy_memory_granted(Slot& slot) noexcept {
    if (slot.dropped) return release(slot);
    if (!slot.data.fill(host_->memory(), slot.command))
        return refuse(slot, SenseKey::aborted_command, asc::data_phase_error);
    execute(slot);
}

void Card::execute(Slot& slot) noexcept {
    slot.state = SlotState::running;
    ++running_;
    nexus_->execute(slot.command);
}

}  // namespace mqblk::device::skd
