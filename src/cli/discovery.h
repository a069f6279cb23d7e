// SPDX-License-Identifier: Apache-2.0
//
// Asking a target for its discovery log, for the commands that only look: short-lived connections, few queues.
#pragma once

#include "driver/nvme/host.h"

#include <mqblk/error.h>

#include <string>
#include <vector>

namespace mqblk::registry {
class Services;
}

namespace mqblk::cli {

[[nodiscard]] driver::nvme::HostOptions short_lived(const std::string& host_nqn);

/// `address`: ADDR[:PORT].
[[nodiscard]] Result<std::vector<driver::nvme::DiscoveryEntry>> ask_discovery(registry::Services& services,
                                                                              const std::string& address,
                                                                              const std::string& host_nqn);

/// Why a log may be empty: a target shows a host what it may use.
[[nodiscard]] std::string nothing_offered(const std::string& address, const std::string& host_nqn);

}  // namespace mqblk::cli
