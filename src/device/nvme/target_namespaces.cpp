// SPDX-License-Identifier: Apache-2.0
//
// Namespaces come and go while commands run. One goes in four steps: out of the XArray, so that no command finds it any
// more; a wait for those that were looking; a task on every worker, which closes its channel when nothing is
// outstanding on it; then its device is let go.
#include "base/rcu.h"
#include "block/driver.h"
#include "device/nvme/controller.h"
#include "device/nvme/identity.h"
#include "device/nvme/target_impl.h"
#include "device/nvme/worker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <chrono>
#include <future>
#include <utility>

namespace mqblk::device::nvme {

namespace {

/// Bound of remove_namespace: backends end or fail their commands in less (block::Driver::Shape::timeout).
constexpr std::chrono::seconds removal_bound{60};
/// How long a caller that is itself a worker's thread turns that worker; what is left then ends in its own time.
constexpr std::chrono::milliseconds own_worker_bound{50};

/// Shares that are given up on any thread, and a wait for the last of them.
class Countdown {
  public:
    /// Keeps `until` as long as there is a share.
    explicit Countdown(std::shared_ptr<void> until)
        : own_share_(this, [signal = signal_, keep = std::move(until)](void*) mutable {
              keep.reset();
              signal->set_value();
          }) {}
    [[nodiscard]] std::shared_ptr<void> share() const { return own_share_; }
    void begin() { own_share_.reset(); }
    [[nodiscard]] bool done(std::chrono::microseconds wait) {
        return last_.wait_for(wait) == std::future_status::ready;
    }

  private:
    std::shared_ptr<std::promise<void>> signal_ = std::make_shared<std::promise<void>>();
    std::future<void> last_ = signal_->get_future();
    std::shared_ptr<void> own_share_;
};

void tell_hosts(const Subsystem& subsystem, std::uint32_t nsid) {
    for (const auto& controller : subsystem.controllers()) controller->namespace_changed(nsid);
}

std::unexpected<Error> no_such_namespace(const Subsystem& subsystem, const std::string& nqn, std::uint32_t nsid) {
    std::vector<std::uint32_t> there;
    for (const auto& ns : subsystem.all()) there.push_back(ns->nsid);
    return fail(Errc::not_found, there.empty() ? fmt::format("subsystem {} has no namespaces", nqn)
                                               : fmt::format("subsystem {} has no namespace {}; it has {}", nqn, nsid,
                                                             fmt::join(there, ", ")));
}

Result<> check_device(const Device& device, const std::string& uri) {
    const std::uint32_t block = device.limits().logical_block_size;
    if (block < sector_bytes || block > page_bytes || !std::has_single_bit(block)) {
        return fail(Errc::not_supported, fmt::format("{} has blocks of {} bytes; hosts take 512 to 4096", uri, block));
    }
    if (device.sectors() < block / sector_bytes) {
        return fail(Errc::invalid_argument, fmt::format("{} is smaller than one block; give it a size", uri));
    }
    return {};
}

Result<Uuid> given_or(std::string_view what, const std::string& text, const Uuid& derived) {
    if (text.empty()) return derived;
    return parse_uuid(what, text);
}

NamespaceInfo describe(const Namespace& ns) {
    const std::uint64_t blocks = ns.blocks.load(std::memory_order_relaxed);
    return {ns.nsid,
            ns.uri,
            uuid_text(ns.uuid),
            nguid_text(ns.nguid),
            blocks << (ns.block_shift - 9),
            1u << ns.block_shift};
}

}  // namespace

std::uint32_t Target::Impl::take_slot() {
    const std::lock_guard lock(mutex);
    if (free_slots.empty()) return slots++;
    const std::uint32_t slot = free_slots.back();
    free_slots.pop_back();
    return slot;
}

void Target::Impl::give_back_slot(std::uint32_t slot) {
    const std::lock_guard lock(mutex);
    free_slots.push_back(slot);
}

Result<> Target::Impl::retire(const std::shared_ptr<Subsystem>& subsystem, const std::shared_ptr<Namespace>& ns) {
    if (const auto device = ns->device()) device->on_change({});
    rcu::synchronize();

    // Every worker that has a channel holds a share of one of these until that channel is gone.
    std::shared_ptr<void> finished(ns.get(), [this, subsystem, ns](void*) {
        give_back_slot(ns->slot);
        subsystem->cancel_reservation(ns->nsid);
    });
    Countdown here(finished), elsewhere(finished);
    finished.reset();
    std::vector<std::shared_ptr<Worker>> own;  // several where one thread plays many, in simulations
    {
        const std::lock_guard lock(mutex);
        for (const WorkerEntry& entry : workers) {
            if (entry.thread == std::this_thread::get_id()) {
                if (auto worker = entry.worker.lock()) own.push_back(std::move(worker));
                continue;
            }
            entry.reactor->post([weak = entry.worker, slot = ns->slot, closed = elsewhere.share()] {
                if (const auto worker = weak.lock()) worker->close(slot, closed);
            });
        }
    }
    for (const auto& worker : own) worker->close(ns->slot, here.share());
    here.begin();
    elsewhere.begin();

    const auto start = std::chrono::steady_clock::now();
    const auto passed = [start](auto bound) { return std::chrono::steady_clock::now() - start > bound; };
    const std::chrono::microseconds pause = own.empty() ? removal_bound : std::chrono::microseconds(100);
    while (!elsewhere.done(pause) || (!here.done(pause) && !passed(own_worker_bound))) {
        for (const auto& worker : own) worker->poll();
        if (!passed(removal_bound)) continue;
        return fail(Errc::timed_out, fmt::format("namespace {} of {} was removed, but commands to {} have not ended in "
                                                 "{} s; its device stays open until they do",
                                                 ns->nsid, subsystem->nqn, ns->uri, removal_bound.count()));
    }
    if (!here.done(std::chrono::microseconds(0))) return {};
    ns->let_go();
    return {};
}

Result<std::uint32_t> Target::add_namespace(const std::string& nqn, NamespaceConfig config) {
    const auto found = impl_->subsystem(nqn);
    if (!found) return std::unexpected(found.error());
    const auto& subsystem = *found;
    if (!config.device) return fail(Errc::invalid_argument, fmt::format("{} has no device", config.uri));
    if (auto good = check_device(*config.device, config.uri); !good) return std::unexpected(good.error());
    const auto nsid = subsystem->reserve(config.nsid, impl_->limits.max_namespaces);
    if (!nsid) return nsid;
    const Uuid derived = derive_uuid(nqn, *nsid, config.uri);
    const auto uuid = given_or("uuid", config.uuid, derived);
    const auto nguid = given_or("nguid", config.nguid, uuid.value_or(derived));
    if (!uuid || !nguid) {
        subsystem->cancel_reservation(*nsid);
        return std::unexpected(uuid ? nguid.error() : uuid.error());
    }
    const auto device = config.device;
    const auto ns = std::make_shared<Namespace>(
        Namespace::Config{*nsid, impl_->take_slot(), std::move(config.uri), std::move(config.device), *uuid, *nguid});
    device->on_change([weak_ns = std::weak_ptr(ns), weak_subsystem = std::weak_ptr(subsystem)] {
        const auto changed = weak_ns.lock();
        const auto where = weak_subsystem.lock();
        if (changed && where && changed->refresh()) tell_hosts(*where, changed->nsid);
    });
    subsystem->insert(ns);
    tell_hosts(*subsystem, *nsid);
    return nsid;
}

Result<> Target::remove_namespace(const std::string& nqn, std::uint32_t nsid) {
    const auto subsystem = impl_->subsystem(nqn);
    if (!subsystem) return std::unexpected(subsystem.error());
    const auto ns = (*subsystem)->erase(nsid);
    if (!ns) return no_such_namespace(**subsystem, nqn, nsid);
    tell_hosts(**subsystem, nsid);
    return impl_->retire(*subsystem, ns);
}

Result<std::vector<NamespaceInfo>> Target::namespaces(const std::string& nqn) const {
    const auto subsystem = impl_->subsystem(nqn);
    if (!subsystem) return std::unexpected(subsystem.error());
    std::vector<NamespaceInfo> list;
    for (const auto& ns : (*subsystem)->all()) list.push_back(describe(*ns));
    return list;
}

Result<NamespaceInfo> Target::namespace_info(const std::string& nqn, std::uint32_t nsid) const {
    const auto subsystem = impl_->subsystem(nqn);
    if (!subsystem) return std::unexpected(subsystem.error());
    const auto ns = (*subsystem)->get(nsid);
    if (!ns) return no_such_namespace(**subsystem, nqn, nsid);
    return describe(*ns);
}

Result<std::shared_ptr<Device>> Target::device(const std::string& nqn, std::uint32_t nsid) const {
    const auto subsystem = impl_->subsystem(nqn);
    if (!subsystem) return std::unexpected(subsystem.error());
    const auto ns = (*subsystem)->get(nsid);
    auto device = ns ? ns->device() : nullptr;
    if (!device) return no_such_namespace(**subsystem, nqn, nsid);
    return device;
}

}  // namespace mqblk::device::nvme
