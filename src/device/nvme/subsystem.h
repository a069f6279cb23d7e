// SPDX-License-Identifier: Apache-2.0
//
// Subsystem: the namespaces that hosts see under one NQN, the hosts that may, and the controllers they have. Commands
// read the namespaces from the XArray under an RCU read lock; everything that changes goes through the mutex. The
// discovery service is a subsystem too: one without namespaces, whose controllers serve the discovery log.
#pragma once

#include "base/xarray.h"
#include "device/nvme/namespace.h"
#include "device/nvme/target.h"
#include "wire/nvme_cross_reset.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace mqblk::device::nvme {

class Controller;
class Instance;

class Subsystem : public std::enable_shared_from_this<Subsystem> {
  public:
    Subsystem(SubsystemConfig, bool discovery);
    ~Subsystem();  ///< no namespace is left in the XArray

    const std::string nqn, serial, model;
    const bool discovery;

    // Any thread, under an RCU read lock.
    [[nodiscard]] const XArray<Namespace>& namespaces() const noexcept { return namespaces_; }

    // Any thread.

    [[nodiscard]] SubsystemConfig config() const;
    [[nodiscard]] bool allows(const std::string& host_nqn) const;
    void allow(const std::string& host_nqn);
    [[nodiscard]] bool disallow(const std::string& host_nqn);  ///< false: it was not in the list
    void allow_any(bool);

    /// The lowest free nsid, or an error when there is none up to `most`; `wanted` if that is free and not 0.
    [[nodiscard]] Result<std::uint32_t> reserve(std::uint32_t wanted, std::uint32_t most);
    void cancel_reservation(std::uint32_t nsid);
    void insert(std::shared_ptr<Namespace>);  ///< under a reserved nsid
    /// Takes it out of the XArray; its nsid stays reserved until cancel_reservation(). Null: there is none.
    [[nodiscard]] std::shared_ptr<Namespace> erase(std::uint32_t nsid);
    [[nodiscard]] std::shared_ptr<Namespace> get(std::uint32_t nsid) const;
    [[nodiscard]] std::vector<std::shared_ptr<Namespace>> all() const;

    /// An id that no controller has, reserved until release_controller_id(); 0xffff: all are in use.
    [[nodiscard]] std::uint16_t reserve_controller_id();
    void release_controller_id(std::uint16_t id);
    /// A new life of a controller under a reserved id; `random` is not 0.
    [[nodiscard]] std::shared_ptr<Instance> make_instance(std::uint16_t id, std::uint64_t random,
                                                          const std::string& host_nqn,
                                                          const std::array<std::uint8_t, 16>& host_id);
    /// Null: it has ended, or never was.
    [[nodiscard]] std::shared_ptr<Instance> instance(const wire::nvme::ControllerInstance& name) const;
    /// Under a reserved id. It releases the id when it is destroyed.
    void insert(const std::shared_ptr<Controller>&);
    [[nodiscard]] std::shared_ptr<Controller> controller(std::uint16_t id) const;
    [[nodiscard]] std::vector<std::shared_ptr<Controller>> controllers() const;

    /// The namespaces at one instant, ascending, and a count that grows with every change of them.
    struct Inventory {
        std::uint64_t change_count;
        std::vector<std::uint32_t> nsids;
    };
    [[nodiscard]] Inventory inventory() const;

  private:
    XArray<Namespace> namespaces_;
    mutable std::mutex mutex_;
    // Under the mutex.
    std::uint64_t changes_ = 0;
    std::map<std::uint32_t, std::shared_ptr<Namespace>> owned_;
    std::set<std::uint32_t> reserved_;  // nsids in use, or on their way in or out
    std::uint32_t first_to_try_ = 1;    // every nsid below is reserved
    bool any_host_;
    std::set<std::string> hosts_;
    std::map<std::uint16_t, std::weak_ptr<Controller>> controllers_;
    std::uint16_t next_controller_id_ = 1;
    std::vector<std::weak_ptr<Instance>> instances_;
    std::uint8_t last_uniquifier_ = 0;
};

}  // namespace mqblk::device::nvme
