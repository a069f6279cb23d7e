// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/controller.h"

#include "base/log.h"
#include "device/nvme/page_window.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/target_impl.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::device::nvme {

namespace cc = wire::nvme::cc;
namespace csts = wire::nvme::csts;
namespace status = wire::nvme::status;

Controller::Controller(Target::Impl& owner, Config config)
    : target(owner),
      subsystem(std::move(config.subsystem)),
      id(config.instance->name.id),
      instance_name(config.instance->name),
      port(config.port),
      host_nqn(std::move(config.host_nqn)),
      host_id(config.host_id),
      peer(std::move(config.peer)),
      events(subsystem->discovery ? wire::nvme::oaes::discovery_change
             : owner.options.cross_controller_reset
                 ? wire::nvme::oaes::namespace_attributes | wire::nvme::oaes::ana | wire::nvme::oaes::cross_reset
                 : wire::nvme::oaes::namespace_attributes | wire::nvme::oaes::ana),
      granted_io_queues(owner.limits.max_io_queues),
      instance_(config.instance),
      keep_alive_ms_(0),
      queues_(1) {
    set_keep_alive(config.keep_alive_ms);
}

Controller::~Controller() {
    subsystem->release_controller_id(id);
}

// --- Queues -----------------------------------------------------------------------------------------------------

std::uint16_t Controller::join(const std::shared_ptr<QueueCore>& queue, std::uint16_t queue_id) {
    const std::lock_guard lock(mutex_);
    if (ending_ || admin_reactor_ == nullptr) return status::connect_controller_busy;
    if (queues_.size() <= queue_id) queues_.resize(queue_id + 1u);
    if (!queues_[queue_id].expired()) return status::permanent(status::command_sequence_error);
    queues_[queue_id] = queue;
    return status::success;
}

void Controller::leave(QueueCore& queue) noexcept {
    const std::lock_guard lock(mutex_);
    queues_[queue.queue_id()].reset();
}

std::shared_ptr<QueueCore> Controller::queue(std::uint16_t queue_id) const {
    const std::lock_guard lock(mutex_);
    return queue_id < queues_.size() ? queues_[queue_id].lock() : nullptr;
}

unsigned Controller::io_queues() const {
    const std::lock_guard lock(mutex_);
    return static_cast<unsigned>(
        std::count_if(queues_.begin() + 1, queues_.end(), [](const auto& queue) { return !queue.expired(); }));
}

void Controller::end(std::uint16_t why) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ending_, true)) return;
    for (const auto& weak : queues_) {
        // A queue leaves before its reactor may go, so the reactor of one that is here is alive.
        if (const auto queue = weak.lock()) {
            queue->reactor().post([weak, why] {
                if (const auto there = weak.lock()) there->close(why);
            });
        }
    }
}

std::uint64_t Controller::traffic() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& weak : queues_) {
        if (const auto queue = weak.lock()) sum += queue->commands();
    }
    return sum;
}

// --- The admin thread ---------------------------------------------------------------------------------------------

void Controller::post(std::function<void(Controller&)> task) {
    const std::lock_guard lock(mutex_);
    if (admin_reactor_ == nullptr) return;
    admin_reactor_->post([weak = weak_from_this(), task = std::move(task)] {
        if (const auto self = weak.lock()) task(*self);
    });
}

void Controller::start(const std::shared_ptr<QueueCore>& admin) {
    {
        const std::lock_guard lock(mutex_);
        admin_reactor_ = &admin->reactor();
        queues_[0] = admin;
    }
    timestamp_set = admin->reactor().now();
    cross_resets.start(admin->reactor());
    keep_alive_.emplace([this] { look_for_traffic(); });
    keep_alive_received();
}

void Controller::stop() noexcept {
    ready.store(false, std::memory_order_relaxed);
    keep_alive_.reset();
    {
        const std::lock_guard lock(mutex_);
        admin_reactor_ = nullptr;
        queues_[0].reset();
    }
    events.end_all(status::permanent(status::aborted_queue_deleted));
    cross_resets.stop();
    end(status::aborted_queue_deleted);
}

std::uint64_t Controller::capabilities() const noexcept {
    namespace cap = wire::nvme::cap;
    return cap::max_queue_entries(target.limits.max_queue_entries) | cap::queues_contiguous |
           cap::ready_timeout(ready_timeout_half_seconds) | cap::css_nvm | cap::css_csi;
}

void Controller::configure(std::uint32_t value) noexcept {
    const std::uint32_t before = std::exchange(cc_, value);
    if ((value & cc::shutdown_mask) != 0 && (before & cc::shutdown_mask) == 0) {
        ready.store(false, std::memory_order_relaxed);
        csts_ = (csts_ & csts::fatal) | csts::shutdown_complete;
        events.end_all(status::aborted_queue_deleted);
        return;
    }
    if ((value & cc::enable) != 0 && (before & cc::enable) == 0) {
        const std::uint32_t css = value & cc::css_mask;
        const bool sizes = subsystem->discovery || (value & cc::entry_sizes_mask) == cc::entry_sizes;
        const bool good = sizes && (value & (cc::page_size_mask | cc::arbitration_mask)) == 0 &&
                          (css == cc::css_nvm || css == cc::css_csi);
        csts_ = good ? csts::ready : csts::fatal;
        if (!good) {
            log_limited("nvme target: bad CC", fmt::format("nvme target: controller {} of '{}' is enabled with a "
                                                           "configuration that it cannot serve: {:#x}",
                                                           id, host_nqn, value));
        }
        ready.store(good, std::memory_order_relaxed);
        keep_alive_received();
    } else if ((value & cc::enable) == 0 && (before & cc::enable) != 0) {
        ready.store(false, std::memory_order_relaxed);
        csts_ = 0;
        events.end_all(status::aborted_queue_deleted);
    }
}

// --- Keep-alive ----------------------------------------------------------------------------------------------------

void Controller::set_keep_alive(std::uint32_t ms) noexcept {
    std::uint64_t rounded = ms;
    if (ms == 0 && subsystem->discovery) {
        // NVMe-oF 1.1, section 5: without a keep-alive, a discovery association ends after a time without commands.
        rounded = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::milliseconds>(target.options.discovery_keep_alive).count());
    }
    const std::uint64_t unit = target.limits.keep_alive_granularity_ms;
    rounded = (rounded + unit - 1) / unit * unit;
    constexpr std::uint64_t most = 0xffffffff;
    keep_alive_ms_.store(static_cast<std::uint32_t>(std::min(rounded, most)), std::memory_order_relaxed);
    if (keep_alive_) keep_alive_received();
}

void Controller::keep_alive_received() noexcept {
    if (!keep_alive_) return;
    traffic_seen_ = traffic();
    keep_alive_->cancel();
    const std::lock_guard lock(mutex_);
    if (admin_reactor_ == nullptr || keep_alive_ms() == 0) return;
    heard_ = admin_reactor_->now();
    quiet_looks_ = 0;
    look_later();
}

// Any command counts as a sign of life (traffic-based keep-alive), but commands do not touch the timer: it looks back,
// often enough to find silence soon after it has lasted too long. Where it was this process that stood still, the
// host's commands wait in the sockets: one look is not enough. Under the mutex.
bool Controller::look_later() noexcept {
    constexpr unsigned looks = 8;  // for each keep-alive time
    const auto allowed = std::chrono::milliseconds(keep_alive_ms());
    const Time now = admin_reactor_->now(), silent = heard_ + allowed, next = now + allowed / looks;
    if (now >= silent && quiet_looks_ > 1) return false;
    ++quiet_looks_;
    keep_alive_->arm(*admin_reactor_, now < silent ? std::min<Time>(next, silent) : next);
    return true;
}

void Controller::look_for_traffic() {
    if (traffic() != traffic_seen_) return keep_alive_received();
    {
        const std::lock_guard lock(mutex_);
        if (admin_reactor_ == nullptr) return;
        if (look_later()) return;
    }
    log_limited("nvme target: keep-alive", fmt::format("nvme target: '{}' was silent for {} ms: controller {} ends",
                                                       host_nqn, keep_alive_ms(), id));
    csts_ |= csts::fatal;
    ready.store(false, std::memory_order_relaxed);
    end(status::keep_alive_expired);
}

// --- Changes -------------------------------------------------------------------------------------------------------

void Controller::namespace_changed(std::uint32_t nsid) {
    post([nsid](Controller& self) {
        if (self.changed_.size() < wire::nvme::changed_namespaces_max) {
            self.changed_.insert(nsid);
        } else if (!self.changed_.contains(nsid)) {
            self.changed_overflow_ = true;
        }
        self.events.raise(AsyncEvents::namespace_attributes);
    });
}

void Controller::discovery_changed() {
    post([](Controller& self) { self.events.raise(AsyncEvents::discovery_change); });
}

bool Controller::serves_cross_reset() const noexcept {
    return target.options.cross_controller_reset && !subsystem->discovery;
}

void Controller::cross_reset_ended(const wire::nvme::ControllerInstance& impacted) {
    post([impacted](Controller& self) { self.cross_resets.gone(impacted); });
}

void Controller::write_changed(PageWindow& page) const noexcept {
    if (changed_overflow_) {
        page.append(le32{wire::nvme::nsid_all});
    } else {
        for (const std::uint32_t nsid : changed_) page.append(le32{nsid});
    }
    page.skip(sizeof(wire::nvme::ChangedNamespacesLog) - page.position());
}

void Controller::forget_changed() noexcept {
    changed_.clear();
    changed_overflow_ = false;
}

}  // namespace mqblk::device::nvme
