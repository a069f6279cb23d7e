// SPDX-License-Identifier: Apache-2.0
//
// Request ids, the 16 bits that come back with a completion: the block layer's tag in bits 7:0, whose it is in bits
// 9:8, and in bits 15:10 a number that grows each time the tag is sent, so that a completion of an earlier use, or a
// second one of the same, fits nobody.
#pragma once

#include <cstdint>

namespace mqblk::driver::skd {

enum class IdTable : std::uint8_t { read_write = 0, internal = 1 };

inline constexpr std::uint16_t id_slot_mask = 0x00ff;
inline constexpr std::uint16_t id_table_mask = 0x0300;
inline constexpr unsigned id_table_shift = 8;
inline constexpr std::uint16_t id_generation_step = 0x0400;
inline constexpr std::uint16_t id_generation_mask = 0xfc00;

[[nodiscard]] constexpr std::uint16_t first_id(IdTable table, unsigned slot) noexcept {
    return static_cast<std::uint16_t>(static_cast<unsigned>(table) << id_table_shift | (slot & id_slot_mask));
}
/// Of the next sending.
[[nodiscard]] constexpr std::uint16_t next_id(std::uint16_t id) noexcept {
    return static_cast<std::uint16_t>(id + id_generation_step);
}
[[nodiscard]] constexpr unsigned slot_of(std::uint16_t id) noexcept {
    return id & id_slot_mask;
}
[[nodiscard]] constexpr bool is_internal(std::uint16_t id) noexcept {
    return (id & id_table_mask) == static_cast<unsigned>(IdTable::internal) << id_table_shift;
}
[[nodiscard]] constexpr bool is_read_write(std::uint16_t id) noexcept {
    return (id & id_table_mask) == 0;
}

}  // namespace mqblk::driver::skd
