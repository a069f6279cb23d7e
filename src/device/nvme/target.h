// SPDX-License-Identifier: Apache-2.0
//
// Target: subsystems, the ports they are seen on, and the hosts that may use them. The control path: everything here is
// thread-safe, may wait, and reports errors as sentences. The data path reads what stands here without locks.
#pragma once

#include "base/clock.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mqblk {
class Reactor;
}
namespace mqblk::fabric {
class LoopTarget;
}

namespace mqblk::device::nvme {

inline constexpr std::string_view discovery_nqn = "nqn.2014-08.org.nvmexpress.discovery";

struct NamespaceConfig {
    std::uint32_t nsid = 0;  ///< 0: the lowest free one
    std::string uri;         ///< as given; saved with the configuration
    std::shared_ptr<Device> device;
    std::string uuid, nguid;  ///< empty: derived from subsystem NQN, nsid and URI, so that they survive a restart
};

struct NamespaceInfo {
    std::uint32_t nsid;
    std::string uri, uuid, nguid;
    std::uint64_t sectors;
    std::uint32_t block_bytes;
};

struct SubsystemConfig {
    std::string nqn;
    std::string serial;  ///< empty: derived from the NQN
    std::string model = "mqblk";
    bool allow_any_host = true;
    std::vector<std::string> allowed_hosts;
};

struct PortConfig {
    unsigned id = 0;               ///< 0: the lowest free one
    std::string transport;         ///< "tcp", "loop"
    std::string address, service;  ///< "127.0.0.1", "4420"; what the discovery log says
};

/// Every limit the target announces, computed in one place from what can be served.
struct AnnouncedLimits {
    std::uint32_t max_transfer_bytes;  ///< MDTS
    std::uint32_t in_capsule_bytes;    ///< IOCCSZ
    std::uint16_t max_queue_entries;   ///< MQES + 1
    std::uint16_t max_io_queues;
    std::uint32_t max_namespaces;  ///< NN
    std::uint32_t dsm_ranges;
    std::uint32_t async_events;  ///< AERL + 1
    std::uint16_t keep_alive_granularity_ms;
};

class Target {
  public:
    struct Options {
        std::uint32_t max_transfer_bytes = 1u << 20;
        std::uint32_t in_capsule_bytes = 16384;
        std::uint16_t max_queue_entries = 1024;
        std::uint16_t max_io_queues = 128;
        Duration discovery_keep_alive = std::chrono::seconds(120);
        bool cross_controller_reset = true;  ///< off: as a target before NVMe 2.3
    };

    explicit Target(Options);
    ~Target();  ///< all queues are gone
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    [[nodiscard]] Result<> add_subsystem(SubsystemConfig);
    [[nodiscard]] Result<> remove_subsystem(const std::string& nqn);
    [[nodiscard]] Result<> allow_host(const std::string& nqn, const std::string& host_nqn);
    [[nodiscard]] Result<> disallow_host(const std::string& nqn, const std::string& host_nqn);
    [[nodiscard]] Result<> allow_any_host(const std::string& nqn, bool any);
    [[nodiscard]] std::vector<SubsystemConfig> subsystems() const;
    [[nodiscard]] bool has_subsystem(const std::string& nqn) const;

    /// Visible to connected hosts at once, with an event.
    [[nodiscard]] Result<std::uint32_t> add_namespace(const std::string& nqn, NamespaceConfig);
    /// Commands to it fail from now on; returns when none is in a backend any more and its device was let go.
    [[nodiscard]] Result<> remove_namespace(const std::string& nqn, std::uint32_t nsid);
    [[nodiscard]] Result<std::vector<NamespaceInfo>> namespaces(const std::string& nqn) const;
    [[nodiscard]] Result<NamespaceInfo> namespace_info(const std::string& nqn, std::uint32_t nsid) const;
    [[nodiscard]] Result<std::shared_ptr<Device>> device(const std::string& nqn, std::uint32_t nsid) const;

    /// A port shows all subsystems. Returns its id.
    [[nodiscard]] Result<unsigned> add_port(PortConfig);
    [[nodiscard]] Result<> remove_port(unsigned id);

    struct ControllerInfo {
        std::string subsystem_nqn, host_nqn, peer;
        std::uint16_t controller_id;
        unsigned io_queues;
        std::uint32_t keep_alive_ms;
    };
    [[nodiscard]] std::vector<ControllerInfo> controllers() const;

    [[nodiscard]] AnnouncedLimits limits() const noexcept;
    /// The in-process end of it, seen through port `id`.
    [[nodiscard]] std::unique_ptr<fabric::LoopTarget> loop(unsigned port_id);

    struct Impl;
    [[nodiscard]] Impl& impl() noexcept { return *impl_; }

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace mqblk::device::nvme
