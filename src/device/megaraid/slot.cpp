// SPDX-License-Identifier: Apache-2.0
#include "device/megaraid/slot.h"

#include <algorithm>

namespace mqblk::device::megaraid {

SlotTable::SlotTable(Controller& controller, unsigned count) : rooms_(count * room_bytes), slots_(count) {
    std::byte* room = rooms_.data();
    for (unsigned i = 0; i < count; ++i) {
        Slot& slot = slots_[i];
        slot.controller = &controller;
        slot.smid = static_cast<std::uint16_t>(i + 1);
        slot.command.context = &slot;
        slot.data.copy.context = &slot;
        if (room == nullptr) continue;
        slot.data.range_room = {reinterpret_cast<pci::DmaSegment*>(room), max_ranges};
        room += slot.data.range_room.size_bytes();
        slot.data.piece_room = {reinterpret_cast<Segment*>(room), max_pieces};
        room += slot.data.piece_room.size_bytes();
    }
}

void SlotTable::take(Slot& slot) noexcept {
    ++used_;
    slot.state = SlotState::starting;
    slot.dropped = slot.aborted = slot.lost = slot.twice = false;
    slot.failure = 0;
    slot.target = nullptr;
    slot.command.status = wire::scsi::Status::good;
    slot.command.transferred = 0;
    slot.data.begin();
    slot.asked_bytes = 0;
    slot.due = {};
    slot.task = {};
}

namespace {
constexpr auto due_later = [](const Slot* a, const Slot* b) noexcept {
    return a->due != b->due ? a->due > b->due : a->smid > b->smid;
};
}  // namespace

void DelayedSlots::push(Slot& slot) noexcept {
    heap_.push_back(&slot);
    std::ranges::push_heap(heap_, due_later);
}

Slot& DelayedSlots::pop() noexcept {
    std::ranges::pop_heap(heap_, due_later);
    Slot& slot = *heap_.back();
    heap_.pop_back();
    return slot;
}

void DelayedSlots::remove(Slot& slot) noexcept {
    std::erase(heap_, &slot);
    std::ranges::make_heap(heap_, due_later);
}

}  // namespace mqblk::device::megaraid
