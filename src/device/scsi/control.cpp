// SPDX-License-Identifier: Apache-2.0
//
// READ CAPACITY (SBC-3 5.15, 5.16), REQUEST SENSE, REPORT LUNS, READ BUFFER and WRITE BUFFER (SPC-4 6.39, 6.33, 6.16,
// 6.49), START STOP UNIT (SBC-3 5.24).
#include "device/scsi/commands.h"
#include "memory/segments.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace mqblk::device::scsi {

namespace opcode = wire::scsi::opcode;
namespace asc = wire::scsi::asc;
using wire::scsi::cdb_field;

namespace {

template <class T>
void complete_value(Command& command, const T& value) noexcept {
    complete_page(command, std::as_bytes(std::span(&value, 1)));
}

}  // namespace

Plan plan_capacity(Nexus&, Command& command) noexcept {
    if (command.cdb[0] == opcode::read_capacity_10) {
        if ((command.cdb[8] & 1) == 0 && cdb_field(command.cdb, 2, 4) != 0) return refuse_field(command, 2);  // PMI
        return {.direction = Direction::to_initiator, .bytes = sizeof(wire::scsi::Capacity10)};
    }
    if ((command.cdb[1] & 0x1f) != wire::scsi::action_read_capacity_16) return refuse_field(command, 1, 4);
    return {.direction = Direction::to_initiator, .bytes = static_cast<std::uint32_t>(cdb_field(command.cdb, 10, 4))};
}

void execute_capacity(Command& command) noexcept {
    const LogicalUnit& unit = command.nexus->unit();
    const std::uint64_t last = std::max<std::uint64_t>(unit.blocks(), 1) - 1;
    if (command.cdb[0] == opcode::read_capacity_10) {
        return complete_value(
            command,
            wire::scsi::Capacity10{.last_lba = static_cast<std::uint32_t>(std::min<std::uint64_t>(last, UINT32_MAX)),
                                   .block_bytes = unit.block_bytes()});
    }
    const QueueLimits limits = unit.device().limits();
    wire::scsi::Capacity16 capacity;
    capacity.last_lba = last;
    capacity.block_bytes = unit.block_bytes();
    const auto ratio =
        std::bit_width(std::max(limits.physical_block_size, unit.block_bytes()) / unit.block_bytes()) - 1;
    capacity.exponents = static_cast<std::uint8_t>(std::min<int>(ratio, 15));
    capacity.lowest_aligned = unit.can_unmap() ? wire::scsi::capacity_lbpme : std::uint16_t{0};
    complete_value(command, capacity);
}

Plan plan_request_sense(Nexus&, Command& command) noexcept {
    return {.direction = command.cdb[4] == 0 ? Direction::none : Direction::to_initiator, .bytes = command.cdb[4]};
}

void execute_request_sense(Command& command) noexcept {
    Nexus& nexus = *command.nexus;
    wire::scsi::Sense sense;
    if (const std::uint16_t attention = nexus.initiator().take_attention(); attention != 0) {
        sense = {.key = wire::scsi::SenseKey::unit_attention, .code = attention};
    } else if (nexus.unit().stopped()) {
        sense = {.key = wire::scsi::SenseKey::not_ready, .code = asc::initializing_command_required};
    }
    if ((command.cdb[1] & 1) == 0) return complete_value(command, wire::scsi::build_fixed_sense(sense));
    std::array<std::uint8_t, wire::scsi::descriptor_sense_bytes> bytes;
    const std::size_t used = wire::scsi::build_descriptor_sense(sense, bytes);
    complete_page(command, std::as_bytes(std::span(bytes).first(used)));
}

Plan plan_report_luns(Nexus&, Command& command) noexcept {
    const auto bytes = static_cast<std::uint32_t>(cdb_field(command.cdb, 6, 4));
    if (command.cdb[2] > 2) return refuse_field(command, 2);  // which LUNs: all, well known, both
    if (bytes < 16) return refuse_field(command, 6);
    return {.direction = Direction::to_initiator, .bytes = bytes};
}

void execute_report_luns(Command& command) noexcept {
    struct {
        wire::scsi::LunListHeader header{.bytes = 8};
        be64 lun{};
    } list;
    if (command.cdb[2] == 1) list.header.bytes = 0;  // there are no well known ones
    complete_page(command, std::as_bytes(std::span(&list, 1)).first(list.header.bytes + sizeof list.header));
}

void execute_start_stop(Command& command) noexcept {
    constexpr std::uint8_t power_condition = 0xf0, load_eject = 0x02, start = 0x01;
    if ((command.cdb[4] & load_eject) != 0) {
        refuse_field(command, 4, 1);
        return command.nexus->complete(command);
    }
    if ((command.cdb[4] & power_condition) == 0) command.nexus->unit().set_stopped((command.cdb[4] & start) == 0);
    complete_good(command);
}

namespace {

constexpr std::uint8_t buffer_mode_descriptor = 0x03;

std::size_t buffer_offset(const Command& command) noexcept {
    return static_cast<std::size_t>(cdb_field(command.cdb, 3, 3));
}

}  // namespace

Plan plan_buffer(Nexus&, Command& command) noexcept {
    const std::uint8_t mode = command.cdb[1] & 0x1f;
    const bool write = command.cdb[0] == opcode::write_buffer;
    const auto bytes = static_cast<std::uint32_t>(cdb_field(command.cdb, 6, 3));
    if (mode != wire::scsi::buffer_mode_data && (write || mode != buffer_mode_descriptor))
        return refuse_field(command, 1, 4);
    if (command.cdb[2] != 0) return refuse_field(command, 2);  // there is one buffer
    if (buffer_offset(command) > Nexus::data_buffer_bytes) return refuse_field(command, 3);
    if (write) {
        if (bytes > Nexus::data_buffer_bytes - buffer_offset(command)) return refuse_field(command, 6);
        return {.direction = bytes == 0 ? Direction::none : Direction::from_initiator, .bytes = bytes};
    }
    return {.direction = bytes == 0 ? Direction::none : Direction::to_initiator, .bytes = bytes};
}

void execute_buffer(Command& command) noexcept {
    const std::span<std::byte> buffer = command.nexus->data_buffer().subspan(buffer_offset(command));
    if (command.cdb[0] == opcode::write_buffer) {
        const auto copied = memory::copy(buffer.first(command.bytes), command.data);
        return complete_good(command, static_cast<std::uint32_t>(copied));
    }
    if ((command.cdb[1] & 0x1f) == buffer_mode_descriptor) {
        // Offsets may be any; the capacity in the three bytes behind.
        return complete_value(command, be32(Nexus::data_buffer_bytes));
    }
    complete_page(command, buffer);
}

}  // namespace mqblk::device::scsi
