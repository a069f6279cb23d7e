// SPDX-License-Identifier: Apache-2.0
//
// Controller: one host's association with a subsystem, from the Connect of its admin queue until that queue is gone.
// What it is does not change; what I/O queues read at each command are atomics; all other state belongs to the thread
// of the admin queue's reactor, and other threads reach it by posting there. NVMe 1.4, sections 3.1 (registers), 5
// (features); NVMe-oF 1.1, sections 4.3 to 4.6 (associations).
#pragma once

#include "base/clock.h"
#include "device/nvme/async_events.h"
#include "device/nvme/cross_resets.h"
#include "device/nvme/error_log.h"
#include "device/nvme/identity.h"
#include "device/nvme/instance.h"
#include "device/nvme/subsystem.h"
#include "reactor/reactor.h"
#include "wire/nvme_logs.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mqblk::device::nvme {

class QueueCore;

class Controller : public std::enable_shared_from_this<Controller> {
  public:
    struct Config {
        std::shared_ptr<Subsystem> subsystem;
        std::shared_ptr<Instance> instance;  ///< its name begins with a reserved controller id
        unsigned port;
        std::string host_nqn;
        Uuid host_id;
        std::uint32_t keep_alive_ms;  ///< as Connect said
        std::string peer;
    };
    Controller(Target::Impl&, Config);
    ~Controller();  ///< any thread; the admin queue has left

    // Constant.
    Target::Impl& target;
    const std::shared_ptr<Subsystem> subsystem;
    const std::uint16_t id;
    const wire::nvme::ControllerInstance instance_name;
    const unsigned port;
    const std::string host_nqn;
    const Uuid host_id;
    const std::string peer;

    // Read by every I/O command; written by the admin thread.
    alignas(64) std::atomic<bool> ready{false};  ///< CSTS.RDY
    std::atomic<bool> write_cache{true};         ///< feature 06h: off makes every write a FUA one

    // Any thread.
    alignas(64) ErrorLog errors;
    /// Adds an I/O queue under its id. Not success: the id is in use, or the association is ending.
    [[nodiscard]] std::uint16_t join(const std::shared_ptr<QueueCore>&, std::uint16_t queue_id);
    void leave(QueueCore&) noexcept;
    /// Null: there is no such queue.
    [[nodiscard]] std::shared_ptr<QueueCore> queue(std::uint16_t queue_id) const;
    /// For a queue that is about to join. Null: the last queue has let go of it.
    [[nodiscard]] std::shared_ptr<Instance> instance() const noexcept { return instance_.lock(); }
    [[nodiscard]] unsigned io_queues() const;
    /// Ends the association: every queue is told to close.
    void end(std::uint16_t status);
    void namespace_changed(std::uint32_t nsid);
    void discovery_changed();
    [[nodiscard]] bool serves_cross_reset() const noexcept;
    void cross_reset_ended(const wire::nvme::ControllerInstance&);
    [[nodiscard]] std::uint32_t keep_alive_ms() const noexcept {
        return keep_alive_ms_.load(std::memory_order_relaxed);
    }

    // Admin thread only.

    /// The admin queue exists / is about to go; between them everything below works.
    void start(const std::shared_ptr<QueueCore>& admin);
    void stop() noexcept;

    [[nodiscard]] std::uint64_t capabilities() const noexcept;
    [[nodiscard]] std::uint32_t configuration() const noexcept { return cc_; }
    [[nodiscard]] std::uint32_t status_register() const noexcept { return csts_; }
    void configure(std::uint32_t cc) noexcept;

    void set_keep_alive(std::uint32_t ms) noexcept;
    void keep_alive_received() noexcept;

    AsyncEvents events;
    CrossResets cross_resets{*this};
    /// Writes the changed-namespace list; forget_changed() empties it.
    void write_changed(PageWindow&) const noexcept;
    void forget_changed() noexcept;
    std::uint32_t granted_io_queues;
    std::uint64_t timestamp_base_ms = 0;
    Time timestamp_set;
    bool timestamp_by_host = false;
    std::array<std::uint8_t, wire::nvme::host_behavior_bytes> host_behavior{};

  private:
    const std::weak_ptr<Instance> instance_;
    void post(std::function<void(Controller&)> task);
    void look_for_traffic();
    bool look_later() noexcept;  ///< false: the host has been silent for too long
    [[nodiscard]] std::uint64_t traffic() const;

    std::atomic<std::uint32_t> keep_alive_ms_;
    std::uint32_t cc_ = 0, csts_ = 0;
    std::optional<Timer> keep_alive_;
    std::uint64_t traffic_seen_ = 0;
    unsigned quiet_looks_ = 0;
    Time heard_;  ///< when traffic was last seen to have come
    std::set<std::uint32_t> changed_;
    bool changed_overflow_ = false;

    mutable std::mutex mutex_;
    // Under the mutex.
    Reactor* admin_reactor_ = nullptr;              // null before start() and after stop()
    std::vector<std::weak_ptr<QueueCore>> queues_;  // by queue id; 0 is the admin queue
    bool ending_ = false;
};

}  // namespace mqblk::device::nvme
