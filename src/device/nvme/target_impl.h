// SPDX-License-Identifier: Apache-2.0
//
// What a Target is inside: subsystems, ports, and the workers of the reactors that carry its queues. Lock order: the
// target's mutex, then a subsystem's, then a controller's or a namespace's; nothing calls out with one of them held.
#pragma once

#include "device/nvme/limits.h"
#include "device/nvme/subsystem.h"
#include "device/nvme/target.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mqblk::device::nvme {

class Worker;

struct Target::Impl {
    explicit Impl(Options);

    const Options options;
    const AnnouncedLimits limits;
    const std::shared_ptr<Subsystem> discovery;

    // For queues; control path.

    /// The subsystem that `nqn` names, the discovery service included; null if there is none.
    [[nodiscard]] std::shared_ptr<Subsystem> find(std::string_view nqn) const;
    [[nodiscard]] std::optional<PortConfig> port(unsigned id) const;
    /// The worker of the calling thread's reactor; made if this is its first queue.
    [[nodiscard]] std::shared_ptr<Worker> worker(Reactor&);

    /// Records of the discovery log for `host` that comes through `port`, and their generation, at one instant.
    struct DiscoveryView {
        std::uint64_t generation;
        std::vector<PortConfig> ports;        ///< of the same transport
        std::vector<std::string> subsystems;  ///< that the host may use
    };
    [[nodiscard]] DiscoveryView discovery_view(unsigned port, const std::string& host) const;
    /// Something that the discovery log shows has changed: new generation, event to every discovery controller.
    void discovery_changed();

    // For the control path (target.cpp, target_namespaces.cpp).

    [[nodiscard]] Result<std::shared_ptr<Subsystem>> subsystem(const std::string& nqn) const;
    /// Takes a namespace that is out of its subsystem's XArray away from every worker and lets its device go.
    [[nodiscard]] Result<> retire(const std::shared_ptr<Subsystem>&, const std::shared_ptr<Namespace>&);
    [[nodiscard]] std::uint32_t take_slot();
    void give_back_slot(std::uint32_t slot);

    mutable std::mutex mutex;
    // Under the mutex.
    std::map<std::string, std::shared_ptr<Subsystem>, std::less<>> subsystems;
    std::map<unsigned, PortConfig> ports;
    std::uint64_t generation = 1;
    std::uint32_t slots = 0;                // ever in use by namespaces
    std::vector<std::uint32_t> free_slots;  // of those: not in use now
    struct WorkerEntry {
        Reactor* reactor;
        std::thread::id thread;
        const void* identity;  // only to compare: its channels closed, the worker itself may be gone already
        std::weak_ptr<Worker> worker;
    };
    std::vector<WorkerEntry> workers;  // a worker's entry is taken out before its reactor may go
};

}  // namespace mqblk::device::nvme
