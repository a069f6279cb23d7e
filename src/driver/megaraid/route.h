// SPDX-License-Identifier: Apache-2.0
//
// Route: how commands get to one disk or volume, as the controller's maps have it: a snapshot that changes only while
// the queues stand still. Path: the way of one command, through the firmware or, where the map allows it, straight to a
// disk (fast path). Pure arithmetic; facts of the RAID map are in wire/megaraid_map.h and wire/megaraid_layout.h.
#pragma once

#include "wire/megaraid.h"
#include "wire/megaraid_layout.h"
#include "wire/megaraid_map.h"
#include "wire/megaraid_mpi.h"

#include <array>
#include <cstdint>
#include <optional>

namespace mqblk::driver::megaraid {

enum class Kind : std::uint8_t { disk, volume };
[[nodiscard]] constexpr const char* to_string(Kind kind) noexcept {
    return kind == Kind::disk ? "pd" : "ld";
}

struct Route {
    std::uint16_t id = 0;  ///< device id of a disk, target id of a volume
    Kind kind = Kind::disk;
    bool mapped = false;  ///< a map names it; else all goes through the firmware
    bool task_management = false;
    std::uint16_t sequence = 0;                             ///< of its configuration
    std::uint16_t handle = wire::megaraid::handle_invalid;  ///< of a disk
    std::uint16_t context_id = 0;                           ///< of a disk with a handle: RaidContext::target_id
    // Of a volume.
    wire::megaraid::LdRaid raid{};
    std::optional<wire::megaraid::Layout> layout;  ///< one that is known here
    std::uint64_t start_block = 0;                 ///< of its span, on each disk
    std::uint8_t fp_timeout_s = 0;
    std::array<std::uint16_t, wire::megaraid::max_row_size> handles{};  ///< by arm
};

/// Of a volume, from a map. A volume that the map does not have, or contradicts itself about, is not mapped.
[[nodiscard]] Route route_of_volume(const wire::megaraid::MapView& map, std::uint16_t target_id) noexcept;
/// Of a disk; an empty map names none.
[[nodiscard]] Route route_of_disk(std::span<const wire::megaraid::PdSequence> map, std::uint16_t device_id) noexcept;

struct Path {
    wire::megaraid::RequestType type = wire::megaraid::RequestType::scsi_io;
    wire::megaraid::Function function = wire::megaraid::Function::ld_io;
    bool fast = false;
    bool moved = false;  ///< `block` is to be read or written instead of the volume's
    std::uint16_t dev_handle = 0;
    std::uint64_t block = 0;
    wire::megaraid::RaidContext context{};
};

enum class Access : std::uint8_t { read, write, other };

/// The way of a command to [block, block + blocks). `direct`: the fast path may be taken, and what the map says of the
/// configuration is to be checked.
[[nodiscard]] Path choose_path(const Route& route, Access access, std::uint64_t block, std::uint64_t blocks,
                               wire::megaraid::Generation generation, bool direct) noexcept;

}  // namespace mqblk::driver::megaraid
