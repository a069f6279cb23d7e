// SPDX-License-Identifier: Apache-2.0
//
// Memory that the controller reads commands from and answers in, by SMID: request frames (Fusion), chain frames, which
// are MFI frames too, sense data, parameter data. And how a command gets its SMID: it is the block layer's tag and one;
// tags below `reserved_tags` are the driver's own. It outlives the hardware queues, and is the same after a controller
// reset. Below 4 GiB, as sense data must be.
#pragma once

#include "pci/dma_space.h"
#include "wire/megaraid_mpi.h"
#include "wire/scsi_data.h"

#include <mqblk/error.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mqblk::driver::megaraid {

/// Events, both maps, one command that waits, one task management request, and as many again that a controller which
/// does not answer may keep until it is reset.
inline constexpr unsigned reserved_tags = 12;

[[nodiscard]] constexpr std::uint16_t smid_of(std::uint32_t tag) noexcept {
    return static_cast<std::uint16_t>(tag + 1);
}
[[nodiscard]] constexpr std::uint32_t tag_of(std::uint16_t smid) noexcept {
    return std::uint32_t{smid} - 1;  // SMID 0 is none: then it is no tag
}

class CommandMemory {
  public:
    struct Sizes {
        unsigned commands = 0;  ///< as the firmware has stated
        std::uint32_t chain_bytes = 0;
        bool request_frames = true;
    };
    [[nodiscard]] static Result<std::unique_ptr<CommandMemory>> create(pci::DmaSpace& space, const Sizes& sizes);

    [[nodiscard]] unsigned commands() const noexcept { return commands_; }
    [[nodiscard]] std::uint32_t chain_bytes() const noexcept { return chain_bytes_; }
    [[nodiscard]] pci::DmaSpace& space() const noexcept { return space_; }

    [[nodiscard]] wire::megaraid::ScsiIoRequest& frame(std::uint16_t smid) const noexcept {
        return reinterpret_cast<wire::megaraid::ScsiIoRequest*>(frames_.data())[smid];
    }
    [[nodiscard]] std::uint64_t frames_address() const noexcept { return frames_.address(); }
    [[nodiscard]] std::byte* chain(std::uint16_t smid) const noexcept {
        return chains_.data() + std::size_t{tag_of(smid)} * chain_bytes_;
    }
    [[nodiscard]] std::uint64_t chain_address(std::uint16_t smid) const noexcept {
        return chains_.address(std::size_t{tag_of(smid)} * chain_bytes_);
    }
    [[nodiscard]] const std::byte* sense(std::uint16_t smid) const noexcept {
        return sense_.data() + tag_of(smid) * wire::megaraid::sense_buffer_bytes;
    }
    [[nodiscard]] std::uint64_t sense_address(std::uint16_t smid) const noexcept {
        return sense_.address(tag_of(smid) * wire::megaraid::sense_buffer_bytes);
    }

    /// Of UNMAP: one range.
    struct UnmapList {
        wire::scsi::UnmapHeader header;
        wire::scsi::UnmapDescriptor range;
    };
    [[nodiscard]] UnmapList& unmap_list(std::uint16_t smid) const noexcept {
        return reinterpret_cast<UnmapList*>(parameters_.data())[tag_of(smid)];
    }
    [[nodiscard]] std::uint64_t unmap_list_address(std::uint16_t smid) const noexcept {
        return parameters_.address(tag_of(smid) * sizeof(UnmapList));
    }
    /// A block of zeroes, for WRITE SAME.
    [[nodiscard]] std::uint64_t zeroes_address() const noexcept { return zeroes_.address(); }
    static constexpr std::size_t max_block_bytes = 4096;

    // Which use of a SMID the firmware has: odd while it has one. Written by whoever sends, read by recovery to see
    // whether a late command has ended.

    void sent(std::uint16_t smid) noexcept { step(smid); }
    void ended(std::uint16_t smid) noexcept { step(smid); }
    [[nodiscard]] std::uint32_t use(std::uint16_t smid) const noexcept {
        return uses_[smid].load(std::memory_order_acquire);
    }

  private:
    CommandMemory(pci::DmaSpace& space, unsigned commands, std::uint32_t chain_bytes)
        : space_(space), commands_(commands), chain_bytes_(chain_bytes), uses_(commands + 1) {}
    void step(std::uint16_t smid) noexcept {
        std::atomic<std::uint32_t>& use = uses_[smid];
        use.store(use.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }

    pci::DmaSpace& space_;
    const unsigned commands_;
    const std::uint32_t chain_bytes_;
    pci::DmaMemory frames_, chains_, sense_, parameters_, zeroes_;
    std::vector<std::atomic<std::uint32_t>> uses_;  ///< by SMID
};

}  // namespace mqblk::driver::megaraid
