// SPDX-License-Identifier: Apache-2.0
#include "device/megaraid/events.h"

#include <algorithm>
#include <cstring>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

void EventLog::add(std::uint32_t code, EventClass kind, const Target& target, const char* text) noexcept {
    Event& event = events_[next_ % kept];
    event = {};
    event.sequence = next_++;
    event.code = code;
    event.class_locale = class_locale(kind, target.is_volume ? locale_ld : locale_pd);
    event.argument_type = static_cast<std::uint8_t>(target.is_volume ? EventArgument::ld : EventArgument::pd);
    const le16 id = target.id;
    std::memcpy(event.arguments, &id, sizeof id);
    event.arguments[target.is_volume ? 2 : 3] = static_cast<std::uint8_t>(target.id);  // index, or slot
    std::strncpy(event.description, text, sizeof event.description - 1);
}

EventLogInfo EventLog::info() const noexcept {
    EventLogInfo info;
    info.newest = newest();
    info.oldest = oldest();
    return info;
}

const Event* EventLog::find(std::uint32_t sequence, std::uint32_t wanted) const noexcept {
    for (std::uint32_t i = std::max(sequence, oldest()); i < next_; ++i) {
        const Event& event = events_[i % kept];
        if (wants_event(wanted, event.class_locale)) return &event;
    }
    return nullptr;
}

}  // namespace mqblk::device::megaraid
