// SPDX-License-Identifier: Apache-2.0
#include "registry/srp_loop.h"

#include <utility>

namespace mqblk::registry {

Result<std::unique_ptr<SrpLoop>> SrpLoop::create(Reactor& home, device::srp::TargetOptions options,
                                                 std::vector<device::srp::UnitConfig> units) {
    auto target = device::srp::Target::create(std::move(options), std::move(units));
    if (!target) return std::unexpected(target.error());
    auto loop = std::make_unique<SrpLoop>(home, std::move(*target));
    if (auto listening = loop->target_->listen(loop->network_, home, address()); !listening)
        return std::unexpected(listening.error());
    return loop;
}

SrpLoop::SrpLoop(Reactor& home, std::unique_ptr<device::srp::Target> target)
    : home_(home), target_(std::move(target)) {}

SrpLoop::~SrpLoop() {
    target_->stop_listening(home_);
}

}  // namespace mqblk::registry
