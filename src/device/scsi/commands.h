// SPDX-License-Identifier: Apache-2.0
//
// The disk's commands, by file. A plan_ function checks what can be checked before data moves; an execute_ function
// sees to it that the command ends. And how answers are made.
#pragma once

#include "device/scsi/command.h"
#include "device/scsi/nexus.h"

#include <mqblk/status.h>

#include <cstdint>
#include <optional>

namespace mqblk::device::scsi {

// answers.cpp: each sets status and sense.
Plan refuse(Command&, wire::scsi::SenseKey, std::uint16_t code) noexcept;
/// ILLEGAL REQUEST, invalid field in CDB: its byte and, where one bit is to blame, that bit.
Plan refuse_field(Command&, std::uint16_t byte, std::optional<std::uint8_t> bit = {}) noexcept;
Plan refuse_parameter(Command&, std::uint16_t byte, std::uint16_t code) noexcept;
/// LOGICAL BLOCK ADDRESS OUT OF RANGE with the first LBA in error.
Plan refuse_range(Command&, std::uint64_t lba) noexcept;
/// How a device's status is told. `lba`: where the bio began.
void set_answer(Command&, Status, bool write, std::uint64_t lba) noexcept;
/// Ends an executed command.
void complete_good(Command&, std::uint32_t transferred = 0) noexcept;
/// Ends an executed command whose data is `page`, as far as it was asked for and there is room.
void complete_page(Command&, std::span<const std::byte> page) noexcept;
/// Copies all of T out of the initiator's data; false if it is shorter.
template <class T>
[[nodiscard]] bool copy_parameter(const Command& command, std::size_t offset, T& to) noexcept;
[[nodiscard]] bool copy_parameter_bytes(const Command&, std::size_t offset, std::span<std::byte> to) noexcept;
template <class T>
bool copy_parameter(const Command& command, std::size_t offset, T& to) noexcept {
    return copy_parameter_bytes(command, offset, std::as_writable_bytes(std::span(&to, 1)));
}

// media.cpp: READ, WRITE, SYNCHRONIZE CACHE; what all commands about blocks share.
[[nodiscard]] Plan plan_transfer(Nexus&, Command&) noexcept;
void execute_transfer(Command&) noexcept;
[[nodiscard]] Plan plan_synchronize(Nexus&, Command&) noexcept;
void execute_synchronize(Command&) noexcept;
/// Parses command.blocks and checks the range. Nothing if it is good.
[[nodiscard]] std::optional<Plan> check_range(Nexus&, Command&) noexcept;
/// Checks the range that is in command.blocks.
[[nodiscard]] std::optional<Plan> check_blocks(Nexus&, Command&) noexcept;
/// The flags of a bio that writes: the initiator's FUA, and the write cache being off.
[[nodiscard]] std::uint8_t write_flags(const Command&) noexcept;
/// Submits command.bio. When it ends command.step runs if there is one, else the command ends.
void start_bio(Command&, Op, std::uint8_t flags, std::uint64_t lba, std::uint64_t blocks, Segments) noexcept;

// ranges.cpp: VERIFY, WRITE SAME, UNMAP.
[[nodiscard]] Plan plan_verify(Nexus&, Command&) noexcept;
void execute_verify(Command&) noexcept;
[[nodiscard]] Plan plan_write_same(Nexus&, Command&) noexcept;
void execute_write_same(Command&) noexcept;
[[nodiscard]] Plan plan_unmap(Nexus&, Command&) noexcept;
void execute_unmap(Command&) noexcept;

// compare_and_write.cpp
/// The most blocks of one COMPARE AND WRITE.
[[nodiscard]] std::uint8_t compare_and_write_blocks(const LogicalUnit&) noexcept;
[[nodiscard]] Plan plan_compare_and_write(Nexus&, Command&) noexcept;
void execute_compare_and_write(Command&) noexcept;

// reserve_in.cpp, reserve_out.cpp: PERSISTENT RESERVE IN and OUT.
[[nodiscard]] Plan plan_reserve_in(Nexus&, Command&) noexcept;
void execute_reserve_in(Command&) noexcept;
[[nodiscard]] Plan plan_reserve_out(Nexus&, Command&) noexcept;
void execute_reserve_out(Command&) noexcept;

// operation_codes.cpp: REPORT SUPPORTED OPERATION CODES.
[[nodiscard]] Plan plan_operation_codes(Nexus&, Command&) noexcept;
void execute_operation_codes(Command&) noexcept;

// inquiry.cpp
[[nodiscard]] Plan plan_inquiry(Nexus&, Command&) noexcept;
void execute_inquiry(Command&) noexcept;

// modes.cpp: MODE SENSE and MODE SELECT of 6 and 10 bytes.
[[nodiscard]] Plan plan_mode_sense(Nexus&, Command&) noexcept;
void execute_mode_sense(Command&) noexcept;
[[nodiscard]] Plan plan_mode_select(Nexus&, Command&) noexcept;
void execute_mode_select(Command&) noexcept;

// control.cpp: capacity, sense, LUNs, START STOP UNIT, buffers.
[[nodiscard]] Plan plan_capacity(Nexus&, Command&) noexcept;
void execute_capacity(Command&) noexcept;
[[nodiscard]] Plan plan_request_sense(Nexus&, Command&) noexcept;
void execute_request_sense(Command&) noexcept;
[[nodiscard]] Plan plan_report_luns(Nexus&, Command&) noexcept;
void execute_report_luns(Command&) noexcept;
void execute_start_stop(Command&) noexcept;
[[nodiscard]] Plan plan_buffer(Nexus&, Command&) noexcept;
void execute_buffer(Command&) noexcept;

}  // namespace mqblk::device::scsi
