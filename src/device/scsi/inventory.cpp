// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/inventory.h"

#include "device/scsi/commands.h"
#include "memory/segments.h"
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <cstring>

namespace mqblk::device::scsi {

namespace opcode = wire::scsi::opcode;
namespace asc = wire::scsi::asc;
using wire::scsi::cdb_field;
using wire::scsi::SenseKey;

namespace {

constexpr std::uint8_t only_well_known = 1;

void absent_inquiry(Command& command) noexcept {
    wire::scsi::InquiryData data;
    data.peripheral = wire::scsi::peripheral_no_unit;
    data.additional_bytes = sizeof data - 5;
    complete_page(command, std::as_bytes(std::span(&data, 1)));
}

void absent_sense(Command& command) noexcept {
    const auto sense =
        wire::scsi::build_fixed_sense({.key = SenseKey::illegal_request, .code = asc::logical_unit_not_supported});
    complete_page(command, std::as_bytes(std::span(&sense, 1)));
}

Plan to_initiator(Command& command, std::uint64_t bytes) noexcept {
    command.bytes = static_cast<std::uint32_t>(bytes);
    return {.direction = bytes == 0 ? Direction::none : Direction::to_initiator, .bytes = command.bytes};
}

}  // namespace

Plan Inventory::plan(Command& command) const noexcept {
    command.nexus = nullptr;
    command.status = wire::scsi::Status::good;
    command.step = nullptr;
    command.transferred = 0;
    command.writes = command.submitted = command.cancelled = false;
    switch (command.cdb[0]) {
        case opcode::report_luns: {
            const std::uint64_t bytes = cdb_field(command.cdb, 6, 4);
            if (command.cdb[2] > 2) return refuse_field(command, 2);
            if (bytes < 16) return refuse_field(command, 6);
            return to_initiator(command, bytes);
        }
        case opcode::inquiry:
            if ((command.cdb[1] & 3) != 0 || command.cdb[2] != 0) return refuse_field(command, 2);
            return to_initiator(command, cdb_field(command.cdb, 3, 2));
        case opcode::request_sense:
            return to_initiator(command, command.cdb[4]);
        default:
            return refuse(command, SenseKey::illegal_request, asc::logical_unit_not_supported);
    }
}

void Inventory::report_luns(Command& command) const noexcept {
    const bool none = command.cdb[2] == only_well_known;
    const std::size_t count = none ? 0 : luns_.size();
    memory::SegmentCursor to(command.data);
    std::uint32_t written = 0;
    const auto add = [&](const auto& value) {
        const auto* from = reinterpret_cast<const std::byte*>(&value);
        for (std::size_t left = std::min<std::size_t>(sizeof value, command.bytes - written); left > 0;) {
            const Segment piece = to.take(left);
            if (piece.bytes == 0) return;
            std::memcpy(piece.data, from, piece.bytes);
            from += piece.bytes;
            left -= piece.bytes;
            written += static_cast<std::uint32_t>(piece.bytes);
        }
    };
    add(wire::scsi::LunListHeader{.bytes = static_cast<std::uint32_t>(count * sizeof(be64))});
    for (std::size_t i = 0; i < count; ++i) add(be64(luns_[i]));
    complete_good(command, written);
}

void Inventory::execute(Command& command) const noexcept {
    switch (command.cdb[0]) {
        case opcode::report_luns:
            return report_luns(command);
        case opcode::inquiry:
            return absent_inquiry(command);
        default:
            return absent_sense(command);
    }
}

}  // namespace mqblk::device::scsi
