// SPDX-License-Identifier: Apache-2.0
//
// The reply queues in the host's memory, as their producer: one for each vector. A descriptor is eight bytes, stored at
// once, after all that it announces. The host writes back how far it has read; it is never overtaken.
#pragma once

#include "pci/host_memory.h"
#include "wire/megaraid.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace mqblk::device::megaraid {

class ReplyQueues {
  public:
    enum class Posted : std::uint8_t { yes, full, unmapped };

    /// All of depth entries, empty, `count` of them; where each lies is set next.
    void configure(unsigned count, unsigned depth) noexcept;
    void place(unsigned queue, std::uint64_t address) noexcept { queues_[queue].address = address; }
    void forget() noexcept { count_ = depth_ = 0; }
    [[nodiscard]] unsigned count() const noexcept { return count_; }

    [[nodiscard]] Posted post(const pci::HostMemory& memory, unsigned queue, std::uint16_t smid) noexcept;

    /// Any thread: the host has read up to there.
    void set_host_index(unsigned queue, std::uint32_t index) noexcept {
        if (queue < queues_.size()) queues_[queue].host_index.store(index, std::memory_order_relaxed);
    }

  private:
    struct Queue {
        std::uint64_t address = 0;
        unsigned index = 0;  ///< the next to write
        std::atomic<std::uint32_t> host_index{0};
    };
    std::array<Queue, wire::megaraid::max_vectors> queues_;
    unsigned count_ = 0, depth_ = 0;
};

}  // namespace mqblk::device::megaraid
