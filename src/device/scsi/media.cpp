// SPDX-License-Identifier: Apache-2.0
//
// READ, WRITE and SYNCHRONIZE CACHE of every length (SBC-3 5.8 to 5.11, 5.22, 5.32 to 5.35): the data path. No lock, no
// allocation. Data of which the initiator gave less than the command asks for moves in whole blocks.
#include "device/scsi/commands.h"
#include "memory/segments.h"

#include <algorithm>

namespace mqblk::device::scsi {

namespace opcode = wire::scsi::opcode;
namespace asc = wire::scsi::asc;
using wire::scsi::BlockCdb;
using wire::scsi::SenseKey;

namespace {

bool is_write(std::uint8_t operation) noexcept {
    switch (operation) {
        case opcode::write_6:
        case opcode::write_10:
        case opcode::write_12:
        case opcode::write_16:
        case opcode::compare_and_write:
            return true;
        default:
            return false;
    }
}

void media_bio_done(Bio& bio) noexcept {
    auto& command = *static_cast<Command*>(bio.context);
    command.submitted = false;
    if (command.step != nullptr) return command.step(command);
    if (bio.status == Status::ok) [[likely]] {
        return complete_good(command,
                             carries_data(bio.op) ? static_cast<std::uint32_t>(bio.sectors * sector_bytes) : 0);
    }
    set_answer(command, bio.status, bio.op != Op::read, command.blocks.lba);
    command.nexus->complete(command);
}

}  // namespace

void start_bio(Command& command, Op op, std::uint8_t flags, std::uint64_t lba, std::uint64_t blocks,
               Segments data) noexcept {
    Nexus& nexus = *command.nexus;
    const unsigned shift = nexus.unit().block_shift() - 9;
    // A transport's buffer still holds what another command left in it.
    if (op == Op::read && nexus.unit().reads_nothing()) [[unlikely]]
        memory::fill(data, std::byte{0});
    Bio& bio = command.bio;
    bio.op = op;
    bio.flags = flags;
    bio.sector = lba << shift;
    bio.sectors = blocks << shift;
    bio.data = data;
    bio.done = &media_bio_done;
    bio.context = &command;
    Channel* const channel = nexus.channel();
    if (channel != nullptr && !command.cancelled) [[likely]] {
        command.submitted = true;
        return channel->submit(bio);
    }
    bio.status = Status::aborted;
    media_bio_done(bio);
}

std::optional<Plan> check_range(Nexus& nexus, Command& command) noexcept {
    command.blocks = *wire::scsi::parse_blocks(command.cdb);
    return check_blocks(nexus, command);
}

std::optional<Plan> check_blocks(Nexus& nexus, Command& command) noexcept {
    const BlockCdb& cdb = command.blocks;
    const std::uint64_t size = nexus.unit().blocks();
    if (cdb.lba > size || cdb.blocks > size - cdb.lba) [[unlikely]]
        return refuse_range(command, std::max(cdb.lba, size));
    // A range of none must begin within the disk, too.
    if (cdb.lba == size) [[unlikely]]
        return refuse_range(command, cdb.lba);
    return std::nullopt;
}

std::uint8_t write_flags(const Command& command) noexcept {
    // Bits 1 and 3 of byte 1 are FUA_NV and FUA; the disk has no cache that would survive a loss of power, so both mean
    // the medium. In other commands these bits are others'.
    constexpr std::uint8_t fua = wire::scsi::block_fua | wire::scsi::block_fua_nv;
    const bool wanted = is_write(command.cdb[0]) && (command.blocks.flags & fua) != 0;
    return wanted || !command.nexus->unit().write_cache() ? bio_fua : 0;
}

Plan plan_transfer(Nexus& nexus, Command& command) noexcept {
    if (auto refused = check_range(nexus, command)) [[unlikely]]
        return *refused;
    const BlockCdb& cdb = command.blocks;
    const LogicalUnit& unit = nexus.unit();
    const bool write = is_write(cdb.operation);
    if ((cdb.flags & wire::scsi::block_protect) != 0) [[unlikely]]
        return refuse_field(command, 1, 7);
    const std::uint64_t bytes = std::uint64_t{cdb.blocks} << unit.block_shift();
    if (bytes > unit.options().max_transfer_bytes) [[unlikely]]
        return refuse_field(command, wire::scsi::block_count_offset(cdb.operation));
    if (write && unit.device().read_only()) [[unlikely]]
        return refuse(command, SenseKey::data_protect, asc::write_protected);
    return {.direction = write ? Direction::from_initiator : Direction::to_initiator,
            .bytes = static_cast<std::uint32_t>(bytes),
            .granule = unit.block_bytes(),
            .memory_mask = unit.memory_mask()};
}

void execute_transfer(Command& command) noexcept {
    const unsigned shift = command.nexus->unit().block_shift();
    std::uint64_t given = 0;
    for (const Segment& segment : command.data) given += segment.bytes;
    std::uint64_t blocks = command.blocks.blocks;
    if (given != command.bytes) [[unlikely]] {
        blocks = given >> shift;
        if (given != blocks << shift || given > command.bytes) {
            refuse(command, SenseKey::aborted_command, asc::data_phase_error);
            return command.nexus->complete(command);
        }
    }
    if (blocks == 0) [[unlikely]]
        return complete_good(command);
    const bool write = is_write(command.cdb[0]);
    start_bio(command, write ? Op::write : Op::read, write ? write_flags(command) : 0, command.blocks.lba, blocks,
              command.data);
}

Plan plan_synchronize(Nexus& nexus, Command& command) noexcept {
    if (auto refused = check_range(nexus, command)) return *refused;
    return {};
}

void execute_synchronize(Command& command) noexcept {
    start_bio(command, Op::flush, 0, 0, 0, {});
}

}  // namespace mqblk::device::scsi
