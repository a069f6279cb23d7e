// SPDX-License-Identifier: Apache-2.0
//
// Slot: one SCSI request that the card has taken, from its FIT message to its completion entry, with the memory it
// needs on the way. SlotTable: all of them; nothing is allocated while commands run, and what no long scatter-gather
// list has touched takes no memory.
#pragma once

#include "base/clock.h"
#include "block/zero_pages.h"
#include "device/scsi/command.h"
#include "device/scsi/host_data.h"
#include "device/skd/sg_list.h"
#include "pci/dma_space.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mqblk::device::skd {

class Card;

enum class SlotState : std::uint8_t {
    free,
    starting,  ///< being looked at
    waiting,   ///< for memory to copy through
    running,   ///< the disk has it
    delayed,   ///< done, and told later
};

struct Slot {
    scsi::Command command;
    Card* card = nullptr;
    std::uint16_t index = 0;
    std::uint16_t tag = 0;  ///< as the host sent it
    SlotState state = SlotState::free;
    bool dropped = false;                                 ///< by a reset: it ends without a word
    bool lost = false, twice = false, wrong_tag = false;  ///< faults
    Time due{};                                           ///< not told before
    Duration again_after{};                               ///< told twice: the second time that much later
    scsi::HostData data;
};

class SlotTable {
  public:
    static constexpr unsigned count = 256;

    explicit SlotTable(Card& card);
    /// False: the system had no memory for it.
    [[nodiscard]] bool usable() const noexcept { return rooms_.data() != nullptr; }

    [[nodiscard]] unsigned used() const noexcept { return count - free_count_; }
    [[nodiscard]] Slot& take() noexcept;  ///< used() < count
    void give_back(Slot&) noexcept;
    template <class Fn>
    void for_each_used(Fn&& fn) {
        for (Slot& slot : slots_)
            if (slot.state != SlotState::free) fn(slot);
    }

  private:
    /// The most pieces of one command: ranges may be cut where two mappings meet.
    static constexpr std::size_t max_pieces = max_descriptors;
    static constexpr std::size_t room_bytes = max_descriptors * sizeof(pci::DmaSegment) + max_pieces * sizeof(Segment);

    block::ZeroPages rooms_;
    std::array<Slot, count> slots_;
    std::array<std::uint16_t, count> free_;
    unsigned free_count_ = count;
};

/// Slots by the time at which they are told, the earliest first.
class DelayedSlots {
  public:
    void push(Slot& slot) noexcept;
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] Slot& first() const noexcept { return *heap_[0]; }
    Slot& pop() noexcept;
    void clear() noexcept { size_ = 0; }

  private:
    std::array<Slot*, SlotTable::count> heap_{};
    unsigned size_ = 0;
};

}  // namespace mqblk::device::skd
