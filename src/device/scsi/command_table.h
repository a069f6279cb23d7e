// SPDX-License-Identifier: Apache-2.0
//
// The disk's commands in one table: what carries them out, and what has to be true before they are. Everything that
// treats commands by their operation code looks here.
#pragma once

#include "device/scsi/command.h"

#include <array>
#include <cstdint>
#include <span>

namespace mqblk::device::scsi {

class LogicalUnit;

/// What a command needs while another initiator has the unit reserved (SPC-4 table 64, SBC-3 table 13).
enum class Need : std::uint8_t { nothing, reads, writes };

struct CommandInfo {
    std::uint8_t operation = 0;
    Need need = Need::writes;
    bool always_answered = false;  ///< whatever the unit's state is, unit attention included
    bool without_medium = false;   ///< needs no medium that turns
    bool changes_data = false;     ///< waits while another command has the data to itself
    Plan (*plan)(Nexus&, Command&) noexcept = nullptr;
    void (*execute)(Command&) noexcept = nullptr;
    std::int8_t action = -1;  ///< service action, of commands with several
    /// CDB usage data: byte 1 on, a bit set for each bit that is looked at; the service action stands as it is.
    std::array<std::uint8_t, 15> usage{};
};

/// By operation code. Of several service actions the first one's; of an unknown one an entry that refuses.
[[nodiscard]] const CommandInfo& command_info(std::uint8_t operation) noexcept;
/// In ascending order of operation code and service action.
[[nodiscard]] std::span<const CommandInfo> command_table() noexcept;
/// Whether this unit has it.
[[nodiscard]] bool is_supported(const CommandInfo&, const LogicalUnit&) noexcept;

}  // namespace mqblk::device::scsi
