// SPDX-License-Identifier: Apache-2.0
//
// COMPARE AND WRITE (SBC-3 5.2): the blocks are read, compared with the first half of the data and, if they are equal,
// written with the second. No other write of the unit comes in between (Exclusion).
#include "device/scsi/commands.h"
#include "memory/segments.h"

#include <algorithm>
#include <cstring>

namespace mqblk::device::scsi {

namespace asc = wire::scsi::asc;
using wire::scsi::SenseKey;

namespace {

std::uint32_t half_bytes(const Command& command) noexcept {
    return command.blocks.blocks << command.nexus->unit().block_shift();
}

/// The unit is let go first: what the initiator does when it is told comes after.
void end_exclusive(Command& command) noexcept {
    Nexus& nexus = *command.nexus;
    nexus.unit().exclusion().end(command);
    nexus.complete(command);
    nexus.give_back_workspace();
}

void written(Command& command) noexcept {
    set_answer(command, command.bio.status, true, command.blocks.lba);
    command.transferred = command.bytes;
    end_exclusive(command);
}

void compared(Command& command) noexcept {
    if (command.bio.status != Status::ok) {
        set_answer(command, command.bio.status, false, command.blocks.lba);
        return end_exclusive(command);
    }
    const std::uint32_t bytes = half_bytes(command);
    memory::SegmentCursor data(command.data);
    for (std::uint32_t done = 0; done < bytes;) {
        const Segment piece = data.take(bytes - done);
        const std::byte* const here = command.piece.data + done;
        const auto* const differs = std::mismatch(here, here + piece.bytes, piece.data).first;
        if (differs != here + piece.bytes) {
            refuse(command, SenseKey::miscompare, asc::miscompare_during_verify);
            command.sense.information = done + static_cast<std::uint64_t>(differs - here);
            return end_exclusive(command);
        }
        done += static_cast<std::uint32_t>(piece.bytes);
    }
    static_cast<void>(copy_parameter_bytes(command, bytes, {command.piece.data, bytes}));
    command.step = &written;
    start_bio(command, Op::write, write_flags(command), command.blocks.lba, command.blocks.blocks, {&command.piece, 1});
}

void have_workspace(Command& command) noexcept {
    command.piece = {command.nexus->workspace().data(), half_bytes(command)};
    command.step = &compared;
    start_bio(command, Op::read, 0, command.blocks.lba, command.blocks.blocks, {&command.piece, 1});
}

void have_unit(Command& command) noexcept {
    command.step = &have_workspace;
    if (command.nexus->claim_workspace(command)) have_workspace(command);
}

}  // namespace

std::uint8_t compare_and_write_blocks(const LogicalUnit& unit) noexcept {
    const std::size_t most = std::min<std::size_t>(Nexus::workspace_bytes, unit.options().max_transfer_bytes / 2);
    return static_cast<std::uint8_t>(std::min<std::size_t>(most >> unit.block_shift(), 255));
}

Plan plan_compare_and_write(Nexus& nexus, Command& command) noexcept {
    constexpr std::uint16_t count_offset = 13;
    command.blocks = {.operation = command.cdb[0],
                      .flags = command.cdb[1],
                      .lba = wire::scsi::cdb_field(command.cdb, 2, 8),
                      .blocks = command.cdb[count_offset]};
    if (auto refused = check_blocks(nexus, command)) return *refused;
    if ((command.blocks.flags & wire::scsi::block_protect) != 0) return refuse_field(command, 1, 7);
    if (command.blocks.blocks > compare_and_write_blocks(nexus.unit())) return refuse_field(command, count_offset);
    if (nexus.unit().device().read_only()) return refuse(command, SenseKey::data_protect, asc::write_protected);
    if (command.blocks.blocks == 0) return {};
    return {.direction = Direction::from_initiator, .bytes = 2 * command.blocks.blocks << nexus.unit().block_shift()};
}

void execute_compare_and_write(Command& command) noexcept {
    if (command.blocks.blocks == 0) return complete_good(command);
    if (memory::total_bytes(command.data) < command.bytes) {
        refuse(command, SenseKey::aborted_command, asc::data_phase_error);
        return command.nexus->complete(command);
    }
    if (command.nexus->channel() == nullptr) {  // closing
        set_answer(command, Status::aborted, true, command.blocks.lba);
        return command.nexus->complete(command);
    }
    command.step = &have_unit;
    command.nexus->unit().exclusion().begin(command);
}

}  // namespace mqblk::device::scsi
