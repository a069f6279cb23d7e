// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/cross_resets.h"

#include "base/log.h"
#include "device/nvme/controller.h"
#include "device/nvme/instance.h"
#include "device/nvme/page_window.h"
#include "device/nvme/queue_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
using wire::nvme::ControllerInstance;

void CrossResets::start(Reactor& reactor) {
    reactor_ = &reactor;
    timer_.emplace([this] { held_long_enough(); });
}

void CrossResets::stop() noexcept {
    timer_.reset();
    for (const Entry& entry : std::exchange(entries_, {})) {
        if (entry.held != nullptr) entry.held->queue->complete(*entry.held, status::aborted_queue_deleted);
    }
}

std::uint16_t CrossResets::check(const ControllerInstance& impacted) const noexcept {
    const auto under_way = [](const Entry& entry) { return !entry.ended; };
    const auto same = [&](const Entry& entry) { return !entry.ended && entry.impacted == impacted; };
    const auto logged = [](const Entry& entry) { return entry.held == nullptr; };
    if (std::ranges::any_of(entries_, same)) return status::cross_reset_in_progress;
    if (std::ranges::count_if(entries_, under_way) >= limit) return status::cross_reset_limit_exceeded;
    if (std::ranges::count_if(entries_, logged) >= most_logged) return status::cross_reset_log_full;
    return status::success;
}

void CrossResets::execute(TargetCommand& command) noexcept {
    QueueCore& queue = *command.queue;
    const ControllerInstance impacted = wire::nvme::impacted_controller(command.command);
    if (impacted == owner_.instance_name) return queue.complete(command, status::permanent(status::invalid_field));
    // Held while this runs: the last to let go runs what waits, which comes back here by a task.
    const auto instance = owner_.subsystem->instance(impacted);
    if (!instance) return answer(command, true);  // it has ended already
    if (instance->host_nqn != owner_.host_nqn || instance->host_id != owner_.host_id) {
        return queue.complete(command, status::permanent(status::invalid_field));
    }
    if (const auto why = check(impacted)) return queue.complete(command, why);
    entries_.push_back({impacted, &command, reactor_->now() + longest_hold});
    if (!timer_->armed()) timer_->arm(*reactor_, entries_.back().answer_by);
    if (log_enabled(LogLevel::info)) {
        log_info(fmt::format("nvme target: '{}' has controller {} end controller {}", owner_.host_nqn, owner_.id,
                             impacted.id));
    }
    instance->when_gone([weak = owner_.weak_from_this(), impacted] {
        if (const auto controller = weak.lock()) controller->cross_reset_ended(impacted);
    });
    if (const auto controller = owner_.subsystem->controller(impacted.id);
        controller && controller->instance_name == impacted) {
        controller->end(status::aborted_queue_deleted);
    }
}

void CrossResets::answer(TargetCommand& command, bool ended) noexcept {
    command.completion.result = ended ? wire::nvme::cross_reset_immediate : 0;
    command.queue->complete(command, status::success);
}

void CrossResets::gone(const ControllerInstance& impacted) noexcept {
    const auto found =
        std::ranges::find_if(entries_, [&](const Entry& entry) { return !entry.ended && entry.impacted == impacted; });
    if (found == entries_.end()) return;  // its command was aborted
    if (TargetCommand* const held = found->held) {
        entries_.erase(found);
        answer(*held, true);
        return;
    }
    found->ended = true;
    owner_.events.raise(AsyncEvents::cross_reset);
}

void CrossResets::held_long_enough() noexcept {
    std::vector<TargetCommand*> due;
    for (Entry& entry : entries_) {
        if (entry.held == nullptr) continue;
        if (entry.answer_by > reactor_->now()) {
            timer_->arm(*reactor_, entry.answer_by);
            break;
        }
        due.push_back(std::exchange(entry.held, nullptr));
    }
    for (TargetCommand* const command : due) answer(*command, false);
}

TargetCommand* CrossResets::take(std::uint16_t command_id) noexcept {
    const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
        return entry.held != nullptr && entry.held->command.command_id == command_id;
    });
    if (found == entries_.end()) return nullptr;
    TargetCommand* const command = found->held;
    entries_.erase(found);
    return command;
}

void CrossResets::write_log(PageWindow& page) const noexcept {
    const auto logged = [](const Entry& entry) { return entry.held == nullptr; };
    wire::nvme::CrossResetLogHeader header;
    header.entries = static_cast<std::uint16_t>(std::ranges::count_if(entries_, logged));
    page.append(header);
    for (const Entry& entry : entries_) {
        if (!logged(entry)) continue;
        wire::nvme::CrossResetLogEntry record;
        record.controller_id = entry.impacted.id;
        record.uniquifier = entry.impacted.uniquifier;
        record.status =
            entry.ended ? wire::nvme::cross_reset_status::success : wire::nvme::cross_reset_status::in_progress;
        record.flags = wire::nvme::cross_reset_flags::validated | wire::nvme::cross_reset_flags::initiated;
        page.append(record);
    }
    constexpr std::size_t whole =
        sizeof(header) + wire::nvme::cross_reset_log_entries * sizeof(wire::nvme::CrossResetLogEntry);
    page.skip(whole - page.position());
}

void CrossResets::forget_ended() noexcept {
    std::erase_if(entries_, [](const Entry& entry) { return entry.held == nullptr && entry.ended; });
}

}  // namespace mqblk::device::nvme
