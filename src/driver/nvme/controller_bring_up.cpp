// SPDX-License-Identifier: Apache-2.0
//
// From an address to a live controller: connect, enable, identify, agree on queues and events, scan, and make sure that
// the controller before it has ended. The same at the first time and at every reconnect. NVMe 1.4, section 7.6.1.
#include "base/log.h"
#include "driver/nvme/controller_core.h"
#include "driver/nvme/status_text.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>

namespace mqblk::driver::nvme {

namespace {

unsigned wanted_queues(const HostOptions& options) {
    const unsigned wanted = options.queues != 0 ? options.queues : std::max(1u, std::thread::hardware_concurrency());
    return std::min(wanted, ControllerCore::most_io_queues);
}

/// An I/O queue has one entry more than there are commands at once.
unsigned agreed_depth(const HostOptions& options, std::uint64_t capabilities, const ControllerFacts& facts) {
    unsigned depth = std::min(options.depth, wire::nvme::cap::queue_entries_of(capabilities) - 1);
    if (facts.max_commands != 0) depth = std::min(depth, unsigned{facts.max_commands});
    return depth;
}

}  // namespace

Task<Result<>> ControllerCore::bring_up() {
    reset_wanted_ = false;
    SessionOptions session_options;
    session_options.keep_alive = options_.keep_alive;
    // A target that falls silent now holds up whoever waits for it to be connected.
    session_options.admin_timeout = std::min(options_.admin_timeout, options_.connect_timeout);
    refused_ = false;
    session_options.refused = &refused_;
    session_options.lost = [weak = weak_from_this()](std::string reason) {
        if (const auto self = weak.lock()) self->request_reset(std::move(reason));
    };
    auto session = co_await open_session(reactor_, association_->terms(), std::move(session_options));
    if (!session) co_return std::unexpected(std::move(session.error()));
    session_ = std::move(*session);
    auto done = co_await set_up(session_);
    if (done) done = co_await fence(session_);
    if (done && reset_wanted_) done = mqblk::fail(Errc::closed, fmt::format("{} went while it was scanned", title()));
    if (!done) {
        keep_alive_timer_.cancel();
        event_timer_.cancel();
        session_.admin->close(done.error());
        co_return std::unexpected(done.error().in(fmt::format("connect to {}", title())));
    }
    session_.admin_timeout = options_.admin_timeout;
    state_ = ControllerState::live;
    const ControllerFacts facts = this->facts();
    Association::View controller;
    controller.controller_id = session_.controller_id;
    controller.in_capsule_bytes = facts.in_capsule_bytes;
    controller.queues = granted_.queues;
    controller.depth = granted_.depth;
    controller.retry_delays = facts.retry_delays;
    association_->raise(controller);
    raised_ = true;
    co_return Result<>();
}

Task<Result<>> ControllerCore::set_up(Session& session) {
    keep_alive_outstanding_ = false;
    arm_keep_alive();
    auto done = co_await identify(session);
    if (done) done = co_await set_queue_count(session);
    if (done) done = co_await set_up_events(session);
    if (done) done = co_await ask_for_retry_delays(session);
    if (!done) co_return done;
    session.admin->end_by(never);  // many namespaces take their time
    rescan_wanted_ = false;
    ask_for_event();
    ChangedNamespaces all;
    all.everything = true;
    co_return co_await scan_namespaces(session, facts(), all, namespaces_, [this] { return stop_wanted_; });
}

Task<Result<>> ControllerCore::identify(Session& session) {
    const auto page = std::make_unique<wire::nvme::IdentifyController>();
    const auto identified = co_await identify_controller(session, *page);
    if (!identified) co_return std::unexpected(identified.error());
    ControllerExpectation expected;
    expected.controller_id = session.controller_id;
    expected.capabilities = session.capabilities;
    expected.version = session.version;
    expected.keep_alive = options_.keep_alive > Duration::zero();
    expected.capsules = association_->terms().transport->name() != "loop";
    auto facts = read_controller(*page, expected);
    if (!facts) co_return std::unexpected(std::move(facts.error()));

    const auto limits = std::make_unique<wire::nvme::IdentifyControllerNvm>();
    AdminQueue::Order order = session.read_order("Identify I/O Command Set Controller", limits.get(), sizeof(*limits));
    order.command.opcode = wire::nvme::admin_opcode::identify;
    order.command.cdw10 = wire::nvme::cns::command_set_controller;
    const auto answer = co_await session.admin->execute(order);
    if (!answer) co_return std::unexpected(answer.error());
    const bool offered = (wire::nvme::status_of(*answer) & wire::nvme::status::code_mask) == 0;
    if (offered) read_nvm_limits(*limits, session.capabilities, *facts);

    const std::scoped_lock lock(mutex_);
    facts_ = std::move(*facts);
    co_return Result<>();
}

Task<Result<>> ControllerCore::set_queue_count(const Session& session) {
    const unsigned wanted = io().queues != 0 ? io().queues : wanted_queues(options_);
    AdminQueue::Order order = session.order("Set Features of the number of queues");
    order.command.opcode = wire::nvme::admin_opcode::set_features;
    order.command.cdw10 = wire::nvme::feature_id::number_of_queues;
    order.command.cdw11 = wire::nvme::queue_counts(wanted, wanted);
    const auto answer = co_await session.admin->execute(order);
    if (!answer) co_return std::unexpected(answer.error());
    const std::uint16_t status = wire::nvme::status_of(*answer);
    if ((status & wire::nvme::status::code_mask) != 0) {
        co_return mqblk::fail(Errc::no_space,
                              fmt::format("the target grants no I/O queue: Set Features failed with status {:#x} ({}); "
                                          "if its queues are all in use, disconnect another host",
                                          status, status_text(status)));
    }
    const auto granted = static_cast<std::uint32_t>(answer->result);
    const unsigned queues = std::min({(granted & 0xffff) + 1, (granted >> 16) + 1, wanted});
    const std::scoped_lock lock(mutex_);
    const unsigned depth = agreed_depth(options_, session.capabilities, facts_);
    if (depth == 0) co_return mqblk::fail(Errc::protocol, "the controller's queues hold no command");
    if (io_.queues == 0) io_ = {queues, depth};
    granted_ = {queues, std::min(depth, io_.depth)};
    if (queues < io_.queues || depth < io_.depth) {
        log_limited(
            "nvme: fewer queues",
            fmt::format("nvme: {} now grants {} I/O queues of {} commands, not {} of {}; threads beyond them wait "
                        "until another closes its queue",
                        title(), queues, depth, io_.queues, io_.depth));
    }
    co_return Result<>();
}

/// A controller asks for delays (CRD) only of hosts that say that they know them. NVMe 1.4, section 5.21.1.22.
Task<Result<>> ControllerCore::ask_for_retry_delays(const Session& session) {
    const auto delays = facts().retry_delays;
    if (std::ranges::all_of(delays, [](Duration delay) { return delay == Duration::zero(); })) co_return Result<>();
    const auto behavior = std::make_unique<std::array<std::byte, wire::nvme::host_behavior_bytes>>();
    (*behavior)[0] = std::byte{1};  // ACRE
    AdminQueue::Order order = session.order("Set Features of host behavior");
    order.command.opcode = wire::nvme::admin_opcode::set_features;
    order.command.cdw10 = wire::nvme::feature_id::host_behavior;
    order.data = {behavior->data(), behavior->size()};
    order.transfer = Transfer::to_target;
    const auto answer = co_await session.admin->execute(order);  // refused: then there are no delays
    if (!answer) co_return std::unexpected(answer.error());
    co_return Result<>();
}

Task<Result<>> ControllerCore::set_up_events(const Session& session) {
    const std::uint32_t events = facts().events & wire::nvme::oaes::namespace_attributes;
    events_offered_ = events != 0;
    if (!events_offered_) co_return Result<>();
    AdminQueue::Order order = session.order("Set Features of asynchronous events");
    order.command.opcode = wire::nvme::admin_opcode::set_features;
    order.command.cdw10 = wire::nvme::feature_id::async_event_config;
    order.command.cdw11 = events;
    const auto answer = co_await session.admin->execute(order);
    if (!answer) co_return std::unexpected(answer.error());
    co_return Result<>();
}

}  // namespace mqblk::driver::nvme
