// SPDX-License-Identifier: Apache-2.0
//
// Inventory: the LUNs of a target, and the commands that a target answers without a unit: REPORT LUNS for any LUN, and
// whatever comes for a LUN behind which there is none (SPC-4 6.33, 6.6.2; SAM-5 4.7). Does not change once made.
#pragma once

#include "device/scsi/command.h"

#include <cstdint>
#include <vector>

namespace mqblk::device::scsi {

class Inventory {
  public:
    /// Each as its eight bytes say it, in ascending order.
    explicit Inventory(std::vector<std::uint64_t> luns) : luns_(std::move(luns)) {}

    /// Whether the command is answered here. `present`: there is a unit.
    [[nodiscard]] static bool answers(const wire::scsi::Cdb& cdb, bool present) noexcept {
        return !present || cdb[0] == wire::scsi::opcode::report_luns;
    }
    /// As Nexus::plan and execute. The end comes within execute().
    [[nodiscard]] Plan plan(Command&) const noexcept;
    void execute(Command&) const noexcept;

  private:
    void report_luns(Command&) const noexcept;

    const std::vector<std::uint64_t> luns_;
};

}  // namespace mqblk::device::scsi
