// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/instance.h"

#include <utility>

namespace mqblk::device::nvme {

Instance::~Instance() {
    for (const auto& told : waiting_) told();
}

void Instance::when_gone(std::function<void()> told) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(told));
}

}  // namespace mqblk::device::nvme
