// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/async_events.h"

#include "device/nvme/queue_core.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_logs.h"

#include <algorithm>

namespace mqblk::device::nvme {

namespace {
struct KindFacts {
    std::uint32_t enable_bit, information;
    std::uint8_t log_page;
};
/// By AsyncEvents::Kind.
constexpr std::array<KindFacts, AsyncEvents::kinds> kind_facts{{
    {wire::nvme::oaes::namespace_attributes, wire::nvme::notice::namespace_attributes,
     wire::nvme::log_id::changed_namespaces},
    {wire::nvme::oaes::ana, wire::nvme::notice::ana, wire::nvme::log_id::ana},
    {wire::nvme::oaes::discovery_change, wire::nvme::notice::discovery_change, wire::nvme::log_id::discovery},
    {wire::nvme::oaes::cross_reset, wire::nvme::notice::cross_reset, wire::nvme::log_id::cross_reset},
}};
}  // namespace

bool AsyncEvents::hold(TargetCommand& command) noexcept {
    if (count_ == limit) return false;
    held_[count_++] = &command;
    deliver();
    return true;
}

void AsyncEvents::raise(Kind kind) noexcept {
    // While masked the host has yet to read the log, which will show this change too.
    if (!(enabled_ & kind_facts[kind].enable_bit) || masked_[kind]) return;
    pending_[kind] = true;
    deliver();
}

void AsyncEvents::log_read(std::uint8_t log_page) noexcept {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
        if (kind_facts[kind].log_page == log_page) masked_[kind] = pending_[kind] = false;
    }
}

void AsyncEvents::deliver() noexcept {
    for (std::size_t kind = 0; kind < kinds && count_ > 0; ++kind) {
        if (!pending_[kind]) continue;
        pending_[kind] = false;
        masked_[kind] = true;
        TargetCommand& command = *held_[0];
        std::move(held_.begin() + 1, held_.begin() + static_cast<std::ptrdiff_t>(count_), held_.begin());
        --count_;
        command.completion.result = wire::nvme::event_result(wire::nvme::event_type::notice,
                                                             kind_facts[kind].information, kind_facts[kind].log_page);
        command.queue->complete(command, wire::nvme::status::success);
    }
}

TargetCommand* AsyncEvents::take(std::uint16_t command_id) noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
        if (held_[i]->command.command_id != command_id) continue;
        TargetCommand* const found = held_[i];
        std::move(held_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  held_.begin() + static_cast<std::ptrdiff_t>(count_), held_.begin() + static_cast<std::ptrdiff_t>(i));
        --count_;
        return found;
    }
    return nullptr;
}

void AsyncEvents::end_all(std::uint16_t status) noexcept {
    while (count_ > 0) {
        TargetCommand& command = *held_[--count_];
        command.queue->complete(command, status);
    }
}

}  // namespace mqblk::device::nvme
