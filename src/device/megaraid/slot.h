// SPDX-License-Identifier: Apache-2.0
//
// Slot: one request that the firmware has taken, from its descriptor to its reply: there is one for each SMID.
// SlotTable: all of them; nothing is allocated while commands run, and what no long scatter-gather list has touched
// takes no memory.
#pragma once

#include "base/clock.h"
#include "block/zero_pages.h"
#include "device/megaraid/sg_list.h"
#include "device/scsi/command.h"
#include "device/scsi/host_data.h"
#include "pci/dma_space.h"
#include "wire/megaraid_mfi.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mqblk::device::megaraid {

class Controller;
struct Target;

enum class SlotState : std::uint8_t {
    free,
    starting,  ///< being looked at
    waiting,   ///< for memory to copy through
    running,   ///< the disk has it
    delayed,   ///< done, and told later
    lost,      ///< done, and never told unless it is aborted
    pended,    ///< a DCMD that is answered when something happens
};

/// What a DCMD or an ABORT that travels in a request says.
struct ManagementFrame {
    bool used = false;  ///< the request carries one
    std::uint64_t address = 0;
    wire::megaraid::DcmdFrame frame{};
};

/// A task management request, answered when what it ends has ended.
struct TaskState {
    Target* target = nullptr;
    std::uint16_t smid = 0;  ///< of the one command; 0: all of the target
    bool waits = false;
};

struct Slot {
    scsi::Command command;
    Controller* controller = nullptr;
    std::uint16_t smid = 0;
    SlotState state = SlotState::free;
    std::uint8_t vector = 0;
    bool dropped = false;  ///< by a reset: it ends without a word
    bool aborted = false;  ///< by task management: it ends as failed
    bool lost = false, twice = false;
    Duration again{};          ///< twice: the second time so much later
    std::uint8_t failure = 0;  ///< MfiStatus that it ends with, whatever the SCSI status is; 0: none

    std::uint64_t frame = 0;  ///< address of the request
    std::uint64_t sense = 0;
    std::uint8_t sense_bytes = 0;
    Target* target = nullptr;
    std::uint32_t asked_bytes = 0;  ///< of data, as the request said
    Time due{};                     ///< not told before
    scsi::HostData data;
    ManagementFrame management;
    TaskState task;
};

class SlotTable {
  public:
    SlotTable(Controller& controller, unsigned count);
    /// False: the system had no memory for it.
    [[nodiscard]] bool usable() const noexcept { return rooms_.data() != nullptr; }

    [[nodiscard]] unsigned count() const noexcept { return static_cast<unsigned>(slots_.size()); }
    [[nodiscard]] unsigned used() const noexcept { return used_; }
    /// SMIDs are from 1 on; null for others.
    [[nodiscard]] Slot* find(unsigned smid) noexcept { return smid - 1 < slots_.size() ? &slots_[smid - 1] : nullptr; }
    void take(Slot&) noexcept;  ///< a free one
    void give_back(Slot& slot) noexcept {
        slot.state = SlotState::free;
        --used_;
    }
    template <class Fn>
    void for_each_used(Fn&& fn) {
        for (Slot& slot : slots_)
            if (slot.state != SlotState::free) fn(slot);
    }

  private:
    /// The most pieces of one command: ranges may be cut where two mappings meet.
    static constexpr std::size_t max_pieces = 2 * max_ranges;
    static constexpr std::size_t room_bytes = max_ranges * sizeof(pci::DmaSegment) + max_pieces * sizeof(Segment);

    block::ZeroPages rooms_;
    std::vector<Slot> slots_;
    unsigned used_ = 0;
};

/// Slots by the time at which they are told, the earliest first.
class DelayedSlots {
  public:
    explicit DelayedSlots(unsigned most) { heap_.reserve(most); }
    void push(Slot& slot) noexcept;
    [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
    [[nodiscard]] Slot& first() const noexcept { return *heap_.front(); }
    Slot& pop() noexcept;
    void remove(Slot& slot) noexcept;  ///< one that is in it
    void clear() noexcept { heap_.clear(); }

  private:
    std::vector<Slot*> heap_;  ///< within its capacity
};

}  // namespace mqblk::device::megaraid
