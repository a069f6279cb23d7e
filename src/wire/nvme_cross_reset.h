// SPDX-License-Identifier: Apache-2.0
//
// Cross-Controller Reset: a host asks one controller to end another of the same subsystem, and learns when nothing that
// it sent there can have an effect any more. The command, its answer and its log page. NVM Express Base Specification
// 2.3, sections 5.4.3 (command), 5.2.12.3.1 (log page), 8.3.3 (controller instances).
#pragma once

#include "wire/nvme.h"

namespace mqblk::wire::nvme {

/// One life of a controller: CNTLID, CIU and CIRN of its Identify Controller page.
struct ControllerInstance {
    std::uint16_t id = 0;
    std::uint8_t uniquifier = 0;
    std::uint64_t random = 0;
    bool operator==(const ControllerInstance&) const = default;
};

// CDW10 = ICID 15:0, CIU 23:16; CDW12-13 = CIRN.

[[nodiscard]] constexpr ControllerInstance impacted_controller(const Command& command) noexcept {
    return {static_cast<std::uint16_t>(command.cdw10 & 0xffff), static_cast<std::uint8_t>(command.cdw10 >> 16 & 0xff),
            std::uint64_t{command.cdw12} | std::uint64_t{command.cdw13} << 32};
}
constexpr void set_impacted_controller(Command& command, const ControllerInstance& instance) noexcept {
    command.cdw10 = instance.id | std::uint32_t{instance.uniquifier} << 16;
    command.cdw12 = static_cast<std::uint32_t>(instance.random);
    command.cdw13 = static_cast<std::uint32_t>(instance.random >> 32);
}

/// Completion DW0: the other controller has ended. Without it the log page will say.
inline constexpr std::uint32_t cross_reset_immediate = 1;

/// LSP bit 0 of the log page: entries that are over are forgotten once read.
inline constexpr std::uint32_t log_cross_reset_remove = 1u << 8;

struct CrossResetLogHeader {
    le16 entries;
    std::uint8_t reserved2[6] = {};
};
static_assert(sizeof(CrossResetLogHeader) == 8);

struct CrossResetLogEntry {
    le16 controller_id;
    std::uint8_t uniquifier = 0;
    std::uint8_t reserved3 = 0;
    le16 alternate_controller_id;
    std::uint8_t status = 0;
    std::uint8_t flags = 0;
};
static_assert(sizeof(CrossResetLogEntry) == 8);
static_assert(offsetof(CrossResetLogEntry, alternate_controller_id) == 4 && offsetof(CrossResetLogEntry, status) == 6);

inline constexpr unsigned cross_reset_log_entries = 511;  ///< at most

/// CrossResetLogEntry::status and ::flags.
namespace cross_reset_status {
inline constexpr std::uint8_t in_progress = 0, success = 1, failed = 2;
}
namespace cross_reset_flags {
inline constexpr std::uint8_t validated = 1, initiated = 2;
}

}  // namespace mqblk::wire::nvme
