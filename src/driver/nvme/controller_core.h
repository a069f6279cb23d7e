// SPDX-License-Identifier: Apache-2.0
//
// ControllerCore: one controller's life in the control reactor. It is brought up, serves (keep-alive, events, scans),
// is lost, waits, is brought up again, until it is shut down or was lost for too long. One coroutine owns that course;
// callbacks only leave notes for it. I/O goes on elsewhere, told by the Association. NVMe fabrics 1.1, section 3.4.
#pragma once

#include "base/task.h"
#include "driver/nvme/association.h"
#include "driver/nvme/controller_fence.h"
#include "driver/nvme/host.h"
#include "driver/nvme/namespace_table.h"
#include "driver/nvme/owned_task.h"
#include "driver/nvme/scan.h"
#include "driver/nvme/session.h"
#include "reactor/reactor.h"
#include "reactor/signal.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::driver::nvme {

class ControllerCore final : public std::enable_shared_from_this<ControllerCore> {
  public:
    /// Keep Alive is never sent more often than this, whatever was asked for or granted.
    static constexpr Duration least_keep_alive_period = std::chrono::milliseconds(100);
    /// An event is taken from the target at most this often.
    static constexpr Duration least_event_period = std::chrono::milliseconds(10);
    static constexpr unsigned most_io_queues = 128;

    /// What of the first connection holds for all further ones.
    struct Io {
        unsigned queues = 0;
        unsigned depth = 0;
    };

    [[nodiscard]] static std::shared_ptr<ControllerCore> create(Reactor&, std::shared_ptr<const Transport>,
                                                                std::string subsystem_nqn, HostIdentity, HostOptions,
                                                                std::shared_ptr<FenceBook>);

    /// The first connection. On success start() follows, on an error nothing is left behind. Control reactor.
    [[nodiscard]] Task<Result<>> bring_up();
    /// From here on the core lives by itself until it was shut down.
    void start();

    // Any thread.
    [[nodiscard]] ControllerState state() const noexcept { return state_.load(std::memory_order_acquire); }
    [[nodiscard]] const std::shared_ptr<Association>& association() const noexcept { return association_; }
    [[nodiscard]] NamespaceTable& namespaces() noexcept { return namespaces_; }
    [[nodiscard]] ControllerFacts facts() const;
    [[nodiscard]] Io io() const;
    [[nodiscard]] const HostOptions& options() const noexcept { return options_; }
    [[nodiscard]] std::string title() const;  ///< "'NQN' at ADDRESS"
    /// `done` (may be empty) runs in the control reactor when the controller is disconnected.
    void shutdown(std::function<void()> done);
    /// shutdown(), and the reference is dropped in the control reactor: if it is the last, what the core holds of that
    /// reactor goes on its thread.
    static void let_go(std::shared_ptr<ControllerCore>);
    /// As shutdown(), in the control reactor; an attempt to connect ends now.
    void abandon();

  private:
    ControllerCore(Reactor&, HostOptions, std::shared_ptr<FenceBook>);

    // The course (controller_core.cpp).
    Task<void> run();
    Task<void> serve();
    Task<bool> recover();
    Task<void> attempt();
    void tell_recovery(Time lost, const NamespaceMap& before) const;
    Task<void> stop();
    void finish(ControllerState);
    void request_reset(std::string reason);
    void request_abort(std::uint16_t queue_id, std::uint16_t command_id);

    // Bringing up (controller_bring_up.cpp).
    Task<Result<>> set_up(Session&);
    Task<Result<>> identify(Session&);
    Task<Result<>> set_queue_count(const Session&);
    Task<Result<>> set_up_events(const Session&);
    Task<Result<>> ask_for_retry_delays(const Session&);

    // Between two associations (controller_fence.cpp).
    void note_unfenced();
    Task<Result<>> fence(const Session&);
    Task<Result<>> fence_one(const Session&, Unfenced);
    Task<Result<bool>> cross_reset(const Session&, const Unfenced&);
    Task<Result<bool>> await_cross_reset(const Session&, const Unfenced&);
    Task<Result<>> fence_pause(Duration);

    // While it serves (controller_events.cpp).
    void arm_keep_alive();
    void send_keep_alive();
    void ask_for_event();
    void on_event(std::uint32_t result);
    Task<void> rescan();
    void tell_changes(const NamespaceMap& before) const;

    Reactor& reactor_;
    const HostOptions options_;
    std::shared_ptr<Association> association_;
    std::atomic<ControllerState> state_{ControllerState::connecting};
    NamespaceTable namespaces_;

    mutable std::mutex mutex_;  ///< the three below: written while being brought up, read by any thread
    ControllerFacts facts_;
    Io io_;
    Io granted_;  ///< by the controller of now: no more of each is used

    // Control reactor only.
    const std::shared_ptr<FenceBook> unfenced_;
    Session session_;
    Signal signal_;
    Timer keep_alive_timer_, event_timer_;
    OwnedTask attempt_;
    std::optional<Result<>> attempt_result_;
    bool reset_wanted_ = false;
    bool refused_ = false;  // by the last attempt's target, for good
    bool stop_wanted_ = false;
    bool events_offered_ = false;
    bool rescan_wanted_ = false;
    bool keep_alive_outstanding_ = false;
    bool finished_ = false;
    bool raised_ = false;    ///< the association was up with the controller that `facts_` describes
    Time fence_by_ = never;  ///< a fence that is not done by then fails its attempt
    std::vector<std::function<void()>> when_stopped_;
};

}  // namespace mqblk::driver::nvme
