// SPDX-License-Identifier: Apache-2.0
//
// Disks that come, go and change: each change is a new generation of the configuration, an event, and an answer to the
// drivers that wait for events and maps.
#include "device/megaraid/controller.h"
#include "wire/megaraid_info.h"

#include <algorithm>
#include <utility>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

void Controller::changed(Target& target, std::uint32_t code, const char* text) noexcept {
    ++generation_;
    ++target.sequence;
    if (target.sequence == 0) target.sequence = 1;
    events_.add(code, EventClass::info, target, text);
    wake_pended();
}

/// What waits for events or maps looks again.
void Controller::wake_pended() noexcept {
    slots_.for_each_used([this](Slot& slot) {
        if (slot.state != SlotState::pended || !slot.management.used) return;
        switch (slot.management.frame.opcode) {
            case dcmd::ctrl_event_wait:
                return tell_events(slot);
            case dcmd::ld_map_get_info:
                return tell_map(slot);
            case dcmd::system_pd_map_get_info:
                return tell_pd_map(slot);
            default:
                return;
        }
    });
    if (interrupts_.noted()) interrupts_.flush();
}

void Controller::look_for_changes() noexcept {
    for (const auto& target : topology_.targets()) {
        Device& device = target->unit->device();
        if (device.removed()) {
            if (!std::exchange(target->present, false)) continue;
            changed(*target, target->is_volume ? event::ld_deleted : event::pd_removed, "removed");
        } else if (device.sectors() != target->sectors_told) {
            target->sectors_told = device.sectors();
            changed(*target, target->is_volume ? event::ld_state_change : event::host_bus_scan, "changed its size");
        }
    }
}

void Controller::pull_disk(unsigned device_id, Duration duration) noexcept {
    Target* const disk = topology_.disk(device_id);
    if (disk == nullptr || !std::exchange(disk->present, false)) return;
    changed(*disk, event::pd_removed, "removed");
    if (duration == Duration{}) return;
    pulled_.push_back({disk->id, host_->reactor().now() + duration});
    put_back();
}

void Controller::put_disk(unsigned device_id) noexcept {
    Target* const disk = topology_.disk(device_id);
    if (disk == nullptr || disk->unit->device().removed() || std::exchange(disk->present, true)) return;
    changed(*disk, event::pd_inserted, "inserted");
}

/// Those whose time has come; and sees to the next.
void Controller::put_back() noexcept {
    const Time now = host_->reactor().now();
    const auto due = std::ranges::partition(pulled_, [now](const Pulled& each) { return each.back > now; });
    const std::vector<Pulled> back(due.begin(), due.end());
    pulled_.erase(due.begin(), due.end());
    for (const Pulled& each : back) put_disk(each.disk);
    if (pulled_.empty()) return;
    put_back_timer_.arm(host_->reactor(), std::ranges::min(pulled_, {}, &Pulled::back).back);
}

Result<unsigned> Controller::add_disk(std::shared_ptr<Device> device) {
    auto added = topology_.add_disk(std::move(device), max_transfer_bytes);
    if (!added) return std::unexpected(added.error());
    if (auto open = open_target(**added); !open) {
        (*added)->present = false;
        return std::unexpected(open.error());
    }
    changed(**added, event::pd_inserted, "inserted");
    return (*added)->id;
}

void Controller::set_volume_present(unsigned target_id, bool present) noexcept {
    Target* const volume = topology_.volume(target_id);
    if (volume == nullptr || std::exchange(volume->present, present) == present) return;
    changed(*volume, present ? event::ld_created : event::ld_offline, present ? "online" : "offline");
}

}  // namespace mqblk::device::megaraid
