// SPDX-License-Identifier: Apache-2.0
//
// Who this host is to targets: an NQN and a host identifier. Given, or derived from this machine and user, so that they
// are the same at every start and a target can allow them. NVMe 1.4, section 7.9 (NQN), fabrics 1.1, section 4.4.3.
#pragma once

#include "driver/nvme/association.h"

#include <mqblk/error.h>

#include <string>

namespace mqblk::driver::nvme {

/// `nqn` empty: "nqn.2014-08.org.nvmexpress:uuid:…". `id` empty: derived from the NQN, so that the two stay a pair.
[[nodiscard]] Result<HostIdentity> host_identity(const std::string& nqn, const std::string& id);

/// 1 to 223 printable characters.
[[nodiscard]] Result<> check_nqn(const std::string& what, const std::string& nqn);

}  // namespace mqblk::driver::nvme
