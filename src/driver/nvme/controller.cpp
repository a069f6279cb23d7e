// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/controller.h"

#include "driver/nvme/io_driver.h"

#include <fmt/format.h>

#include <chrono>

namespace mqblk::driver::nvme {

std::string_view to_string(ControllerState state) noexcept {
    switch (state) {
        case ControllerState::connecting:
            return "connecting";
        case ControllerState::live:
            return "live";
        case ControllerState::resetting:
            return "resetting";
        case ControllerState::deleting:
            return "deleting";
        case ControllerState::dead:
            return "dead";
    }
    return "unknown";
}

std::vector<std::pair<std::string, std::string>> ControllerHandle::details() const {
    const Association::Terms& terms = core_->association()->terms();
    const ControllerCore::Io io = core_->io();
    const auto ms = [](Duration duration) {
        return fmt::format("{}", std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
    };
    std::vector<std::pair<std::string, std::string>> result{
        {"transport", terms.transport->name()},
        {"address", terms.transport->target()},
        {"subsystem_nqn", terms.subsystem_nqn},
        {"host_nqn", terms.host.nqn},
        {"state", std::string(to_string(state()))},
        {"io_queues", fmt::format("{}", io.queues)},
        {"queue_depth", fmt::format("{}", io.depth)},
        {"keep_alive_ms", ms(core_->options().keep_alive)},
        {"io_timeout_ms", ms(core_->options().io_timeout)},
        {"header_digest", core_->options().header_digest ? "yes" : "no"},
        {"data_digest", core_->options().data_digest ? "yes" : "no"},
    };
    for (auto& entry : describe(core_->facts())) result.push_back(std::move(entry));
    return result;
}

std::shared_ptr<block::QueueSet> ControllerHandle::queues() {
    const std::scoped_lock lock(mutex_);
    auto queues = queues_.lock();
    if (queues == nullptr) {
        const ControllerCore::Io io = core_->io();
        queues = block::QueueSet::create(std::make_shared<IoDriver>(shared_from_this(), core_->association(), io.queues,
                                                                    io.depth, core_->options().io_timeout));
        queues_ = queues;
    }
    return queues;
}

Result<std::shared_ptr<Device>> ControllerHandle::device(std::uint32_t nsid) {
    return core_->namespaces().open(nsid, core_->title(), core_->facts(), [this] { return queues(); });
}

}  // namespace mqblk::driver::nvme
