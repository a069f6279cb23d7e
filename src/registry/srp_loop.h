// SPDX-License-Identifier: Apache-2.0
//
// SrpLoop: an SRP target in this process and the way to it: RDMA without a device, whose both ends live in the reactor
// of whoever connects. What srp+loop:// logs in to.
#pragma once

#include "device/srp/target.h"
#include "fabric/rdma/in_process.h"

#include <mqblk/error.h>

#include <memory>
#include <vector>

namespace mqblk::registry {

class SrpLoop {
  public:
    /// `home` outlives it; nothing runs there.
    [[nodiscard]] static Result<std::unique_ptr<SrpLoop>> create(Reactor& home, device::srp::TargetOptions,
                                                                 std::vector<device::srp::UnitConfig>);
    SrpLoop(Reactor& home, std::unique_ptr<device::srp::Target>);  ///< for create()
    ~SrpLoop();                                                    ///< whoever connected is gone
    SrpLoop(const SrpLoop&) = delete;
    SrpLoop& operator=(const SrpLoop&) = delete;

    /// Any thread.
    [[nodiscard]] fabric::rdma::Network& network() noexcept { return network_; }
    /// Where the target listens in that network.
    [[nodiscard]] static fabric::Address address() { return {.host = "srp-loop", .port = 0}; }
    [[nodiscard]] const device::srp::Target& target() const noexcept { return *target_; }

  private:
    Reactor& home_;
    fabric::rdma::InProcessNetwork network_;
    const std::unique_ptr<device::srp::Target> target_;
};

class Services;
struct Uri;

/// Opens each of `disks` and serves them as LUNs from 0 on. The error says which could not be opened, and why.
[[nodiscard]] Result<std::shared_ptr<SrpLoop>> make_srp_loop(Services&, const std::vector<const Uri*>& disks);

}  // namespace mqblk::registry
