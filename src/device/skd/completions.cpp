// SPDX-License-Identifier: Apache-2.0
//
// From the disk to the ring: data that was copied goes to the host, then the command is told, at once or when its time
// has come. What a reset dropped ends without a word.
#include "device/skd/card.h"
#include "wire/scsi_cdb.h"

namespace mqblk::device::skd {

namespace asc = wire::scsi::asc;
namespace opcode = wire::scsi::opcode;
using wire::scsi::SenseKey;

void Card::finish(Slot& slot) noexcept {
    if (slot.dropped) [[unlikely]]
        return release(slot);
    scsi::Command& command = slot.command;
    if (!slot.data.deliver(host_->memory(), command)) [[unlikely]] {
        command.status = wire::scsi::Status::check_condition;
        command.sense = {.key = SenseKey::aborted_command, .code = asc::data_phase_error};
        command.transferred = 0;
    }
    if (slot.due != Time{}) [[unlikely]] {
        if (slot.due > host_->reactor().now()) return tell_later(slot);
    }
    tell(slot);
}

void Card::tell_later(Slot& slot) noexcept {
    slot.data.let_go();
    slot.state = SlotState::delayed;
    delayed_.push(slot);
    delay_timer_.arm(host_->reactor(), delayed_.first().due);
}

void Card::tell(Slot& slot) noexcept {
    constexpr std::uint16_t nobodys = 0x5400;  // of the generation bits
    const scsi::Command& command = slot.command;
    bool stored = true;
    const bool again_later = slot.twice && slot.again_after > Duration{};
    const unsigned entries = slot.lost ? 0 : slot.twice && !again_later ? 2 : 1;
    const bool check = command.status == wire::scsi::Status::check_condition;
    for (unsigned i = 0; i < entries; ++i) {
        stored &= ring_.post(host_->memory(), slot.wrong_tag ? slot.tag ^ nobodys : slot.tag, command.status,
                             command.transferred, check ? &command.sense : nullptr);
        ++counters_.completions;
        posted_ = true;
    }
    if (again_later) [[unlikely]] {
        slot.twice = false;
        slot.due = host_->reactor().now() + slot.again_after;
        tell_later(slot);
    } else {
        release(slot);
    }
    if (!stored) [[unlikely]]
        fatal("S1120 model: the completion ring lies where the host has no memory");
}

void Card::release(Slot& slot) noexcept {
    slot.data.let_go();
    const Segment copy = slot.data.take_copy();
    slots_.give_back(slot);
    if (copy.bytes > 0) copy_pool_->put(copy.data, copy.bytes);  // another may go on from within
}

unsigned Card::tell_delayed() noexcept {
    const Time now = host_->reactor().now();
    unsigned told = 0;
    while (!delayed_.empty() && delayed_.first().due <= now) {
        tell(delayed_.pop());
        ++told;
    }
    if (!delayed_.empty()) delay_timer_.arm(host_->reactor(), delayed_.first().due);
    return told;
}

void Card::set_due(Slot& slot) noexcept {
    Work work = Work::control;
    std::uint32_t bytes = 0;
    if (const auto range = wire::scsi::parse_blocks(slot.command.cdb)) {
        bytes = range->blocks * wire::skd::logical_block_bytes;
        switch (range->operation) {
            case opcode::read_6:
            case opcode::read_10:
            case opcode::read_12:
            case opcode::read_16:
                work = Work::read;
                break;
            case opcode::synchronize_cache_10:
            case opcode::synchronize_cache_16:
                work = Work::flush;
                break;
            default:
                work = Work::write;
                break;
        }
    }
    slot.due = std::max(slot.due, timing_.due(host_->reactor().now(), work, bytes));
}

}  // namespace mqblk::device::skd
