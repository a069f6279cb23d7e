// SPDX-License-Identifier: Apache-2.0
//
// CDBs, made and read: offsets by the figures of SBC-3 and SPC-4.
#include "wire/scsi_cdb.h"

namespace mqblk::wire::scsi {
namespace {

void put_field(Cdb& cdb, unsigned offset, unsigned bytes, std::uint64_t value) noexcept {
    for (unsigned i = bytes; i-- > 0; value >>= 8) cdb[offset + i] = static_cast<std::uint8_t>(value);
}

Cdb make_cdb(std::uint8_t operation, unsigned length_offset = 0, unsigned length_bytes = 0,
             std::uint64_t length = 0) noexcept {
    Cdb cdb{};
    cdb[0] = operation;
    put_field(cdb, length_offset, length_bytes, length);
    return cdb;
}

Cdb make_transfer(std::uint8_t short_operation, std::uint8_t long_operation, std::uint64_t lba, std::uint32_t blocks,
                  std::uint8_t flags) noexcept {
    const bool fits = lba <= UINT32_MAX && blocks <= UINT16_MAX;
    return build_blocks(
        {.operation = fits ? short_operation : long_operation, .flags = flags, .lba = lba, .blocks = blocks});
}

}  // namespace

std::optional<BlockCdb> parse_blocks(const Cdb& cdb) noexcept {
    if (!names_blocks(cdb[0])) return std::nullopt;
    BlockCdb result{.operation = cdb[0]};
    switch (cdb_bytes(cdb[0])) {
        case 6:
            result.lba = cdb_field(cdb, 1, 3) & 0x1fffff;
            result.blocks = cdb[4] != 0 ? cdb[4] : 256;
            result.control = cdb[5];
            return result;
        case 10:
            result.lba = cdb_field(cdb, 2, 4);
            result.group = cdb[6];
            result.blocks = static_cast<std::uint32_t>(cdb_field(cdb, 7, 2));
            result.control = cdb[9];
            break;
        case 12:
            result.lba = cdb_field(cdb, 2, 4);
            result.blocks = static_cast<std::uint32_t>(cdb_field(cdb, 6, 4));
            result.group = cdb[10];
            result.control = cdb[11];
            break;
        default:
            result.lba = cdb_field(cdb, 2, 8);
            result.blocks = static_cast<std::uint32_t>(cdb_field(cdb, 10, 4));
            result.group = cdb[14];
            result.control = cdb[15];
            break;
    }
    result.flags = cdb[1];
    return result;
}

Cdb build_blocks(const BlockCdb& command) noexcept {
    Cdb cdb{};
    const unsigned bytes = cdb_bytes(command.operation);
    if (bytes == 6) {
        put_field(cdb, 1, 3, command.lba & 0x1fffff);
        cdb[4] = static_cast<std::uint8_t>(command.blocks);
        cdb[5] = command.control;
    } else {
        cdb[1] = command.flags;
        put_field(cdb, 2, bytes == 16 ? 8 : 4, command.lba);
        put_field(cdb, block_count_offset(command.operation), bytes == 10 ? 2 : 4, command.blocks);
        cdb[bytes == 10 ? 6 : bytes - 2] = command.group;
        cdb[bytes == 10 ? 9 : bytes - 1] = command.control;
    }
    cdb[0] = command.operation;
    return cdb;
}

Cdb build_read(std::uint64_t lba, std::uint32_t blocks, std::uint8_t flags) noexcept {
    return make_transfer(opcode::read_10, opcode::read_16, lba, blocks, flags);
}

Cdb build_write(std::uint64_t lba, std::uint32_t blocks, std::uint8_t flags) noexcept {
    return make_transfer(opcode::write_10, opcode::write_16, lba, blocks, flags);
}

Cdb build_synchronize_cache() noexcept {
    return make_cdb(opcode::synchronize_cache_10);
}

Cdb build_write_same(std::uint64_t lba, std::uint32_t blocks, bool unmap) noexcept {
    return build_blocks({.operation = opcode::write_same_16,
                         .flags = static_cast<std::uint8_t>(unmap ? block_unmap : 0),
                         .lba = lba,
                         .blocks = blocks});
}

Cdb build_unmap(std::uint16_t parameter_bytes, bool anchor) noexcept {
    Cdb cdb = make_cdb(opcode::unmap, 7, 2, parameter_bytes);
    if (anchor) cdb[1] = 1;
    return cdb;
}

Cdb build_compare_and_write(std::uint64_t lba, std::uint8_t blocks, std::uint8_t flags) noexcept {
    Cdb cdb = make_cdb(opcode::compare_and_write, 2, 8, lba);
    cdb[1] = flags;
    cdb[13] = blocks;
    return cdb;
}

Cdb build_persistent_reserve_in(std::uint8_t action, std::uint16_t allocation_bytes) noexcept {
    Cdb cdb = make_cdb(opcode::persistent_reserve_in, 7, 2, allocation_bytes);
    cdb[1] = action;
    return cdb;
}

Cdb build_persistent_reserve_out(std::uint8_t action, std::uint8_t type) noexcept {
    Cdb cdb = make_cdb(opcode::persistent_reserve_out, 5, 4, 24);
    cdb[1] = action;
    cdb[2] = type;
    return cdb;
}

Cdb build_report_operation_codes(std::uint8_t reporting, std::uint8_t operation, std::uint16_t action,
                                 std::uint32_t allocation_bytes) noexcept {
    Cdb cdb = make_cdb(opcode::maintenance_in, 6, 4, allocation_bytes);
    cdb[1] = action_report_operation_codes;
    cdb[2] = reporting;
    cdb[3] = operation;
    put_field(cdb, 4, 2, action);
    return cdb;
}

Cdb build_test_unit_ready() noexcept {
    return make_cdb(opcode::test_unit_ready);
}

Cdb build_inquiry(std::uint16_t allocation_bytes) noexcept {
    return make_cdb(opcode::inquiry, 3, 2, allocation_bytes);
}

Cdb build_inquiry_page(std::uint8_t page, std::uint16_t allocation_bytes) noexcept {
    Cdb cdb = make_cdb(opcode::inquiry, 3, 2, allocation_bytes);
    cdb[1] = 1;
    cdb[2] = page;
    return cdb;
}

Cdb build_read_capacity_10() noexcept {
    return make_cdb(opcode::read_capacity_10);
}

Cdb build_read_capacity_16(std::uint32_t allocation_bytes) noexcept {
    Cdb cdb = make_cdb(opcode::service_action_in_16, 10, 4, allocation_bytes);
    cdb[1] = action_read_capacity_16;
    return cdb;
}

Cdb build_request_sense(std::uint8_t allocation_bytes, bool descriptor) noexcept {
    Cdb cdb = make_cdb(opcode::request_sense, 4, 1, allocation_bytes);
    if (descriptor) cdb[1] = 1;
    return cdb;
}

Cdb build_report_luns(std::uint32_t allocation_bytes) noexcept {
    return make_cdb(opcode::report_luns, 6, 4, allocation_bytes);
}

Cdb build_start_stop_unit(bool start) noexcept {
    return make_cdb(opcode::start_stop_unit, 4, 1, start ? 1 : 0);
}

Cdb build_mode_sense_6(std::uint8_t page, std::uint8_t allocation_bytes, PageControl control) noexcept {
    Cdb cdb = make_cdb(opcode::mode_sense_6, 4, 1, allocation_bytes);
    cdb[2] = static_cast<std::uint8_t>(static_cast<unsigned>(control) << 6 | page);
    return cdb;
}

Cdb build_mode_sense_10(std::uint8_t page, std::uint16_t allocation_bytes, PageControl control) noexcept {
    Cdb cdb = make_cdb(opcode::mode_sense_10, 7, 2, allocation_bytes);
    cdb[2] = static_cast<std::uint8_t>(static_cast<unsigned>(control) << 6 | page);
    return cdb;
}

Cdb build_mode_select_6(std::uint8_t parameter_bytes) noexcept {
    Cdb cdb = make_cdb(opcode::mode_select_6, 4, 1, parameter_bytes);
    cdb[1] = 0x10;  // PF: pages as the standard has them
    return cdb;
}

Cdb build_mode_select_10(std::uint16_t parameter_bytes) noexcept {
    Cdb cdb = make_cdb(opcode::mode_select_10, 7, 2, parameter_bytes);
    cdb[1] = 0x10;
    return cdb;
}

Cdb build_write_buffer(std::uint32_t bytes) noexcept {
    Cdb cdb = make_cdb(opcode::write_buffer, 6, 3, bytes);
    cdb[1] = buffer_mode_data;
    return cdb;
}

Cdb build_read_buffer(std::uint32_t bytes) noexcept {
    Cdb cdb = make_cdb(opcode::read_buffer, 6, 3, bytes);
    cdb[1] = buffer_mode_data;
    return cdb;
}

}  // namespace mqblk::wire::scsi
