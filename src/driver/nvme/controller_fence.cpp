// SPDX-License-Identifier: Apache-2.0
//
// The fence between two associations: nothing is sent on the new one before nothing that was sent on the old one can
// have an effect any more. Three proofs, the first that comes: the target says so (Cross-Controller Reset), the target
// has closed every connection that carried unanswered commands, or the time has passed after which a controller without
// its host has stopped. NVM Express Base Specification 2.3, sections 5.4.3, 9.6 (loss of communication).
#include "driver/nvme/controller_fence.h"
#include "base/log.h"
#include "driver/nvme/controller_core.h"
#include "driver/nvme/status_text.h"
#include "wire/nvme_cross_reset.h"
#include "wire/nvme_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace mqblk::driver::nvme {

namespace {

constexpr Duration fence_poll = std::chrono::milliseconds(10);
constexpr Duration longest_fence_poll = std::chrono::milliseconds(200);
/// Without a keep-alive a controller does not notice that its host has gone: then this is how long a network and a disk
/// may hold a command back.
constexpr Duration afterlife_without_keep_alive = std::chrono::seconds(30);
constexpr unsigned cross_reset_log_read = 64;  // entries: targets limit them to far fewer

namespace sc = wire::nvme::status;

}  // namespace

Duration longest_afterlife(Duration keep_alive, const ControllerFacts& facts) {
    if (keep_alive <= Duration::zero()) return afterlife_without_keep_alive;
    const Duration unit = std::chrono::milliseconds(std::max(facts.keep_alive_granularity_ms, 1u));
    const Duration kato = (keep_alive + unit - Duration(1)) / unit * unit;
    const Duration quiesce = facts.quiesce_ms != 0 ? std::chrono::milliseconds(facts.quiesce_ms) : kato;
    return kato * (facts.traffic_based_keep_alive ? 3 : 2) + quiesce;
}

/// The association is over: its controller may live on.
void ControllerCore::note_unfenced() {
    if (!std::exchange(raised_, false)) return;
    const ControllerFacts facts = this->facts();
    unfenced_->push_back(
        {facts.instance, reactor_.now() + longest_afterlife(options_.keep_alive, facts), association_});
}

Task<Result<>> ControllerCore::fence(const Session& session) {
    const Time now = reactor_.now();
    fence_by_ = options_.ctrl_loss_tmo < never - now ? now + options_.ctrl_loss_tmo : never;
    while (!unfenced_->empty()) {
        const Unfenced lost = unfenced_->front();
        const auto done = co_await fence_one(session, lost);
        if (!done) co_return std::unexpected(done.error());
        // Another controller of this host may have done so meanwhile.
        std::erase_if(*unfenced_, [&](const Unfenced& entry) {
            return entry.instance == lost.instance && entry.association == lost.association;
        });
    }
    co_return Result<>();
}

Task<Result<>> ControllerCore::fence_one(const Session& session, Unfenced lost) {
    if (lost.association->may_act() == 0) co_return Result<>();
    if (facts().cross_resets > 0 && lost.instance.random != 0) {
        const auto ended = co_await cross_reset(session, lost);
        if (!ended) co_return std::unexpected(ended.error());
        if (*ended) co_return Result<>();
    }
    while (lost.association->may_act() > 0 && reactor_.now() < lost.dead_by) {
        const auto waited = co_await fence_pause(std::min(fence_poll, lost.dead_by - reactor_.now()));
        if (!waited) co_return waited;
    }
    co_return Result<>();
}

/// An error: there is no point in waiting any more.
Task<Result<>> ControllerCore::fence_pause(Duration pause) {
    co_await Pause(reactor_, pause);
    if (stop_wanted_ || reset_wanted_) {
        co_return mqblk::fail(Errc::closed, fmt::format("{} went again while its last controller ended", title()));
    }
    if (reactor_.now() >= fence_by_) {
        co_return mqblk::fail(Errc::timed_out,
                              fmt::format("{} still carries out commands of a controller that was lost", title()));
    }
    co_return Result<>();
}

/// True: the instance has ended. False: the target cannot say. An error: this association was lost as well.
Task<Result<bool>> ControllerCore::cross_reset(const Session& session, const Unfenced& lost) {
    AdminQueue::Order order = session.order("Cross-Controller Reset");
    order.command.opcode = wire::nvme::admin_opcode::cross_controller_reset;
    wire::nvme::set_impacted_controller(order.command, lost.instance);
    for (Duration pause = fence_poll;; pause = std::min(pause * 2, longest_fence_poll)) {
        const auto answer = co_await session.admin->execute(order);
        if (!answer) co_return std::unexpected(answer.error());
        const std::uint16_t status = wire::nvme::status_of(*answer);
        switch (status & sc::code_mask) {
            case sc::success:
                if ((answer->result & wire::nvme::cross_reset_immediate) != 0) co_return true;
                co_return co_await await_cross_reset(session, lost);
            case sc::cross_reset_in_progress:
            case sc::cross_reset_limit_exceeded:
            case sc::cross_reset_log_full:
                break;  // somebody else's: they end
            default:
                log_limited("nvme: cross-controller reset",
                            fmt::format("nvme: {}: Cross-Controller Reset failed with status {:#x} ({})", title(),
                                        status, status_text(status)));
                co_return false;
        }
        const auto waited = co_await fence_pause(pause);
        if (!waited) co_return std::unexpected(waited.error());
    }
}

/// Reads the log page until it says how the reset ended.
Task<Result<bool>> ControllerCore::await_cross_reset(const Session& session, const Unfenced& lost) {
    struct Page {
        wire::nvme::CrossResetLogHeader header;
        std::array<wire::nvme::CrossResetLogEntry, cross_reset_log_read> entries;
    };
    const auto page = std::make_unique<Page>();
    AdminQueue::Order order = session.read_order("Get Log Page of resets", page.get(), sizeof(Page));
    order.command.opcode = wire::nvme::admin_opcode::get_log_page;
    order.command.namespace_id = wire::nvme::nsid_all;
    wire::nvme::set_log_request(order.command, wire::nvme::log_id::cross_reset, 0, sizeof(Page),
                                wire::nvme::log_cross_reset_remove);
    for (Duration pause = fence_poll;; pause = std::min(pause * 2, longest_fence_poll)) {
        const auto answer = co_await session.admin->execute(order);
        if (!answer) co_return std::unexpected(answer.error());
        if ((wire::nvme::status_of(*answer) & sc::code_mask) != 0) co_return false;
        const auto state = cross_reset_state(page->header, page->entries, lost.instance);
        if (!state) co_return false;
        if (*state == wire::nvme::cross_reset_status::success) co_return true;
        if (*state != wire::nvme::cross_reset_status::in_progress) co_return false;
        // Over a loop a queue's target end lives in its user's thread, and one that sleeps cannot say that it has
        // nothing under way. What it had would have ended by then.
        if (reactor_.now() >= lost.dead_by && association_->terms().transport->name() == "loop") co_return false;
        const auto waited = co_await fence_pause(pause);
        if (!waited) co_return std::unexpected(waited.error());
    }
}

std::optional<std::uint8_t> cross_reset_state(const wire::nvme::CrossResetLogHeader& header,
                                              std::span<const wire::nvme::CrossResetLogEntry> entries,
                                              const wire::nvme::ControllerInstance& instance) {
    const std::size_t count = std::min<std::size_t>(header.entries, entries.size());
    std::optional<std::uint8_t> state;
    for (const auto& entry : entries.first(count)) {
        if (entry.controller_id != instance.id || entry.uniquifier != instance.uniquifier) continue;
        state = entry.status;
    }
    return state;
}

}  // namespace mqblk::driver::nvme
