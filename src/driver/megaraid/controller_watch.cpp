// SPDX-License-Identifier: Apache-2.0
//
// What happens while a controller is in use, one thing after the other: late commands, resets, events, new maps. Who
// notices something leaves a note and signals; the watch does it. A late command climbs a ladder: its time has passed;
// it is aborted; its disk is reset; the controller is reset (controller_reset.cpp). At each step it may end by itself.
#include "base/log.h"
#include "driver/megaraid/controller.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;
using Pended = InternalCommands::Pended;

namespace {

constexpr Duration tick_period = std::chrono::milliseconds(250);
constexpr Duration ended_step = std::chrono::milliseconds(1);
constexpr std::uint32_t everything = class_locale(EventClass::debug, locale_all);

bool granted(const Outcome& outcome) noexcept {
    if (outcome.end != Outcome::End::answered) return false;
    const auto response = static_cast<TaskResponse>(outcome.status);
    return response == TaskResponse::complete || response == TaskResponse::succeeded;
}

}  // namespace

void Controller::signal() noexcept {
    if (std::exchange(signalled_, true)) return;
    reactor_.post([this, alive = alive_] {
        if (!*alive) return;
        signalled_ = false;
        if (auto* const idle = std::exchange(idle_, nullptr)) idle->set(true);
    });
}

Task<void> Controller::wait_for_work() {
    Promise<bool> idle;
    idle_ = &idle;
    co_await idle;
}

Task<void> Controller::watch() {
    while (!stopping_) {
        if (reset_why_ != nullptr) {
            co_await reset_controller();
            continue;
        }
        if (take_late()) {
            co_await recover_command(recovering_);
        } else if (const auto event = internal_.take_pended(Pended::event)) {
            co_await take_event(*event);
        } else if (const auto ld = internal_.take_pended(Pended::ld_map)) {
            ld_map_wanted_ = static_cast<MfiStatus>(*ld) != MfiStatus::not_found && ld_map_wanted_;
            take_ld_map(*ld == 0 ? ld_map_.span() : std::span<std::byte>{});
            set_routes();
            wait_for_maps();
        } else if (const auto pd = internal_.take_pended(Pended::pd_map)) {
            pd_map_wanted_ = static_cast<MfiStatus>(*pd) != MfiStatus::not_found && pd_map_wanted_;
            take_pd_map(*pd == 0 ? pd_map_.span() : std::span<std::byte>{});
            set_routes();
            wait_for_maps();
        } else {
            co_await wait_for_work();
        }
    }
}

void Controller::tick() {
    tick_.arm(reactor_, reactor_.now() + tick_period);
    if (given_up()) return;
    if (queue_is_idle()) listen_again();
    drain();  // should an interrupt have been lost
    if (port_->replies(0).broken()) want_reset("it says that it has answered more than there is room for");
    if (function_->lost()) return want_reset("it is gone");
    if (state_of(bar_.read32(reg::scratch_pad)) == State::fault) want_reset("its firmware is in state fault");
}

// Events.

Task<void> Controller::start_events() {
    const Outcome outcome =
        co_await internal_.dcmd(dcmd::ctrl_event_get_info, {},
                                {.address = work_.address(), .bytes = sizeof(EventLogInfo)}, options_.dcmd_bound);
    events_known_ = outcome.ok();
    if (!events_known_) {
        log_warning(fmt::format("{}: the firmware tells no events: disks that come and go are not followed", name()));
        co_return;
    }
    EventLogInfo info;
    std::memcpy(&info, work_.data(), sizeof info);
    next_event_ = info.newest + 1;
    wait_for_event();
}

void Controller::wait_for_event() {
    if (!events_known_) return;
    Mailbox mailbox;
    mailbox.set_word(0, next_event_);
    mailbox.set_word(1, everything);
    internal_.pend(Pended::event, dcmd::ctrl_event_wait, mailbox,
                   {.address = event_.address(), .bytes = sizeof(Event)});
}

/// Whatever it says of disks and volumes, they are listed again: the lists say how it is.
Task<void> Controller::take_event(std::uint8_t status) {
    if (status != 0) {
        events_known_ = false;
        log_warning(
            fmt::format("{}: the firmware ends its events with status {:#04x}: disks that come and go are not "
                        "followed any more",
                        name(), status));
        co_return;
    }
    Event told;
    std::memcpy(&told, event_.data(), sizeof told);
    next_event_ = told.sequence + 1;
    counters_.events.fetch_add(1, std::memory_order_relaxed);
    wait_for_event();
    Result<> done{};
    switch (told.code) {
        case event::pd_inserted:
        case event::pd_removed:
        case event::ld_created:
        case event::ld_deleted:
        case event::ld_offline:
        case event::ld_state_change:
        case event::config_cleared:
        case event::host_bus_scan:
            done = co_await scan();
            break;
        case event::property_changed:
            done = co_await read_controller_info();
            break;
        default:
            break;
    }
    if (done || stopping_) co_return;
    log_warning(done.error().message());
    if (done.error().code() == Errc::timed_out) want_reset("a management command was not answered in time");
}

/// The firmware answers when the maps that it has told are no longer what it has.
void Controller::wait_for_maps() {
    if (ld_map_wanted_) {
        const auto view = extended_ ? decode_extended_map(ld_map_copy_) : decode_legacy_map(ld_map_copy_);
        const std::size_t volumes = view ? view->volume.size() : 0;
        for (std::size_t i = 0; i < volumes; ++i) {
            const LdRaid& raid = view->volume[i].raid;
            const LdTargetSync sync{.target_id = static_cast<std::uint8_t>(raid.target_id), .sequence = raid.sequence};
            std::memcpy(ld_map_.data() + i * sizeof sync, &sync, sizeof sync);
        }
        Mailbox mailbox;
        mailbox.bytes[0] = static_cast<std::uint8_t>(volumes);
        mailbox.bytes[1] = map_pend;
        mailbox.bytes[2] = extended_ ? 1 : 0;
        internal_.pend(Pended::ld_map, dcmd::ld_map_get_info, mailbox,
                       {.address = ld_map_.address(),
                        .bytes = extended_ ? extended_map_bytes : legacy_map_bytes(max_volumes_legacy),
                        .to_firmware = true});
    }
    if (pd_map_wanted_) {
        Mailbox mailbox;
        mailbox.bytes[0] = map_pend;
        internal_.pend(Pended::pd_map, dcmd::system_pd_map_get_info, mailbox,
                       {.address = pd_map_.address(), .bytes = pd_map_bytes(max_physical_disks), .to_firmware = true});
    }
}

// The ladder.

bool Controller::take_late() {
    const std::lock_guard lock(late_mutex_);
    if (late_.empty()) return false;
    recovering_ = late_.front();
    late_.pop_front();
    return true;
}

bool Controller::is_late(const LateCommand& command) const noexcept {
    return memory().use(command.smid) == command.use;
}

Task<void> Controller::recover_command(const LateCommand& command) {
    if (!is_late(command)) co_return;
    if (port_->has_task(command.route, TaskType::abort_task)) {
        counters_.aborts.fetch_add(1, std::memory_order_relaxed);
        const bool aborted = co_await end_by_task(command, TaskType::abort_task);
        if (aborted || stopping_ || reset_why_ != nullptr) co_return;  // a reset ends it
    }
    if (port_->has_task(command.route, TaskType::target_reset)) {
        counters_.target_resets.fetch_add(1, std::memory_order_relaxed);
        const bool ended = co_await end_by_task(command, TaskType::target_reset);
        if (ended) co_return;
    }
    if (is_late(command)) want_reset("a command was not answered in time");
}

/// Whether it has ended, by this or by itself.
Task<bool> Controller::end_by_task(const LateCommand& command, TaskType type) {
    const Outcome outcome = co_await internal_.task(command.route, type, command.smid, options_.task_bound);
    const Time bound = reactor_.now() + options_.ended_bound;
    while (is_late(command) && granted(outcome) && reactor_.now() < bound && !stopping_ && reset_why_ == nullptr)
        co_await sleep(ended_step);
    co_return !is_late(command);
}

}  // namespace mqblk::driver::megaraid
