// SPDX-License-Identifier: Apache-2.0
//
// Connect, the first command of every queue, and what its failure means to the person who wanted it. NVMe over Fabrics
// 1.1, section 3.3.
#pragma once

#include "driver/nvme/association.h"
#include "wire/nvme_fabrics.h"

#include <mqblk/error.h>

#include <cstdint>

namespace mqblk::driver::nvme {

struct ConnectRequest {
    wire::nvme::Command command;
    wire::nvme::ConnectData data;
};

/// `entries`: of the submission queue. `controller_id`: the granted one, or wire::nvme::controller_id_dynamic for an
/// admin queue. `keep_alive` is used on the admin queue only.
[[nodiscard]] ConnectRequest build_connect(const Association::Terms&, std::uint16_t queue_id, std::uint32_t entries,
                                           std::uint16_t controller_id, Duration keep_alive);

/// The failure of a Connect as a sentence that names address, NQN and remedy.
/// The target does not let this host in, and says that asking again is of no use (DNR).
[[nodiscard]] bool refused_for_good(const wire::nvme::Completion&) noexcept;
[[nodiscard]] Error connect_error(const Association::Terms&, const wire::nvme::Completion&);

}  // namespace mqblk::driver::nvme
