// SPDX-License-Identifier: Apache-2.0
//
// A session: hosts connect, work while faults strike, are let finish, verify all data, leave; a fresh host finds the
// target as good as new; nothing is left behind. What is not given is drawn from the seed.
#pragma once

#include "simulation/faults.h"
#include "simulation/workload.h"
#include "simulation/world.h"

#include <cstdint>
#include <functional>

namespace mqblk::simulation {

struct SessionPlan {
    FaultOptions faults;
    unsigned hosts = 1;
    WorkloadOptions workload;
    unsigned disk_errors_per_mille = 0;
    /// Called last, to fix what is drawn.
    std::function<void(WorldOptions&, driver::nvme::HostOptions&)> adjust;
};

/// Inside a test. Returns the world's trace.
std::uint64_t run_session(std::uint64_t seed, const SessionPlan&);

}  // namespace mqblk::simulation
