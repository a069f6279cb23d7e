// SPDX-License-Identifier: Apache-2.0
//
// A served target: the NVMe target with its listeners, its threads, and devices opened by URI as namespaces. What
// `mqblk serve` runs and `mqblk ctl` changes. Its configuration can be saved and loaded: save, load, save is the
// identity.
#pragma once

#include "device/nvme/target.h"
#include "device/nvme/tcp_target.h"
#include "registry/reactor_thread.h"
#include "registry/target_config.h"

#include <mqblk/context.h>
#include <mqblk/error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::registry {

/// Thread-safe; calls are carried out one after another, and one that opens a device may take that device's time.
class TargetService {
  public:
    struct Options {
        unsigned threads = 1;         ///< reactors, when `cores` is empty
        std::vector<unsigned> cores;  ///< one reactor pinned to each
        bool poll = false;            ///< reactors never sleep
        device::nvme::Target::Options target;
        device::nvme::TcpTarget::Options tcp;  ///< its address is that of each listen()
    };

    /// `context` opens the devices and outlives the service.
    [[nodiscard]] static Result<std::unique_ptr<TargetService>> start(Context& context, Options options);
    /// Ends all connections in order, then lets the devices go, however long that takes. See close().
    ~TargetService();
    /// Ends all connections in order, once; nothing else is asked of the service afterwards. `timed_out`: a backend has
    /// not ended what it had begun; the service cannot be destroyed before it does.
    [[nodiscard]] Result<> close(Duration bound);
    TargetService(const TargetService&) = delete;
    TargetService& operator=(const TargetService&) = delete;

    /// Returns the address really taken.
    [[nodiscard]] Result<fabric::Address> listen(fabric::Address address);

    struct Added {
        std::string nqn;
        device::nvme::NamespaceInfo info;
    };
    /// Opens the device and adds it; the subsystem is made if there is none. `entry.nsid` 0: the lowest free one.
    [[nodiscard]] Result<Added> add(const std::string& nqn, NamespaceEntry entry);
    [[nodiscard]] Result<> remove(const std::string& nqn, std::uint32_t nsid);
    /// Without `shrink` a smaller size is refused: what lies beyond would be lost.
    [[nodiscard]] Result<> resize(const std::string& nqn, std::uint32_t nsid, std::uint64_t bytes, bool shrink = true);

    /// Makes the subsystem, with no host allowed if `allow_any_host` is off. No effect if it exists.
    [[nodiscard]] Result<> ensure_subsystem(const std::string& nqn, bool allow_any_host = true);
    [[nodiscard]] Result<> allow_host(const std::string& nqn, const std::string& host_nqn);
    [[nodiscard]] Result<> disallow_host(const std::string& nqn, const std::string& host_nqn);
    [[nodiscard]] Result<> allow_any_host(const std::string& nqn, bool any);

    [[nodiscard]] std::vector<Added> namespaces() const;  ///< by NQN and nsid
    [[nodiscard]] TargetConfig save() const;
    /// Makes the target what `config` says, or leaves it as it is and says why. Devices that are in both are kept as
    /// they are, connections and all. Every new device is opened before anything is changed.
    [[nodiscard]] Result<> load(const TargetConfig& config);
    using Place = std::pair<std::string, std::uint32_t>;  ///< NQN and nsid
    using Devices = std::map<Place, device::nvme::NamespaceConfig>;

    [[nodiscard]] device::nvme::Target& target() noexcept { return target_; }
    [[nodiscard]] std::vector<fabric::Address> addresses() const;
    [[nodiscard]] unsigned connections() const;

  private:
    TargetService(Context& context, Options options);
    [[nodiscard]] std::vector<Reactor*> reactors() const;
    [[nodiscard]] Result<device::nvme::NamespaceConfig> open_namespace(const NamespaceEntry& entry) const;
    [[nodiscard]] Result<Added> add_opened(const std::string& nqn, device::nvme::NamespaceConfig config);
    [[nodiscard]] Result<fabric::Address> listen_at(fabric::Address address);
    // target_load.cpp
    [[nodiscard]] Devices devices_of(const TargetConfig& config) const;
    [[nodiscard]] Result<Devices> open_missing(const TargetConfig& present, const TargetConfig& config,
                                               const Devices& before) const;
    [[nodiscard]] Result<> apply(const TargetConfig& present, const TargetConfig& config, const Devices& devices);
    [[nodiscard]] Result<> remove_missing(const TargetConfig& present, const TargetConfig& config);
    [[nodiscard]] Result<> apply_hosts(const SubsystemEntry& entry);

    Context& context_;
    const Options options_;
    mutable std::recursive_mutex mutex_;
    std::vector<std::unique_ptr<ReactorThread>> threads_;
    device::nvme::Target target_;
    std::vector<std::unique_ptr<device::nvme::TcpTarget>> listeners_;
    std::map<Place, std::string> uris_;  ///< as they are now, sizes included
};

}  // namespace mqblk::registry
