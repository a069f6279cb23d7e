// SPDX-License-Identifier: Apache-2.0
#include "device/skd/slot.h"

#include <algorithm>

namespace mqblk::device::skd {

SlotTable::SlotTable(Card& card) : rooms_(count * room_bytes) {
    std::byte* room = rooms_.data();
    for (unsigned i = 0; i < count; ++i) {
        Slot& slot = slots_[i];
        slot.card = &card;
        slot.index = static_cast<std::uint16_t>(i);
        slot.command.context = &slot;
        slot.data.copy.context = &slot;
        free_[i] = static_cast<std::uint16_t>(count - 1 - i);
        if (room == nullptr) continue;
        slot.data.range_room = {reinterpret_cast<pci::DmaSegment*>(room), max_descriptors};
        room += slot.data.range_room.size_bytes();
        slot.data.piece_room = {reinterpret_cast<Segment*>(room), max_pieces};
        room += slot.data.piece_room.size_bytes();
    }
}

Slot& SlotTable::take() noexcept {
    Slot& slot = slots_[free_[--free_count_]];
    slot.state = SlotState::starting;
    slot.dropped = slot.lost = slot.twice = slot.wrong_tag = false;
    slot.data.begin();
    slot.due = {};
    slot.again_after = {};
    return slot;
}

void SlotTable::give_back(Slot& slot) noexcept {
    slot.state = SlotState::free;
    free_[free_count_++] = slot.index;
}

namespace {
constexpr auto later = [](const Slot* a, const Slot* b) noexcept {
    return a->due != b->due ? a->due > b->due : a->index > b->index;
};
}  // namespace

void DelayedSlots::push(Slot& slot) noexcept {
    heap_[size_++] = &slot;
    std::push_heap(heap_.begin(), heap_.begin() + size_, later);
}

Slot& DelayedSlots::pop() noexcept {
    std::pop_heap(heap_.begin(), heap_.begin() + size_, later);
    return *heap_[--size_];
}

}  // namespace mqblk::device::skd
