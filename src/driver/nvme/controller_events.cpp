// SPDX-License-Identifier: Apache-2.0
//
// While a controller is live: Keep Alive, asynchronous events, and the scans they cause. The periods are ours, with a
// floor, so that nothing a target grants, states or sends makes a flood. NVMe 1.4, sections 5.2, 5.18, 7.12.
#include "base/log.h"
#include "driver/nvme/controller_core.h"
#include "driver/nvme/status_text.h"
#include "wire/nvme_logs.h"

#include <fmt/format.h>

#include <algorithm>

namespace mqblk::driver::nvme {

void ControllerCore::arm_keep_alive() {
    if (options_.keep_alive <= Duration::zero()) return;
    keep_alive_timer_.arm(reactor_, reactor_.now() + std::max(options_.keep_alive / 2, least_keep_alive_period));
}

void ControllerCore::send_keep_alive() {
    arm_keep_alive();
    if (keep_alive_outstanding_ || session_.admin->closed()) return;
    AdminQueue::Order order;
    order.what = "Keep Alive";
    order.command.opcode = wire::nvme::admin_opcode::keep_alive;
    order.timeout = std::max(options_.keep_alive, 2 * least_keep_alive_period);
    order.on_reserved_tag = true;
    keep_alive_outstanding_ = true;
    session_.admin->submit(order, [weak = weak_from_this()](const Result<wire::nvme::Completion>& answer) {
        const auto self = weak.lock();
        if (self == nullptr) return;
        self->keep_alive_outstanding_ = false;
        if (!answer) return;  // the loss of the connection was reported
        const std::uint16_t status = wire::nvme::status_of(*answer);
        if ((status & wire::nvme::status::code_mask) != 0) {
            self->request_reset(fmt::format("Keep Alive failed with status {:#x} ({})", status, status_text(status)));
        }
    });
}

void ControllerCore::ask_for_event() {
    if (!events_offered_ || session_.admin->closed()) return;
    AdminQueue::Order order;
    order.what = "Asynchronous Event Request";
    order.command.opcode = wire::nvme::admin_opcode::async_event_request;
    order.on_reserved_tag = true;
    session_.admin->submit(order, [weak = weak_from_this()](const Result<wire::nvme::Completion>& answer) {
        const auto self = weak.lock();
        if (self == nullptr || !answer) return;
        const std::uint16_t status = wire::nvme::status_of(*answer);
        if (to_block_status(status) == Status::aborted) return;  // the queue is being taken down
        if ((status & wire::nvme::status::code_mask) != 0) {
            log_limited("nvme: events", fmt::format("nvme: {}: no events: status {:#x} ({})", self->title(), status,
                                                    status_text(status)));
            self->events_offered_ = false;
            return;
        }
        self->on_event(static_cast<std::uint32_t>(answer->result));
    });
}

void ControllerCore::on_event(std::uint32_t result) {
    const bool namespaces_changed =
        wire::nvme::event_type_of(result) == wire::nvme::event_type::notice &&
        wire::nvme::event_information_of(result) == wire::nvme::notice::namespace_attributes;
    if (namespaces_changed) {
        rescan_wanted_ = true;
        signal_.notify();
    }
    event_timer_.arm(reactor_, reactor_.now() + least_event_period);
}

void ControllerCore::tell_changes(const NamespaceMap& before) const {
    const std::string changes = describe_changes(before, namespaces_.facts());
    if (!changes.empty()) log_info(fmt::format("nvme: {}: namespaces: {}", title(), changes));
}

Task<void> ControllerCore::rescan() {
    rescan_wanted_ = false;
    const auto changed = co_await read_changed_namespaces(session_);
    Result<> done;
    if (!changed) {
        done = std::unexpected(changed.error());
    } else {
        const NamespaceMap before = namespaces_.facts();
        done = co_await scan_namespaces(session_, facts(), *changed, namespaces_,
                                        [this] { return stop_wanted_ || reset_wanted_; });
        tell_changes(before);
    }
    if (!done) request_reset(done.error().message());
}

}  // namespace mqblk::driver::nvme
