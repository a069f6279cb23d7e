// SPDX-License-Identifier: Apache-2.0
//
// VERIFY (SBC-3 5.25 to 5.27), WRITE SAME (5.42, 5.43) and UNMAP (5.28): commands of several bios, one after the other.
// Those that move data of the disk's own do so through the nexus's workspace, one command at a time.
#include "device/scsi/commands.h"
#include "memory/segments.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mqblk::device::scsi {

namespace opcode = wire::scsi::opcode;
namespace asc = wire::scsi::asc;
using wire::scsi::SenseKey;
using wire::scsi::UnmapDescriptor;
using wire::scsi::UnmapHeader;

namespace {

/// Ends a command that holds the workspace.
void complete_with_workspace(Command& command) noexcept {
    Nexus& nexus = *command.nexus;
    nexus.complete(command);
    nexus.give_back_workspace();
}

/// Where the bio that has just ended began.
std::uint64_t bio_lba(const Command& command) noexcept {
    return command.bio.sector >> (command.nexus->unit().block_shift() - 9);
}

/// Starts a bio for the next part of the range, through the workspace.
void start_part(Command& command, Op op, std::uint8_t flags) noexcept {
    Nexus& nexus = *command.nexus;
    const unsigned shift = nexus.unit().block_shift();
    const std::uint64_t count =
        std::min<std::uint64_t>(command.blocks.blocks - command.position, Nexus::workspace_bytes >> shift);
    command.piece = {nexus.workspace().data(), count << shift};
    const std::uint64_t first = command.blocks.lba + command.position;
    command.position += count;
    start_bio(command, op, flags, first, count, {&command.piece, 1});
}

bool compares(const Command& command) noexcept {
    return (command.blocks.flags & wire::scsi::block_byte_check) != 0;
}

/// BYTCHK 11b: one block of data, that each block is to equal.
bool compares_one_block(const Command& command) noexcept {
    return (command.blocks.flags & wire::scsi::block_byte_check_one) == wire::scsi::block_byte_check_one;
}

/// `bytes` of what was just read against the initiator's data from `offset` on.
bool is_equal(const Command& command, const std::byte* read, std::size_t bytes, std::uint64_t offset) noexcept {
    memory::SegmentCursor data(command.data);
    if (data.skip(offset) != offset) return false;
    for (std::size_t done = 0; done < bytes;) {
        const Segment other = data.take(bytes - done);
        if (other.bytes == 0 || std::memcmp(read + done, other.data, other.bytes) != 0) return false;
        done += other.bytes;
    }
    return true;
}

bool part_is_equal(const Command& command) noexcept {
    const Segment& part = command.piece;
    if (!compares_one_block(command)) {
        const unsigned shift = command.nexus->unit().block_shift();
        return is_equal(command, part.data, part.bytes, (bio_lba(command) - command.blocks.lba) << shift);
    }
    const std::uint32_t block = command.nexus->unit().block_bytes();
    for (std::size_t at = 0; at < part.bytes; at += block) {
        if (!is_equal(command, part.data + at, block, 0)) return false;
    }
    return true;
}

void verify_step(Command& command) noexcept {
    if (command.position > 0) {
        const Status result = command.bio.status;
        if (result != Status::ok || (compares(command) && !part_is_equal(command))) {
            set_answer(command, result == Status::ok ? Status::miscompare : result, false, bio_lba(command));
            return complete_with_workspace(command);
        }
    }
    if (command.position < command.blocks.blocks) return start_part(command, Op::read, 0);
    command.transferred = command.bytes;
    complete_with_workspace(command);
}

/// The block to write everywhere. False: the initiator sent less than a block.
bool take_pattern(const Command& command, std::span<std::byte> block) noexcept {
    if ((command.blocks.flags & wire::scsi::block_no_data) != 0 && command.bytes == 0) {
        std::ranges::fill(block, std::byte{0});
        return true;
    }
    return copy_parameter_bytes(command, 0, block);
}

void write_same_step(Command& command) noexcept {
    Nexus& nexus = *command.nexus;
    if (command.position == 0) {
        // The first call: the workspace is this command's now.
        const std::size_t block = nexus.unit().block_bytes();
        const std::span<std::byte> space = nexus.workspace();
        if (!take_pattern(command, space.first(block))) std::ranges::fill(space.first(block), std::byte{0});
        for (std::size_t at = block; at < space.size(); at += block)
            std::memcpy(space.data() + at, space.data(), block);
    } else if (command.bio.status != Status::ok) {
        set_answer(command, command.bio.status, true, bio_lba(command));
        return complete_with_workspace(command);
    }
    if (command.position < command.blocks.blocks) return start_part(command, Op::write, write_flags(command));
    command.transferred = command.bytes;
    complete_with_workspace(command);
}

}  // namespace

Plan plan_verify(Nexus& nexus, Command& command) noexcept {
    if (auto refused = check_range(nexus, command)) return *refused;
    const wire::scsi::BlockCdb& cdb = command.blocks;
    if ((cdb.flags & wire::scsi::block_protect) != 0) return refuse_field(command, 1, 7);
    if ((cdb.flags & wire::scsi::block_byte_check_one) == 0x04) return refuse_field(command, 1, 2);  // BYTCHK 10b
    if (!compares(command) || compares_one_block(command)) {
        if (cdb.blocks > LogicalUnit::max_range_blocks)
            return refuse_field(command, wire::scsi::block_count_offset(cdb.operation));
        if (!compares(command)) return {};
        return {.direction = Direction::from_initiator,
                .bytes = nexus.unit().block_bytes(),
                .granule = nexus.unit().block_bytes()};
    }
    const std::uint64_t bytes = std::uint64_t{cdb.blocks} << nexus.unit().block_shift();
    if (bytes > nexus.unit().options().max_transfer_bytes)
        return refuse_field(command, wire::scsi::block_count_offset(cdb.operation));
    return {.direction = Direction::from_initiator,
            .bytes = static_cast<std::uint32_t>(bytes),
            .granule = nexus.unit().block_bytes()};
}

void execute_verify(Command& command) noexcept {
    if (command.blocks.blocks == 0) return complete_good(command);
    if (compares(command) && memory::total_bytes(command.data) < command.bytes) {
        refuse(command, SenseKey::aborted_command, asc::data_phase_error);
        return command.nexus->complete(command);
    }
    command.step = &verify_step;
    if (command.nexus->claim_workspace(command)) verify_step(command);
}

Plan plan_write_same(Nexus& nexus, Command& command) noexcept {
    if (auto refused = check_range(nexus, command)) return *refused;
    const wire::scsi::BlockCdb& cdb = command.blocks;
    const bool no_data = (cdb.flags & wire::scsi::block_no_data) != 0;
    if ((cdb.flags & wire::scsi::block_protect) != 0) return refuse_field(command, 1, 7);
    if ((cdb.flags & wire::scsi::block_anchor) != 0) return refuse_field(command, 1, 4);
    if ((cdb.flags & 0x06) != 0) return refuse_field(command, 1, 2);  // PBDATA and LBDATA, obsolete
    if (no_data && cdb.operation != opcode::write_same_16) return refuse_field(command, 1, 0);
    if (cdb.blocks == 0 || cdb.blocks > LogicalUnit::max_range_blocks)
        return refuse_field(command, wire::scsi::block_count_offset(cdb.operation));
    if (nexus.unit().device().read_only()) return refuse(command, SenseKey::data_protect, asc::write_protected);
    if (no_data) return {};
    return {.direction = Direction::from_initiator,
            .bytes = nexus.unit().block_bytes(),
            .granule = nexus.unit().block_bytes()};
}

void execute_write_same(Command& command) noexcept {
    Nexus& nexus = *command.nexus;
    alignas(8) std::array<std::byte, 4096> room;
    const std::span<std::byte> block = std::span(room).first(nexus.unit().block_bytes());
    if (!take_pattern(command, block)) {
        refuse(command, SenseKey::aborted_command, asc::data_phase_error);
        return nexus.complete(command);
    }
    const bool zero = std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
    if (zero && nexus.unit().can_zero()) {
        const std::uint8_t unmap = (command.blocks.flags & wire::scsi::block_unmap) != 0 ? bio_unmap : 0;
        return start_bio(command, Op::write_zeroes, write_flags(command) | unmap, command.blocks.lba,
                         command.blocks.blocks, {});
    }
    command.step = &write_same_step;
    if (nexus.claim_workspace(command)) write_same_step(command);
}

namespace {

constexpr std::size_t descriptor_offset(std::uint64_t index) noexcept {
    return sizeof(UnmapHeader) + index * sizeof(UnmapDescriptor);
}

/// Descriptors that the list holds whole; nothing: it holds no header.
std::optional<std::uint32_t> unmap_descriptors(const Command& command) noexcept {
    UnmapHeader header;
    if (!copy_parameter(command, 0, header)) return std::nullopt;
    const std::size_t room = command.bytes - sizeof header;
    return static_cast<std::uint32_t>(std::min<std::size_t>(header.descriptor_bytes, room) / sizeof(UnmapDescriptor));
}

void unmap_step(Command& command) noexcept {
    if (command.position > 0 && command.bio.status != Status::ok) {
        set_answer(command, command.bio.status, true, bio_lba(command));
        return command.nexus->complete(command);
    }
    while (command.position < command.blocks.blocks) {
        UnmapDescriptor range;
        const bool copied = copy_parameter(command, descriptor_offset(command.position++), range);
        if (!copied || range.blocks == 0) {
            command.bio.status = Status::ok;
            continue;
        }
        return start_bio(command, Op::discard, 0, range.lba, range.blocks, {});
    }
    complete_good(command, command.bytes);
}

/// All ranges are good before the first is discarded.
bool check_unmap(Command& command, std::uint32_t descriptors) noexcept {
    if (descriptors > LogicalUnit::max_unmap_descriptors) {
        refuse_parameter(command, 2, asc::invalid_field_in_parameter_list);
        return false;
    }
    const std::uint64_t size = command.nexus->unit().blocks();
    for (std::uint32_t i = 0; i < descriptors; ++i) {
        UnmapDescriptor range;
        if (!copy_parameter(command, descriptor_offset(i), range)) {
            refuse_parameter(command, 0, asc::parameter_list_length_error);
            return false;
        }
        if (range.lba > size || range.blocks > size - range.lba) {
            refuse_range(command, range.lba);
            return false;
        }
        if (range.blocks > LogicalUnit::max_range_blocks) {
            refuse_parameter(command, static_cast<std::uint16_t>(descriptor_offset(i) + 8),
                             asc::invalid_field_in_parameter_list);
            return false;
        }
    }
    return true;
}

}  // namespace

Plan plan_unmap(Nexus& nexus, Command& command) noexcept {
    if (!nexus.unit().can_unmap()) return refuse(command, SenseKey::illegal_request, asc::invalid_operation_code);
    if ((command.cdb[1] & 1) != 0) return refuse_field(command, 1, 0);
    if (nexus.unit().device().read_only()) return refuse(command, SenseKey::data_protect, asc::write_protected);
    const auto bytes = static_cast<std::uint32_t>(wire::scsi::cdb_field(command.cdb, 7, 2));
    if (bytes == 0) return {};
    if (bytes < sizeof(UnmapHeader)) return refuse_parameter(command, 0, asc::parameter_list_length_error);
    return {.direction = Direction::from_initiator, .bytes = bytes};
}

void execute_unmap(Command& command) noexcept {
    if (command.bytes == 0) return complete_good(command);
    const auto descriptors = unmap_descriptors(command);
    if (!descriptors) {
        refuse_parameter(command, 0, asc::parameter_list_length_error);
        return command.nexus->complete(command);
    }
    if (!check_unmap(command, *descriptors)) return command.nexus->complete(command);
    command.blocks = {.operation = opcode::unmap, .blocks = *descriptors};
    command.bio.status = Status::ok;
    command.step = &unmap_step;
    unmap_step(command);
}

}  // namespace mqblk::device::scsi
