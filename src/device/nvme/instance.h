// SPDX-License-Identifier: Apache-2.0
//
// Instance: one life of a controller, as a host names it that wants it ended: by CNTLID, CIU and CIRN. It lasts longer
// than the controller: every queue shares it until the queue takes no more commands and has none left in a backend.
// So when it is gone, nothing that was sent to the controller can change anything any more. NVMe 2.3, section 8.3.3.
#pragma once

#include "device/nvme/identity.h"
#include "wire/nvme_cross_reset.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::device::nvme {

class Controller;

class Instance {
  public:
    Instance(const wire::nvme::ControllerInstance& its_name, std::string nqn, const Uuid& id)
        : name(its_name), host_nqn(std::move(nqn)), host_id(id) {}
    /// Whoever waits for it is told, on the thread that lets go of it last.
    ~Instance();
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    const wire::nvme::ControllerInstance name;
    const std::string host_nqn;
    const Uuid host_id;

    /// `told` runs once, on any thread, when the instance is gone; it must not wait. For whoever shares the instance.
    void when_gone(std::function<void()> told);

  private:
    std::mutex mutex_;
    std::vector<std::function<void()>> waiting_;
};

}  // namespace mqblk::device::nvme
