// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/command_table.h"

#include "device/scsi/commands.h"

namespace mqblk::device::scsi {

namespace opcode = wire::scsi::opcode;
namespace asc = wire::scsi::asc;

namespace {

Plan plan_nothing(Nexus&, Command&) noexcept {
    return {};
}
void execute_nothing(Command& command) noexcept {
    complete_good(command);
}
Plan plan_unknown(Nexus&, Command& command) noexcept {
    return refuse(command, wire::scsi::SenseKey::illegal_request, asc::invalid_operation_code);
}

using Usage = std::array<std::uint8_t, 15>;

/// LBA and number of blocks of a command of 6, 10, 12 or 16 bytes.
constexpr Usage range_usage(std::uint8_t operation, std::uint8_t flags) {
    Usage usage{};
    usage[0] = flags;
    const unsigned bytes = wire::scsi::cdb_bytes(operation);
    if (bytes == 6) return {0x1f, 0xff, 0xff, 0xff};
    const unsigned count = wire::scsi::block_count_offset(operation);
    for (unsigned i = 2; i < (bytes == 16 ? 10u : 6u); ++i) usage[i - 1] = 0xff;
    for (unsigned i = count; i < count + (bytes == 10 ? 2u : 4u); ++i) usage[i - 1] = 0xff;
    return usage;
}

constexpr CommandInfo reads(std::uint8_t operation) {
    return {.operation = operation,
            .need = Need::reads,
            .plan = plan_transfer,
            .execute = execute_transfer,
            .usage = range_usage(operation, 0x18)};
}
constexpr CommandInfo writes(std::uint8_t operation) {
    return {.operation = operation,
            .changes_data = true,
            .plan = plan_transfer,
            .execute = execute_transfer,
            .usage = range_usage(operation, 0x18)};
}
constexpr CommandInfo verifies(std::uint8_t operation) {
    return {.operation = operation,
            .need = Need::reads,
            .plan = plan_verify,
            .execute = execute_verify,
            .usage = range_usage(operation, 0x16)};
}
constexpr CommandInfo synchronizes(std::uint8_t operation) {
    return {.operation = operation,
            .plan = plan_synchronize,
            .execute = execute_synchronize,
            .usage = range_usage(operation, 0x02)};
}
constexpr CommandInfo writes_same(std::uint8_t operation, std::uint8_t flags) {
    return {.operation = operation,
            .changes_data = true,
            .plan = plan_write_same,
            .execute = execute_write_same,
            .usage = range_usage(operation, flags)};
}
constexpr CommandInfo mode(std::uint8_t operation, bool select, Usage usage) {
    return {.operation = operation,
            .need = select ? Need::writes : Need::reads,
            .without_medium = true,
            .plan = select ? plan_mode_select : plan_mode_sense,
            .execute = select ? execute_mode_select : execute_mode_sense,
            .usage = usage};
}
constexpr CommandInfo buffer(std::uint8_t operation, Need need) {
    return {.operation = operation,
            .need = need,
            .without_medium = true,
            .plan = plan_buffer,
            .execute = execute_buffer,
            .usage = {0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
}
constexpr CommandInfo reserve_in(std::uint8_t action) {
    return {.operation = opcode::persistent_reserve_in,
            .need = Need::nothing,
            .without_medium = true,
            .plan = plan_reserve_in,
            .execute = execute_reserve_in,
            .action = static_cast<std::int8_t>(action),
            .usage = {action, 0, 0, 0, 0, 0, 0xff, 0xff}};
}
constexpr CommandInfo reserve_out(std::uint8_t action) {
    return {.operation = opcode::persistent_reserve_out,
            .need = Need::nothing,
            .without_medium = true,
            .plan = plan_reserve_out,
            .execute = execute_reserve_out,
            .action = static_cast<std::int8_t>(action),
            .usage = {action, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff}};
}

constexpr CommandInfo table[] = {
    {.operation = opcode::test_unit_ready, .need = Need::nothing, .plan = plan_nothing, .execute = execute_nothing},
    {.operation = opcode::request_sense,
     .need = Need::nothing,
     .always_answered = true,
     .plan = plan_request_sense,
     .execute = execute_request_sense,
     .usage = {0x01, 0, 0, 0xff}},
    reads(opcode::read_6),
    writes(opcode::write_6),
    {.operation = opcode::inquiry,
     .need = Need::nothing,
     .always_answered = true,
     .plan = plan_inquiry,
     .execute = execute_inquiry,
     .usage = {0x01, 0xff, 0xff, 0xff}},
    mode(opcode::mode_select_6, true, {0x11, 0, 0, 0xff}),
    mode(opcode::mode_sense_6, false, {0x08, 0xff, 0xff, 0xff}),
    {.operation = opcode::start_stop_unit,
     .without_medium = true,
     .plan = plan_nothing,
     .execute = execute_start_stop,
     .usage = {0x01, 0, 0, 0xf3}},
    {.operation = opcode::read_capacity_10, .need = Need::nothing, .plan = plan_capacity, .execute = execute_capacity},
    reads(opcode::read_10),
    writes(opcode::write_10),
    verifies(opcode::verify_10),
    synchronizes(opcode::synchronize_cache_10),
    buffer(opcode::write_buffer, Need::writes),
    buffer(opcode::read_buffer, Need::reads),
    writes_same(opcode::write_same_10, 0x08),
    {.operation = opcode::unmap,
     .changes_data = true,
     .plan = plan_unmap,
     .execute = execute_unmap,
     .usage = {0x01, 0, 0, 0, 0, 0, 0xff, 0xff}},
    mode(opcode::mode_select_10, true, {0x11, 0, 0, 0, 0, 0, 0xff, 0xff}),
    mode(opcode::mode_sense_10, false, {0x08, 0xff, 0xff, 0, 0, 0, 0xff, 0xff}),
    reserve_in(0),
    reserve_in(1),
    reserve_in(2),
    reserve_in(3),
    reserve_out(0),
    reserve_out(1),
    reserve_out(2),
    reserve_out(3),
    reserve_out(4),
    reserve_out(5),
    reserve_out(6),
    reads(opcode::read_16),
    {.operation = opcode::compare_and_write,
     .plan = plan_compare_and_write,
     .execute = execute_compare_and_write,
     .usage = {0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff}},
    writes(opcode::write_16),
    verifies(opcode::verify_16),
    synchronizes(opcode::synchronize_cache_16),
    writes_same(opcode::write_same_16, 0x09),
    {.operation = opcode::service_action_in_16,
     .need = Need::nothing,
     .plan = plan_capacity,
     .execute = execute_capacity,
     .action = wire::scsi::action_read_capacity_16,
     .usage = {wire::scsi::action_read_capacity_16, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
    {.operation = opcode::report_luns,
     .need = Need::nothing,
     .always_answered = true,
     .plan = plan_report_luns,
     .execute = execute_report_luns,
     .usage = {0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
    {.operation = opcode::maintenance_in,
     .need = Need::nothing,
     .without_medium = true,
     .plan = plan_operation_codes,
     .execute = execute_operation_codes,
     .action = wire::scsi::action_report_operation_codes,
     .usage = {wire::scsi::action_report_operation_codes, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
    reads(opcode::read_12),
    writes(opcode::write_12),
    verifies(opcode::verify_12),
};

constexpr CommandInfo unknown = {.need = Need::nothing, .plan = plan_unknown, .execute = execute_nothing};

constexpr std::array<const CommandInfo*, 256> make_index() {
    std::array<const CommandInfo*, 256> index{};
    index.fill(&unknown);
    for (const CommandInfo& info : table) {
        if (index[info.operation] == &unknown) index[info.operation] = &info;
    }
    return index;
}

constexpr std::array<const CommandInfo*, 256> by_operation = make_index();

}  // namespace

const CommandInfo& command_info(std::uint8_t operation) noexcept {
    return *by_operation[operation];
}

std::span<const CommandInfo> command_table() noexcept {
    return table;
}

bool is_supported(const CommandInfo& info, const LogicalUnit& unit) noexcept {
    switch (info.operation) {
        case opcode::persistent_reserve_in:
        case opcode::persistent_reserve_out:
            return unit.options().reservations;
        case opcode::unmap:
            return unit.can_unmap();
        default:
            return info.plan != plan_unknown;
    }
}

}  // namespace mqblk::device::scsi
