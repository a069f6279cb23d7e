// SPDX-License-Identifier: Apache-2.0
//
// AdminQueue: queue 0 of a controller. Every command has a slot found by its identifier, a time-out and one end: a
// completion, or an error when the connection is lost or the time is up, which loses the connection. Two tags are kept
// apart for Keep Alive and the asynchronous event request, so that no scan can starve them. Control reactor only.
#pragma once

#include "base/clock.h"
#include "base/task.h"
#include "block/tag_set.h"
#include "driver/nvme/queue_pair.h"
#include "reactor/reactor.h"

#include <mqblk/error.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mqblk::driver::nvme {

class AdminQueue final : public Poller, public QueuePairEvents, public std::enable_shared_from_this<AdminQueue> {
  public:
    static constexpr unsigned depth = 32;
    static constexpr unsigned reserved = 2;

    using Done = std::function<void(Result<wire::nvme::Completion>)>;

    /// One command. `what` names it in errors; it must outlive the command (a literal).
    struct Order {
        wire::nvme::Command command;
        Segment data{nullptr, 0};
        Transfer transfer = Transfer::none;
        std::string_view what;
        Duration timeout = Duration::zero();  ///< zero: none (asynchronous event request)
        bool on_reserved_tag = false;
    };

    /// `lost` is called at most once, from a pass of the reactor, when the queue broke down by itself.
    AdminQueue(Reactor&, std::string target, std::function<void(std::string reason)> lost);
    ~AdminQueue();

    /// Every command ends by `deadline`, whatever time it has of its own; `never` lifts that. `bound`: for the
    /// sentence.
    void end_by(Time deadline, Duration bound = {}) noexcept {
        deadline_ = deadline;
        bound_ = bound;
    }
    /// Starts to use a pair that was opened with *this as its events.
    void attach(std::unique_ptr<QueuePair>);

    /// `done` runs once: from a pass of the reactor, or, when the queue is closed or no tag is free, at once.
    void submit(const Order&, Done done);
    /// May be destroyed while it waits; the command then ends unnoticed, and its data must stay until close().
    [[nodiscard]] Task<Result<wire::nvme::Completion>> execute(Order);
    /// As execute(), with an error for every status but success.
    [[nodiscard]] Task<Result<wire::nvme::Completion>> require(Order);

    /// Closes the connection; commands outstanding end with `why`. Idempotent.
    void close(const Error& why);
    [[nodiscard]] bool closed() const noexcept { return closed_; }

    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    Capsule* find(std::uint16_t command_id) noexcept override;
    void completed(Capsule&, const wire::nvme::Completion&) noexcept override;

  private:
    struct Slot;
    static constexpr unsigned id_bits = 5;
    static_assert(depth == 1u << id_bits);

    void fail(std::string reason);
    void part();
    void finish(Slot&, Result<wire::nvme::Completion>);
    void expired(Slot&);

    Reactor& reactor_;
    const std::string target_;
    std::function<void(std::string)> lost_;
    block::TagSet tags_;
    block::TagSet::User tag_user_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::unique_ptr<QueuePair> pair_;
    std::unique_ptr<Drain> drain_;  ///< of a pair that was let go of
    unsigned in_pair_ = 0;          ///< depth of calls into the pair: it must not be destroyed while > 0
    bool closed_ = false;
    Time deadline_ = never;
    Duration bound_{};
};

/// "Identify Controller failed with status 0x4002 (Invalid Field in Command)" and its code.
[[nodiscard]] Error status_error(std::string_view what, std::uint16_t status);

}  // namespace mqblk::driver::nvme
