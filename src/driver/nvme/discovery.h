// SPDX-License-Identifier: Apache-2.0
//
// Reading the discovery log of a discovery controller. NVMe over Fabrics 1.1, section 5.3.
#pragma once

#include "base/task.h"
#include "driver/nvme/host.h"
#include "driver/nvme/session.h"

#include <mqblk/error.h>

#include <vector>

namespace mqblk::driver::nvme {

/// Connects to the discovery controller, reads all of its log, and disconnects. `terms` outlives the task.
[[nodiscard]] Task<Result<std::vector<DiscoveryEntry>>> read_discovery(Reactor&, const Association::Terms& terms,
                                                                       Duration admin_timeout);

}  // namespace mqblk::driver::nvme
