// SPDX-License-Identifier: Apache-2.0
//
// The Controller that users hold: it keeps a ControllerCore connected while anyone wants it, be it through this handle
// or through a disk of it. The last one to let go disconnects.
#pragma once

#include "driver/nvme/controller_core.h"
#include "driver/nvme/host.h"

#include <memory>
#include <mutex>
#include <utility>

namespace mqblk::driver::nvme {

class ControllerHandle final : public Controller, public std::enable_shared_from_this<ControllerHandle> {
  public:
    /// `core` is live and started.
    explicit ControllerHandle(std::shared_ptr<ControllerCore> core) : core_(std::move(core)) {}
    ~ControllerHandle() override { ControllerCore::let_go(std::move(core_)); }

    ControllerState state() const noexcept override { return core_->state(); }
    std::string subsystem_nqn() const override { return core_->association()->terms().subsystem_nqn; }
    std::vector<std::pair<std::string, std::string>> details() const override;
    std::vector<std::uint32_t> namespaces() const override { return core_->namespaces().list(); }
    Result<std::shared_ptr<Device>> device(std::uint32_t nsid) override;
    void shutdown(std::function<void()> done) override { core_->shutdown(std::move(done)); }

  private:
    [[nodiscard]] std::shared_ptr<block::QueueSet> queues();

    std::shared_ptr<ControllerCore> core_;  ///< never null
    std::mutex mutex_;
    std::weak_ptr<block::QueueSet> queues_;  ///< its driver holds this handle, so this must not hold it
};

}  // namespace mqblk::driver::nvme
