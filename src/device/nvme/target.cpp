// SPDX-License-Identifier: Apache-2.0
//
// The target's control path but for namespaces (target_namespaces.cpp): subsystems, hosts, ports, and what queues ask
// the target for when they begin.
#include "device/nvme/target.h"

#include "device/nvme/controller.h"
#include "device/nvme/identity.h"
#include "device/nvme/target_impl.h"
#include "device/nvme/worker.h"
#include "wire/nqn.h"
#include "wire/nvme_fabrics.h"

#include <fmt/format.h>

#include <utility>

namespace mqblk::device::nvme {

namespace {
SubsystemConfig discovery_config() {
    SubsystemConfig config;
    config.nqn = discovery_nqn;
    return config;
}

std::unexpected<Error> no_subsystem(const std::string& nqn, const std::string& known) {
    return fail(Errc::not_found, fmt::format("there is no subsystem {}; this target has {}", nqn, known));
}
}  // namespace

// --- For queues ------------------------------------------------------------------------------------------------

Target::Impl::Impl(Options given)
    : options(given), limits(announce(given)), discovery(std::make_shared<Subsystem>(discovery_config(), true)) {}

std::shared_ptr<Subsystem> Target::Impl::find(std::string_view nqn) const {
    if (nqn == discovery_nqn) return discovery;
    const std::lock_guard lock(mutex);
    const auto found = subsystems.find(nqn);
    return found == subsystems.end() ? nullptr : found->second;
}

std::optional<PortConfig> Target::Impl::port(unsigned id) const {
    const std::lock_guard lock(mutex);
    const auto found = ports.find(id);
    if (found == ports.end()) return std::nullopt;
    return found->second;
}

std::shared_ptr<Worker> Target::Impl::worker(Reactor& reactor) {
    const std::lock_guard lock(mutex);
    for (const WorkerEntry& entry : workers) {
        if (entry.reactor != &reactor) continue;
        if (auto existing = entry.worker.lock()) return existing;
    }
    // Its last queue destroys it, on its own thread. The entry outlives it, so that who removes a namespace waits for
    // this thread, by a task posted to it, until the channels are closed.
    std::shared_ptr<Worker> made(new Worker(reactor), [this](Worker* last) {
        const void* const identity = last;
        delete last;
        const std::lock_guard unlisting(mutex);
        std::erase_if(workers, [identity](const WorkerEntry& entry) { return entry.identity == identity; });
    });
    workers.push_back({&reactor, std::this_thread::get_id(), made.get(), made});
    return made;
}

Target::Impl::DiscoveryView Target::Impl::discovery_view(unsigned port_id, const std::string& host) const {
    const std::lock_guard lock(mutex);
    DiscoveryView view{generation, {}, {}};
    const auto asked = ports.find(port_id);
    for (const auto& [id, config] : ports) {
        if (asked != ports.end() && config.transport == asked->second.transport) view.ports.push_back(config);
    }
    for (const auto& [nqn, subsystem] : subsystems) {
        if (subsystem->allows(host)) view.subsystems.push_back(nqn);
    }
    return view;
}

void Target::Impl::discovery_changed() {
    {
        const std::lock_guard lock(mutex);
        ++generation;
    }
    for (const auto& controller : discovery->controllers()) controller->discovery_changed();
}

Result<std::shared_ptr<Subsystem>> Target::Impl::subsystem(const std::string& nqn) const {
    const std::lock_guard lock(mutex);
    if (const auto found = subsystems.find(nqn); found != subsystems.end()) return found->second;
    std::string known = subsystems.empty() ? "none" : subsystems.begin()->first;
    if (subsystems.size() > 1) known += fmt::format(" and {} more", subsystems.size() - 1);
    return no_subsystem(nqn, known);
}

// --- Subsystems ------------------------------------------------------------------------------------------------

Target::Target(Options options) : impl_(std::make_unique<Impl>(options)) {}

Target::~Target() {
    for (const auto& config : subsystems()) static_cast<void>(remove_subsystem(config.nqn));
}

Result<> Target::add_subsystem(SubsystemConfig config) {
    if (auto good = wire::nvme::check_nqn("subsystem NQN", config.nqn); !good) return good;
    if (config.nqn == discovery_nqn) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} is the discovery service, which is always there; choose another NQN", config.nqn));
    }
    for (const auto& host : config.allowed_hosts) {
        if (auto good = wire::nvme::check_nqn("host NQN", host); !good) return good;
    }
    if (config.serial.size() > 20 || config.model.size() > 40) {
        return fail(Errc::invalid_argument,
                    fmt::format("serial '{}' or model '{}' is too long; they have room for 20 and 40 characters",
                                config.serial, config.model));
    }
    {
        const std::lock_guard lock(impl_->mutex);
        auto& place = impl_->subsystems[config.nqn];
        if (place) {
            return fail(Errc::already_exists,
                        fmt::format("subsystem {} exists already; choose another NQN", config.nqn));
        }
        place = std::make_shared<Subsystem>(std::move(config), false);
    }
    impl_->discovery_changed();
    return {};
}

Result<> Target::remove_subsystem(const std::string& nqn) {
    auto subsystem = impl_->subsystem(nqn);
    if (!subsystem) return std::unexpected(subsystem.error());
    {
        const std::lock_guard lock(impl_->mutex);
        impl_->subsystems.erase(nqn);
    }
    impl_->discovery_changed();
    for (const auto& controller : (*subsystem)->controllers()) {
        controller->end(wire::nvme::status::aborted_queue_deleted);
    }
    Result<> result;
    for (const auto& ns : (*subsystem)->all()) {
        const auto erased = (*subsystem)->erase(ns->nsid);
        if (!erased) continue;
        if (auto gone = impl_->retire(*subsystem, erased); !gone) result = gone;
    }
    return result;
}

bool Target::has_subsystem(const std::string& nqn) const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->subsystems.contains(nqn);
}

std::vector<SubsystemConfig> Target::subsystems() const {
    const std::lock_guard lock(impl_->mutex);
    std::vector<SubsystemConfig> list;
    for (const auto& [nqn, subsystem] : impl_->subsystems) list.push_back(subsystem->config());
    return list;
}

// --- Hosts -----------------------------------------------------------------------------------------------------

namespace {
/// A host that may no longer use the subsystem loses its associations.
void expel(const Subsystem& subsystem) {
    for (const auto& controller : subsystem.controllers()) {
        if (!subsystem.allows(controller->host_nqn)) {
            controller->end(wire::nvme::status::permanent(wire::nvme::status::connect_invalid_host));
        }
    }
}
}  // namespace

Result<> Target::allow_host(const std::string& nqn, const std::string& host_nqn) {
    if (auto good = wire::nvme::check_nqn("host NQN", host_nqn); !good) return good;
    const auto subsystem = impl_->subsystem(nqn);
    if (!subsystem) return std::unexpected(subsystem.error());
    (*subsystem)->allow(host_nqn);
    impl_->discovery_changed();
    return {};
}

Result<> Target::disallow_host(const std::string& nqn, const std::string& host_nqn) {
    const auto subsystem = impl_->subsystem(nqn);
    if (!subsystem) return std::unexpected(subsystem.error());
    if (!(*subsystem)->disallow(host_nqn)) {
        return fail(Errc::not_found, fmt::format("host {} is not in the list of subsystem {}", host_nqn, nqn));
    }
    expel(**subsystem);
    impl_->discovery_changed();
    return {};
}

Result<> Target::allow_any_host(const std::string& nqn, bool any) {
    const auto subsystem = impl_->subsystem(nqn);
    if (!subsystem) return std::unexpected(subsystem.error());
    (*subsystem)->allow_any(any);
    expel(**subsystem);
    impl_->discovery_changed();
    return {};
}

// --- Ports and reports -----------------------------------------------------------------------------------------

Result<unsigned> Target::add_port(PortConfig config) {
    if (config.transport != "tcp" && config.transport != "loop") {
        return fail(Errc::not_supported,
                    fmt::format("there is no transport '{}'; there are tcp and loop", config.transport));
    }
    wire::nvme::DiscoveryEntry record;
    if (config.address.size() >= record.address.size() || config.service.size() >= record.service_id.size()) {
        return fail(Errc::invalid_argument, fmt::format("address '{}:{}' does not fit a discovery record; use the "
                                                        "numeric address",
                                                        config.address, config.service));
    }
    constexpr unsigned most = 0xffff;
    {
        const std::lock_guard lock(impl_->mutex);
        if (config.id == 0) {
            config.id = 1;
            while (impl_->ports.contains(config.id)) ++config.id;
        }
        if (config.id > most) {
            return fail(Errc::invalid_argument, fmt::format("port id {} is beyond the largest, {}", config.id, most));
        }
        if (!impl_->ports.emplace(config.id, config).second) {
            return fail(Errc::already_exists, fmt::format("port {} exists already; choose another id", config.id));
        }
    }
    impl_->discovery_changed();
    return config.id;
}

Result<> Target::remove_port(unsigned id) {
    {
        const std::lock_guard lock(impl_->mutex);
        if (impl_->ports.erase(id) == 0) return fail(Errc::not_found, fmt::format("there is no port {}", id));
    }
    impl_->discovery_changed();
    return {};
}

std::vector<Target::ControllerInfo> Target::controllers() const {
    std::vector<std::shared_ptr<Subsystem>> all{impl_->discovery};
    {
        const std::lock_guard lock(impl_->mutex);
        for (const auto& [nqn, subsystem] : impl_->subsystems) all.push_back(subsystem);
    }
    std::vector<ControllerInfo> list;
    for (const auto& subsystem : all) {
        for (const auto& controller : subsystem->controllers()) {
            list.push_back({subsystem->nqn, controller->host_nqn, controller->peer, controller->id,
                            controller->io_queues(), controller->keep_alive_ms()});
        }
    }
    return list;
}

AnnouncedLimits Target::limits() const noexcept {
    return impl_->limits;
}

}  // namespace mqblk::device::nvme
