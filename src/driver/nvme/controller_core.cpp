// SPDX-License-Identifier: Apache-2.0
//
// The course of a controller's life: serve, recover, stop. Every wait in it has a bound: the reconnect delay grows to
// ten times the first, an attempt takes connect_timeout, and as long for each answer of its scan, and all of it ends
// with ctrl_loss_tmo, or when the target says that this host will not be let in again.
#include "driver/nvme/controller_core.h"

#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::driver::nvme {

namespace {
constexpr int longest_reconnect_delay = 10;  // times the first
constexpr Duration least_shutdown_bound = std::chrono::seconds(1);
constexpr Duration longest_shutdown_bound = std::chrono::seconds(5);
}  // namespace

ControllerCore::ControllerCore(Reactor& reactor, HostOptions options, std::shared_ptr<FenceBook> unfenced)
    : reactor_(reactor),
      options_(std::move(options)),
      unfenced_(std::move(unfenced)),
      signal_(reactor),
      keep_alive_timer_([this] { send_keep_alive(); }),
      event_timer_([this] { ask_for_event(); }) {}

std::shared_ptr<ControllerCore> ControllerCore::create(Reactor& reactor, std::shared_ptr<const Transport> transport,
                                                       std::string subsystem_nqn, HostIdentity host,
                                                       HostOptions options, std::shared_ptr<FenceBook> unfenced) {
    const std::shared_ptr<ControllerCore> core(new ControllerCore(reactor, std::move(options), std::move(unfenced)));
    Association::Terms terms;
    terms.transport = std::move(transport);
    terms.subsystem_nqn = std::move(subsystem_nqn);
    terms.host = std::move(host);
    terms.connect_timeout = core->options_.connect_timeout;
    terms.reconnect_delay = core->options_.reconnect_delay;
    terms.loss_timeout = core->options_.ctrl_loss_tmo;
    // Reports come from other threads; one about an epoch that is over means nothing.
    const std::weak_ptr<ControllerCore> weak = core;
    const auto post = [weak](std::uint64_t epoch, std::function<void(ControllerCore&)> task) {
        const auto self = weak.lock();
        if (self == nullptr || self->state() == ControllerState::dead) return;
        self->reactor_.post([weak, epoch, task = std::move(task)] {
            const auto target = weak.lock();
            if (target != nullptr && target->association_->view().epoch == epoch) task(*target);
        });
    };
    Association::Control control;
    control.lost = [post](std::uint64_t epoch, std::string reason) {
        post(epoch, [reason = std::move(reason)](ControllerCore& target) { target.request_reset(reason); });
    };
    control.abort = [post](std::uint64_t epoch, std::uint16_t queue_id, std::uint16_t command_id) {
        post(epoch, [=](ControllerCore& target) { target.request_abort(queue_id, command_id); });
    };
    core->association_ = std::make_shared<Association>(std::move(terms), std::move(control));
    return core;
}

std::string ControllerCore::title() const {
    const Association::Terms& terms = association_->terms();
    return fmt::format("'{}' at {}", terms.subsystem_nqn, terms.transport->target());
}

ControllerFacts ControllerCore::facts() const {
    const std::scoped_lock lock(mutex_);
    return facts_;
}

ControllerCore::Io ControllerCore::io() const {
    const std::scoped_lock lock(mutex_);
    return io_;
}

void ControllerCore::start() {
    spawn(run(), [self = shared_from_this()] {});
}

Task<void> ControllerCore::run() {
    for (;;) {
        co_await serve();
        if (stop_wanted_) break;
        // Not in the condition: GCC 12 then leaves the whole coroutine out.
        const bool live = co_await recover();
        if (!live) break;
    }
    if (stop_wanted_) {
        co_await stop();
    } else {
        finish(ControllerState::dead);
    }
}

Task<void> ControllerCore::serve() {
    while (!reset_wanted_ && !stop_wanted_) {
        if (rescan_wanted_) {
            co_await rescan();
            continue;
        }
        co_await signal_.wait();
    }
}

/// True: it is live again. False: stop is wanted, or it was lost for too long.
Task<bool> ControllerCore::recover() {
    state_ = ControllerState::resetting;
    association_->lower();
    note_unfenced();
    keep_alive_timer_.cancel();
    event_timer_.cancel();
    session_.admin->close(Error(Errc::closed, fmt::format("the connection to {} was lost", title())));
    const Time start = reactor_.now();
    const NamespaceMap before = namespaces_.facts();
    const Time deadline = options_.ctrl_loss_tmo < never - start ? start + options_.ctrl_loss_tmo : never;
    const Duration longest = options_.reconnect_delay * longest_reconnect_delay;
    for (Duration delay = options_.reconnect_delay;; delay = std::min(delay * 2, longest)) {
        const Time next = std::min(reactor_.now() + delay, deadline);
        while (!stop_wanted_ && reactor_.now() < next) co_await signal_.wait(next);
        if (stop_wanted_) co_return false;
        if (reactor_.now() >= deadline) break;
        state_ = ControllerState::connecting;
        attempt_result_.reset();
        attempt_.start(attempt());
        while (!attempt_result_ && !stop_wanted_ && reactor_.now() < deadline) co_await signal_.wait(deadline);
        if (attempt_result_ && attempt_result_->has_value()) {
            tell_recovery(start, before);
            co_return true;
        }
        if (attempt_result_ && refused_) {
            log_warning(fmt::format("nvme: {}; its I/O fails from now on", attempt_result_->error().message()));
            co_return false;
        }
        if (attempt_result_) log_limited("nvme: reconnect", attempt_result_->error().message());
        // First the connection, so that nothing is written any more to what the attempt's frames own.
        session_.admin->close(Error(Errc::closed, fmt::format("the attempt to connect to {} was given up", title())));
        attempt_.cancel();
        if (stop_wanted_) co_return false;
    }
    log_warning(fmt::format("nvme: {} did not come back in time; its I/O fails from now on", title()));
    co_return false;
}

/// Who read that the connection was lost reads this too.
void ControllerCore::tell_recovery(Time lost, const NamespaceMap& before) const {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(reactor_.now() - lost).count();
    log_limited("nvme: connected again", fmt::format("nvme: {}: connected again after {} ms", title(), ms));
    tell_changes(before);
}

Task<void> ControllerCore::attempt() {
    attempt_result_ = co_await bring_up();
    signal_.notify();
}

Task<void> ControllerCore::stop() {
    state_ = ControllerState::deleting;
    keep_alive_timer_.cancel();
    event_timer_.cancel();
    association_->end(Status::removed);
    note_unfenced();
    namespaces_.keep_only({});
    if (!session_.admin->closed()) {
        const Duration stated = std::chrono::microseconds(facts().shutdown_us);
        const auto done =
            co_await shut_down(reactor_, session_, std::clamp(stated, least_shutdown_bound, longest_shutdown_bound));
        if (!done) log_debug(done.error().in(fmt::format("nvme: shut down {}", title())).message());
    }
    finish(ControllerState::dead);
}

void ControllerCore::finish(ControllerState state) {
    state_ = state;  // before the I/O that it ends: who sees that fail may ask
    association_->end(Status::transport);
    session_.admin->close(Error(Errc::closed, fmt::format("{} was disconnected", title())));
    keep_alive_timer_.cancel();
    event_timer_.cancel();
    finished_ = true;
    for (const auto& done : std::exchange(when_stopped_, {})) {
        if (done) done();
    }
}

void ControllerCore::request_reset(std::string reason) {
    if (reset_wanted_ || stop_wanted_ || finished_) return;
    if (state() == ControllerState::live) {
        log_limited("nvme: connection lost", fmt::format("nvme: {}: {}; reconnecting", title(), reason));
    }
    reset_wanted_ = true;
    signal_.notify();
}

void ControllerCore::request_abort(std::uint16_t queue_id, std::uint16_t command_id) {
    AdminQueue::Order order = session_.order("Abort");
    order.command.opcode = wire::nvme::admin_opcode::abort;
    order.command.cdw10 = queue_id | static_cast<std::uint32_t>(command_id) << 16;
    // Whatever it answers: the command itself ends, or its time-out comes again and resets the controller.
    session_.admin->submit(order, [](const auto&) {});
}

void ControllerCore::abandon() {
    if (finished_ || std::exchange(stop_wanted_, true)) return;
    if (!attempt_result_ && state() == ControllerState::connecting) {
        session_.admin->close(Error(Errc::closed, fmt::format("{} is not wanted any more", title())));
        attempt_.cancel();
    }
    signal_.notify();
}

void ControllerCore::shutdown(std::function<void()> done) {
    reactor_.post([self = shared_from_this(), done = std::move(done)]() mutable {
        if (self->finished_) {
            // Lost for good already: what is left are disks that say so.
            self->namespaces_.keep_only({});
            if (done) done();
            return;
        }
        self->when_stopped_.push_back(std::move(done));
        self->stop_wanted_ = true;
        self->signal_.notify();
    });
}

void ControllerCore::let_go(std::shared_ptr<ControllerCore> core) {
    Reactor& reactor = core->reactor_;
    core->shutdown({});
    reactor.post([core = std::move(core)] {});
}

}  // namespace mqblk::driver::nvme
