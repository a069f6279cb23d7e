// SPDX-License-Identifier: Apache-2.0
//
// What is behind the controller: disks that the host has to itself (JBOD), and volumes, each with any Device. A volume
// is kept as a whole; its member disks exist in the RAID map only, so that a driver can take the fast path to them, and
// what it sends there is brought back to the volume's blocks. Topology: all of them, by the names that hosts use.
//
// Device ids are 0 to 255 in the order in which disks and members came; handles are ids with an offset.
#pragma once

#include "device/scsi/logical_unit.h"
#include "device/scsi/nexus.h"
#include "wire/megaraid_layout.h"
#include "wire/megaraid_map.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mqblk::device::megaraid {

/// A volume as its owner describes it: what the host is told of it.
struct VolumeSpec {
    std::shared_ptr<Device> device;
    unsigned level = 0;        ///< 0, 1, 5 or 6
    unsigned disks = 1;        ///< 1 to 32, as the level allows
    unsigned strip_shift = 7;  ///< strips of 2^n blocks of 512 bytes
};

/// LEVEL, or LEVELxDISKS: "0", "6x8". Without DISKS the fewest that the level has.
[[nodiscard]] Result<VolumeSpec> parse_volume_shape(std::string_view text);

inline constexpr unsigned max_volumes = 64;
inline constexpr std::uint16_t first_handle = 0x0100;

struct Target {
    bool is_volume = false;
    std::uint16_t id = 0;  ///< device id of a disk, target id of a volume
    std::shared_ptr<scsi::LogicalUnit> unit;
    std::unique_ptr<scsi::Nexus> nexus;  ///< once attached
    bool present = true;                 ///< else it was pulled out: nothing new goes there
    std::uint16_t sequence = 1;          ///< of its configuration
    std::uint64_t sectors_told = 0;      ///< its size as the host was told it
    // Of a volume.
    wire::megaraid::Layout layout;
    std::uint16_t first_disk = 0;  ///< device id of arm 0
};

class Topology {
  public:
    /// Of the controller with that serial number, by which its disks have theirs where they have none of their own.
    explicit Topology(std::string controller) : controller_(std::move(controller)) {}

    /// A disk of its own. The error names the device and what of it a disk cannot have.
    [[nodiscard]] Result<Target*> add_disk(std::shared_ptr<Device> device, std::uint32_t max_transfer_bytes);
    [[nodiscard]] Result<Target*> add_volume(const VolumeSpec& spec, std::uint32_t max_transfer_bytes);

    struct Place {
        Target* target = nullptr;  ///< null: there is none
        unsigned arm = 0;          ///< of a volume
    };
    [[nodiscard]] Place by_device_id(unsigned id) const noexcept { return id < device_ids_ ? places_[id] : Place{}; }
    [[nodiscard]] Place by_handle(std::uint16_t handle) const noexcept {
        return by_device_id(static_cast<unsigned>(handle) - first_handle);
    }
    /// Null where there is none, or a member of a volume.
    [[nodiscard]] Target* disk(unsigned device_id) const noexcept {
        Target* const target = by_device_id(device_id).target;
        return target != nullptr && !target->is_volume ? target : nullptr;
    }
    [[nodiscard]] Target* volume(unsigned target_id) const noexcept {
        return target_id < volumes_.size() ? volumes_[target_id] : nullptr;
    }

    [[nodiscard]] const std::vector<std::unique_ptr<Target>>& targets() const noexcept { return targets_; }
    [[nodiscard]] const std::vector<Target*>& volumes() const noexcept { return volumes_; }
    /// Ids of disks, members of volumes included, are below this.
    [[nodiscard]] unsigned device_ids() const noexcept { return device_ids_; }
    [[nodiscard]] unsigned disk_count() const noexcept {
        return static_cast<unsigned>(targets_.size() - volumes_.size());
    }

  private:
    const std::string controller_;
    std::vector<std::unique_ptr<Target>> targets_;
    std::vector<Target*> volumes_;  ///< by target id
    unsigned device_ids_ = 0;
    std::array<Place, wire::megaraid::max_physical_disks> places_{};  ///< by device id
};

}  // namespace mqblk::device::megaraid
