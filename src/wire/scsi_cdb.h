// SPDX-License-Identifier: Apache-2.0
//
// Command descriptor blocks, made and read: those that name a range of blocks (READ, WRITE, VERIFY, WRITE SAME,
// SYNCHRONIZE CACHE in their lengths) through one structure, the others by a function each. SBC-3 chapter 5, SPC-4
// chapter 6. Whatever bytes a peer sends can be read.
#pragma once

#include "wire/scsi.h"

#include <cstdint>
#include <optional>

namespace mqblk::wire::scsi {

/// Length of a CDB by its operation code's group; 0 for vendor-specific and variable length ones.
[[nodiscard]] constexpr unsigned cdb_bytes(std::uint8_t operation) noexcept {
    switch (operation >> 5) {
        case 0:
            return 6;
        case 1:
        case 2:
            return 10;
        case 4:
            return 16;
        case 5:
            return 12;
        default:
            return 0;
    }
}

/// Bits of byte 1 of block commands of 10 bytes and more. Which of them there are depends on the command.
enum BlockFlag : std::uint8_t {
    block_fua_nv = 0x02,          ///< READ, WRITE: past cached data that would survive a loss of power
    block_byte_check = 0x02,      ///< VERIFY: BYTCHK 01b, compare with data sent
    block_byte_check_one = 0x06,  ///< VERIFY: BYTCHK 11b, compare each block with one that is sent
    block_immediate = 0x02,       ///< SYNCHRONIZE CACHE: answer before it is done
    block_anchor = 0x10,          ///< WRITE SAME
    block_unmap = 0x08,           ///< WRITE SAME: may deallocate
    block_fua = 0x08,             ///< READ, WRITE
    block_dpo = 0x10,             ///< READ, WRITE, VERIFY: do not keep in the cache
    block_no_data = 0x01,         ///< WRITE SAME (16): NDOB, no data-out buffer: zeroes
    block_protect = 0xe0,         ///< RDPROTECT, WRPROTECT, VRPROTECT
};

/// A command about a range of blocks.
struct BlockCdb {
    std::uint8_t operation = 0;
    std::uint8_t flags = 0;  ///< BlockFlag; none in 6-byte commands
    std::uint64_t lba = 0;
    std::uint32_t blocks = 0;  ///< as meant: a READ (6) of "0" has 256
    std::uint8_t group = 0;
    std::uint8_t control = 0;
};

/// Byte of the CDB in which the number of blocks starts, for field pointers.
[[nodiscard]] constexpr std::uint16_t block_count_offset(std::uint8_t operation) noexcept {
    switch (cdb_bytes(operation)) {
        case 6:
            return 4;
        case 10:
            return 7;
        case 12:
            return 6;
        default:
            return 10;
    }
}

/// Whether the command's CDB is a BlockCdb's.
[[nodiscard]] constexpr bool names_blocks(std::uint8_t operation) noexcept {
    switch (operation) {
        case opcode::read_6:
        case opcode::write_6:
        case opcode::read_10:
        case opcode::write_10:
        case opcode::verify_10:
        case opcode::synchronize_cache_10:
        case opcode::write_same_10:
        case opcode::read_12:
        case opcode::write_12:
        case opcode::verify_12:
        case opcode::read_16:
        case opcode::write_16:
        case opcode::verify_16:
        case opcode::synchronize_cache_16:
        case opcode::write_same_16:
            return true;
        default:
            return false;
    }
}

/// Nothing if it is another kind of command.
[[nodiscard]] std::optional<BlockCdb> parse_blocks(const Cdb&) noexcept;
/// The range must fit the command: 21, 32, 32 and 64 bits of LBA; 256, 65535, 2^32 - 1 blocks.
[[nodiscard]] Cdb build_blocks(const BlockCdb&) noexcept;

/// READ or WRITE in the shortest of 10 and 16 bytes that has room.
[[nodiscard]] Cdb build_read(std::uint64_t lba, std::uint32_t blocks, std::uint8_t flags = 0) noexcept;
[[nodiscard]] Cdb build_write(std::uint64_t lba, std::uint32_t blocks, std::uint8_t flags = 0) noexcept;
/// SYNCHRONIZE CACHE (10) for the whole disk.
[[nodiscard]] Cdb build_synchronize_cache() noexcept;
/// WRITE SAME (16) of zeroes: one block of data, all zero, goes with it.
[[nodiscard]] Cdb build_write_same(std::uint64_t lba, std::uint32_t blocks, bool unmap) noexcept;
/// `parameter_bytes` of UnmapHeader and UnmapDescriptor go with it.
[[nodiscard]] Cdb build_unmap(std::uint16_t parameter_bytes, bool anchor = false) noexcept;

/// COMPARE AND WRITE of up to 255 blocks; twice as many blocks of data go with it.
[[nodiscard]] Cdb build_compare_and_write(std::uint64_t lba, std::uint8_t blocks, std::uint8_t flags = 0) noexcept;
[[nodiscard]] Cdb build_persistent_reserve_in(std::uint8_t action, std::uint16_t allocation_bytes) noexcept;
/// 24 bytes of ReserveOutParameters go with it.
[[nodiscard]] Cdb build_persistent_reserve_out(std::uint8_t action, std::uint8_t type) noexcept;
/// REPORT SUPPORTED OPERATION CODES: all of them for `reporting` 0.
[[nodiscard]] Cdb build_report_operation_codes(std::uint8_t reporting, std::uint8_t operation, std::uint16_t action,
                                               std::uint32_t allocation_bytes) noexcept;

[[nodiscard]] Cdb build_test_unit_ready() noexcept;
[[nodiscard]] Cdb build_inquiry(std::uint16_t allocation_bytes) noexcept;
[[nodiscard]] Cdb build_inquiry_page(std::uint8_t page, std::uint16_t allocation_bytes) noexcept;
[[nodiscard]] Cdb build_read_capacity_10() noexcept;
[[nodiscard]] Cdb build_read_capacity_16(std::uint32_t allocation_bytes) noexcept;
[[nodiscard]] Cdb build_request_sense(std::uint8_t allocation_bytes, bool descriptor = false) noexcept;
[[nodiscard]] Cdb build_report_luns(std::uint32_t allocation_bytes) noexcept;
[[nodiscard]] Cdb build_start_stop_unit(bool start) noexcept;

/// Which values of a mode page: bits 7:6 of byte 2.
enum class PageControl : std::uint8_t { current = 0, changeable = 1, defaults = 2, saved = 3 };
[[nodiscard]] Cdb build_mode_sense_6(std::uint8_t page, std::uint8_t allocation_bytes,
                                     PageControl control = PageControl::current) noexcept;
[[nodiscard]] Cdb build_mode_sense_10(std::uint8_t page, std::uint16_t allocation_bytes,
                                      PageControl control = PageControl::current) noexcept;
[[nodiscard]] Cdb build_mode_select_6(std::uint8_t parameter_bytes) noexcept;
[[nodiscard]] Cdb build_mode_select_10(std::uint16_t parameter_bytes) noexcept;

/// Mode "data" of READ BUFFER and WRITE BUFFER, buffer 0 at offset 0. `bytes` below 2^24.
inline constexpr std::uint8_t buffer_mode_data = 0x02;
[[nodiscard]] Cdb build_write_buffer(std::uint32_t bytes) noexcept;
[[nodiscard]] Cdb build_read_buffer(std::uint32_t bytes) noexcept;

/// Big-endian integer of `bytes` (up to 8) bytes at `offset` of a CDB.
[[nodiscard]] constexpr std::uint64_t cdb_field(const Cdb& cdb, unsigned offset, unsigned bytes) noexcept {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes && offset + i < cdb.size(); ++i) value = value << 8 | cdb[offset + i];
    return value;
}

}  // namespace mqblk::wire::scsi
