// SPDX-License-Identifier: Apache-2.0
#include "registry/srp_loop.h"

#include "registry/services.h"
#include "registry/uri.h"

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

Result<std::shared_ptr<SrpLoop>> make_srp_loop(Services& services, const std::vector<const Uri*>& disks) {
    const auto control = services.control();
    if (!control) return std::unexpected(control.error());
    std::vector<device::srp::UnitConfig> units;
    for (const Uri* const uri : disks) {
        auto device = services.open(*uri);
        if (!device) return std::unexpected(device.error());
        units.push_back({.lun = static_cast<unsigned>(units.size()), .device = std::move(*device)});
    }
    auto loop = SrpLoop::create((*control)->reactor(), {}, std::move(units));
    if (!loop) return std::unexpected(loop.error());
    return std::shared_ptr<SrpLoop>(std::move(*loop));
}

}  // namespace mqblk::registry
