// SPDX-License-Identifier: Apache-2.0
//
// What the openers of devices draw on, each part made when it is first needed: the control thread, the network, the
// NVMe host, and the target for nvme+loop devices. Parts are taken down in the reverse order.
#pragma once

#include "base/steady_clock.h"
#include "device/nvme/target.h"
#include "driver/nvme/host.h"
#include "fabric/connection.h"
#include "fabric/loop.h"
#include "registry/megaraid_controllers.h"
#include "registry/reactor_thread.h"
#include "registry/uri.h"

#include <mqblk/context.h>
#include <mqblk/error.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace mqblk::registry {

/// Thread-safe.
class Services {
  public:
    explicit Services(Context::Options options);
    ~Services();
    Services(const Services&) = delete;
    Services& operator=(const Services&) = delete;

    [[nodiscard]] Result<std::shared_ptr<Device>> open(const Uri& uri);

    /// A file that was made for a device, or beside one; who made it for nothing can have it removed again.
    void note_created(std::string path);
    [[nodiscard]] std::size_t created_count() const;
    /// Removes those that were noted since created_count() was `from`.
    void remove_created(std::size_t from = 0);

    [[nodiscard]] const Context::Options& options() const noexcept { return options_; }
    [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
    [[nodiscard]] Result<ReactorThread*> control();
    [[nodiscard]] Result<fabric::Network*> network();

    struct HostParts {
        ReactorThread* control;
        driver::nvme::Host* host;
    };
    [[nodiscard]] Result<HostParts> host();

    [[nodiscard]] MegaraidControllers& megaraid() noexcept { return megaraid_; }

    /// The context's own target, and the way to it without a socket.
    struct LoopParts {
        device::nvme::Target* target;
        std::shared_ptr<fabric::LoopTarget> loop;
    };
    [[nodiscard]] Result<LoopParts> loop();
    /// A subsystem name that no other device of this context has.
    [[nodiscard]] std::string new_loop_nqn();

    /// Connects by the task that `start` makes of the host; a controller that is shared with others stays theirs.
    using ConnectTask = Task<Result<std::shared_ptr<driver::nvme::Controller>>>;
    [[nodiscard]] Result<std::shared_ptr<driver::nvme::Controller>> connect(
        const std::function<ConnectTask(driver::nvme::Host&)>& start);
    /// Keeps `controller` as long as the device that is returned; it is `device` otherwise.
    [[nodiscard]] std::shared_ptr<Device> bind(std::shared_ptr<Device> device,
                                               std::shared_ptr<driver::nvme::Controller> controller);
    /// Gives back what connect() returned: disconnects it in order, unless devices still use it.
    void release(std::shared_ptr<driver::nvme::Controller> controller);
    /// The controller that an opened device belongs to, or null.
    [[nodiscard]] std::shared_ptr<driver::nvme::Controller> controller_of(const Device& device);

  private:
    struct Bound {
        const Device* device;
        std::shared_ptr<driver::nvme::Controller> controller;
    };
    void unbind(const Device* device);

    const Context::Options options_;
    SteadyClock clock_;
    mutable std::recursive_mutex mutex_;
    std::vector<std::string> created_;
    std::unique_ptr<ReactorThread> control_;
    std::unique_ptr<fabric::Network> network_;
    std::unique_ptr<driver::nvme::Host> host_;
    std::unique_ptr<device::nvme::Target> target_;
    std::shared_ptr<fabric::LoopTarget> loop_;
    unsigned loop_count_ = 0;
    std::vector<Bound> bound_;
    MegaraidControllers megaraid_;
    unsigned connecting_ = 0;     ///< connect() calls that have not been bound or released yet
    unsigned disconnecting_ = 0;  ///< controllers on their way out
    std::condition_variable_any disconnected_;
};

}  // namespace mqblk::registry
