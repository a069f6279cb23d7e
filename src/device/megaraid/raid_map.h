// SPDX-License-Identifier: Apache-2.0
//
// The RAID map and the map of disks, made from what is there: in the form that the driver knows. A disk or volume that
// was pulled out has no handle; a volume that is not there is not in the map.
#pragma once

#include "device/megaraid/target.h"

#include <cstddef>
#include <vector>

namespace mqblk::device::megaraid {

struct MapOptions {
    bool extended = false;
    bool fast_path = false;
    bool task_management = false;
};

[[nodiscard]] std::vector<std::byte> build_map(const Topology& topology, const MapOptions& options);
[[nodiscard]] std::vector<std::byte> build_pd_map(const Topology& topology, const MapOptions& options);

}  // namespace mqblk::device::megaraid
