// SPDX-License-Identifier: Apache-2.0
//
// UnitTable: the target's LUNs and what is behind them. Made once, read by all threads.
#pragma once

#include "device/scsi/inventory.h"
#include "device/scsi/logical_unit.h"

#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::block {
class DirectAccess;
}

namespace mqblk::device::srp {

struct UnitConfig {
    unsigned lun = 0;  ///< up to wire::srp::max_lun
    std::shared_ptr<Device> device;
    std::string reservation_file{};  ///< where persistent reservations outlive the process; empty: nowhere
};

class UnitTable {
  public:
    /// The error names the LUN that is there twice or too large, or the device that cannot be a SCSI disk.
    [[nodiscard]] static Result<std::shared_ptr<const UnitTable>> create(std::vector<UnitConfig>,
                                                                         std::uint32_t max_transfer_bytes);

    struct Entry {
        unsigned lun = 0;
        std::shared_ptr<scsi::LogicalUnit> unit;
        block::DirectAccess* direct = nullptr;  ///< where the medium is memory that may be lent
    };
    explicit UnitTable(std::vector<Entry>);  ///< for create(); in ascending order

    /// By the eight bytes of a LUN; nothing where there is no unit.
    [[nodiscard]] std::optional<unsigned> find(std::uint64_t lun) const noexcept;
    [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
    [[nodiscard]] const scsi::Inventory& inventory() const noexcept { return inventory_; }

  private:
    std::vector<Entry> entries_;
    scsi::Inventory inventory_;
};

}  // namespace mqblk::device::srp
