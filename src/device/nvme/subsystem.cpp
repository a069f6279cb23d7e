// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/subsystem.h"

#include "device/nvme/controller.h"
#include "device/nvme/identity.h"
#include "device/nvme/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::device::nvme {

Subsystem::Subsystem(SubsystemConfig config, bool is_discovery)
    : nqn(config.nqn),
      serial(config.serial.empty() ? derive_serial(config.nqn) : config.serial),
      model(config.model),
      discovery(is_discovery),
      any_host_(config.allow_any_host),
      hosts_(config.allowed_hosts.begin(), config.allowed_hosts.end()) {}

Subsystem::~Subsystem() = default;

SubsystemConfig Subsystem::config() const {
    const std::lock_guard lock(mutex_);
    return {nqn, serial, model, any_host_, {hosts_.begin(), hosts_.end()}};
}

bool Subsystem::allows(const std::string& host_nqn) const {
    const std::lock_guard lock(mutex_);
    return any_host_ || hosts_.contains(host_nqn);
}

void Subsystem::allow(const std::string& host_nqn) {
    const std::lock_guard lock(mutex_);
    hosts_.insert(host_nqn);
}

bool Subsystem::disallow(const std::string& host_nqn) {
    const std::lock_guard lock(mutex_);
    return hosts_.erase(host_nqn) > 0;
}

void Subsystem::allow_any(bool any) {
    const std::lock_guard lock(mutex_);
    any_host_ = any;
}

Result<std::uint32_t> Subsystem::reserve(std::uint32_t wanted, std::uint32_t most) {
    const std::lock_guard lock(mutex_);
    std::uint32_t nsid = wanted;
    if (nsid == 0) {
        nsid = first_to_try_;
        for (auto used = reserved_.lower_bound(nsid); used != reserved_.end() && *used == nsid; ++used) ++nsid;
        first_to_try_ = nsid;
        if (nsid > most) {
            return fail(
                Errc::no_space,
                fmt::format("subsystem {} has {} namespaces, the most it can have; remove one first", nqn, most));
        }
    }
    if (nsid > most) {
        return fail(Errc::invalid_argument,
                    fmt::format("namespace id {} is beyond the largest, {}; choose a smaller one", nsid, most));
    }
    if (!reserved_.insert(nsid).second) {
        return fail(Errc::already_exists, fmt::format("subsystem {} has a namespace {} already; choose another id or "
                                                      "remove that one first",
                                                      nqn, nsid));
    }
    return nsid;
}

void Subsystem::cancel_reservation(std::uint32_t nsid) {
    const std::lock_guard lock(mutex_);
    reserved_.erase(nsid);
    first_to_try_ = std::min(first_to_try_, nsid);
}

void Subsystem::insert(std::shared_ptr<Namespace> ns) {
    const std::lock_guard lock(mutex_);
    Namespace& inserted = *ns;
    owned_.emplace(inserted.nsid, std::move(ns));
    if (namespaces_.insert(inserted.nsid, inserted)) ++changes_;
}

std::shared_ptr<Namespace> Subsystem::erase(std::uint32_t nsid) {
    const std::lock_guard lock(mutex_);
    const auto found = owned_.find(nsid);
    if (found == owned_.end()) return nullptr;
    namespaces_.erase(nsid);
    auto ns = std::move(found->second);
    owned_.erase(found);
    ++changes_;
    return ns;
}

std::shared_ptr<Namespace> Subsystem::get(std::uint32_t nsid) const {
    const std::lock_guard lock(mutex_);
    const auto found = owned_.find(nsid);
    return found == owned_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Namespace>> Subsystem::all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Namespace>> list;
    list.reserve(owned_.size());
    for (const auto& [nsid, ns] : owned_) list.push_back(ns);
    return list;
}

Subsystem::Inventory Subsystem::inventory() const {
    const std::lock_guard lock(mutex_);
    Inventory inventory{changes_, {}};
    inventory.nsids.reserve(owned_.size());
    for (const auto& [nsid, ns] : owned_) inventory.nsids.push_back(nsid);
    return inventory;
}

std::uint16_t Subsystem::reserve_controller_id() {
    // NVMe-oF 1.1, section 3.3: FFF0h and above are reserved.
    constexpr std::uint16_t last = 0xffef;
    const std::lock_guard lock(mutex_);
    for (unsigned tries = 0; tries < last; ++tries) {
        const std::uint16_t id = next_controller_id_;
        next_controller_id_ = id == last ? std::uint16_t{1} : static_cast<std::uint16_t>(id + 1);
        if (controllers_.try_emplace(id).second) return id;
    }
    return 0xffff;
}

void Subsystem::release_controller_id(std::uint16_t id) {
    const std::lock_guard lock(mutex_);
    controllers_.erase(id);
}

std::shared_ptr<Instance> Subsystem::make_instance(std::uint16_t id, std::uint64_t random, const std::string& host_nqn,
                                                   const Uuid& host_id) {
    const std::lock_guard lock(mutex_);
    if (++last_uniquifier_ == 0) ++last_uniquifier_;  // 0: none is stated
    const wire::nvme::ControllerInstance name{id, last_uniquifier_, random};
    auto made = std::make_shared<Instance>(name, host_nqn, host_id);
    std::erase_if(instances_, [](const auto& weak) { return weak.expired(); });
    instances_.push_back(made);
    return made;
}

// As with controllers: an instance that is locked here must not be let go of under the mutex.
std::shared_ptr<Instance> Subsystem::instance(const wire::nvme::ControllerInstance& name) const {
    std::vector<std::shared_ptr<Instance>> others;
    const std::lock_guard lock(mutex_);
    for (const auto& weak : instances_) {
        auto instance = weak.lock();
        if (!instance) continue;
        if (instance->name == name) return instance;
        others.push_back(std::move(instance));
    }
    return nullptr;
}

void Subsystem::insert(const std::shared_ptr<Controller>& controller) {
    const std::lock_guard lock(mutex_);
    controllers_[controller->id] = controller;
}

std::shared_ptr<Controller> Subsystem::controller(std::uint16_t id) const {
    const std::lock_guard lock(mutex_);
    const auto found = controllers_.find(id);
    return found == controllers_.end() ? nullptr : found->second.lock();
}

// Locked ones are let go by the caller, outside the mutex: the last of them may end a controller, which comes back
// here.
std::vector<std::shared_ptr<Controller>> Subsystem::controllers() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Controller>> list;
    for (const auto& [id, weak] : controllers_) {
        if (auto controller = weak.lock()) list.push_back(std::move(controller));
    }
    return list;
}

}  // namespace mqblk::device::nvme
