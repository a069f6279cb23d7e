// SPDX-License-Identifier: Apache-2.0
//
// The NVMe initiator: controllers by address and subsystem, their namespaces as Devices. A controller's control path
// (connect, identify, scan, keep-alive, events, reconnect) runs in one reactor; each thread's I/O queue in its own.
#pragma once

#include "base/clock.h"
#include "base/task.h"
#include "fabric/connection.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::fabric {
class LoopTarget;
}

namespace mqblk::driver::nvme {

struct HostOptions {
    std::string host_nqn;  ///< empty: the one of this machine and user, stable
    std::string host_id;   ///< UUID; empty: derived from host_nqn
    unsigned queues = 0;   ///< most I/O queues to ask for; 0: as many as there are threads, up to 128
    unsigned depth = 128;  ///< entries per I/O queue
    bool header_digest = false, data_digest = false;
    Duration keep_alive = std::chrono::seconds(5);
    Duration connect_timeout = std::chrono::seconds(10);  ///< for all of connecting; then for each answer of the scan
    Duration io_timeout = std::chrono::seconds(30);
    Duration admin_timeout = std::chrono::seconds(60);
    Duration reconnect_delay = std::chrono::seconds(2);  ///< first wait; doubles up to ten times that
    Duration ctrl_loss_tmo = std::chrono::seconds(600);  ///< without a connection for this long: I/O fails
};

/// One entry of the discovery log.
struct DiscoveryEntry {
    std::string transport, address_family, subsystem_type, address, service, nqn;
    std::uint16_t port_id = 0, controller_id = 0, admin_queue_size = 0;
    std::string secure_channel;
};

enum class ControllerState : std::uint8_t { connecting, live, resetting, deleting, dead };
[[nodiscard]] std::string_view to_string(ControllerState) noexcept;

class Controller {
  public:
    virtual ~Controller() = default;                                   ///< disconnects in order
    [[nodiscard]] virtual ControllerState state() const noexcept = 0;  ///< any thread
    [[nodiscard]] virtual std::string subsystem_nqn() const = 0;
    /// What Identify Controller and Connect said, for `mqblk info`, in order. Any thread.
    [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> details() const = 0;
    /// Active namespaces as of the last scan. Any thread.
    [[nodiscard]] virtual std::vector<std::uint32_t> namespaces() const = 0;
    /// The namespace as a Device, or an error that lists what there is. Any thread.
    [[nodiscard]] virtual Result<std::shared_ptr<Device>> device(std::uint32_t nsid) = 0;
    /// Disconnects; outstanding I/O ends with `removed`. `done` runs in the control reactor. Any thread.
    virtual void shutdown(std::function<void()> done) = 0;
};

class Host {
  public:
    /// `control` runs on a thread of its own (or is simulated) and outlives the host.
    Host(Reactor& control, fabric::Network&);
    /// In the control reactor, and not while a task below runs. Controllers that live are shut down: what is asked of
    /// them ends with `removed`, and none uses the network again but to say good-bye.
    ~Host();

    // Run these in the control reactor (spawn them there); they end within connect_timeout, and as long again for
    // each answer of a scan, and,
    // where a controller of this host was lost there that may still carry commands out, within ctrl_loss_tmo.

    /// Connects, identifies and scans. The controller is shared by who asks for the same address, NQN and options.
    [[nodiscard]] Task<Result<std::shared_ptr<Controller>>> connect(fabric::Address, std::string subsystem_nqn,
                                                                    HostOptions);
    [[nodiscard]] Task<Result<std::shared_ptr<Controller>>> connect(std::shared_ptr<fabric::LoopTarget>,
                                                                    std::string subsystem_nqn, HostOptions);
    [[nodiscard]] Task<Result<std::vector<DiscoveryEntry>>> discover(fabric::Address, HostOptions);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace mqblk::driver::nvme
