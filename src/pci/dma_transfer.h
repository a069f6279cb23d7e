// SPDX-License-Identifier: Apache-2.0
//
// An I/O's memory on its way to the device: named to it where it lies, or, where the device cannot reach it, copied
// through memory that it can. Drivers need not know which. A pool belongs to one thread, as the hardware queue that
// uses it does.
#pragma once

#include "memory/buffer_pool.h"
#include "pci/dma_space.h"

#include <mqblk/bio.h>
#include <mqblk/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace mqblk::pci {

/// A budget of memory that the device reaches.
class BouncePool {
  public:
    /// For requests of at most `max_bytes`, rounded up to a power of two. The space outlives it.
    [[nodiscard]] static Result<std::unique_ptr<BouncePool>> create(DmaSpace& space, std::size_t budget_bytes,
                                                                    std::size_t max_bytes);

    /// Null if too little is left now; put() is when it is worth trying again.
    [[nodiscard]] std::byte* get(std::size_t bytes) noexcept;
    void put(std::byte* data, std::size_t bytes) noexcept { pool_->put(data, bytes); }
    [[nodiscard]] std::uint64_t address(const std::byte* data) const noexcept {
        return mapping_.address() + static_cast<std::uint64_t>(data - pool_->arena().data());
    }
    [[nodiscard]] std::size_t used_bytes() const noexcept { return pool_->used_bytes(); }

  private:
    BouncePool(std::unique_ptr<memory::BufferPool> pool, DmaMapping mapping) noexcept
        : pool_(std::move(pool)), mapping_(std::move(mapping)) {}

    std::unique_ptr<memory::BufferPool> pool_;
    DmaMapping mapping_;  ///< ends before the memory does
};

/// Lives in the driver's payload of a request, from begin() to end().
class DmaTransfer {
  public:
    /// What the device is to be told, in `room`, with data for it copied if need be (`to_device`). Nothing if the
    /// memory cannot be reached and the pool has too little left: the request is to wait (`busy`). `room` holds as many
    /// pieces as a request may have segments; where they are more as the device sees them, they are copied too.
    [[nodiscard]] std::optional<std::span<DmaSegment>> begin(const DmaSpace& space, BouncePool& pool, Segments memory,
                                                             bool to_device, std::span<DmaSegment> room) noexcept;

    /// The device is done with it. `from_device`: it has written, and what was copied goes back to `memory`, the same
    /// as at the beginning. Once for each begin() that succeeded; memory that was not copied is left alone.
    void end(BouncePool& pool, Segments memory, bool from_device) noexcept;

    [[nodiscard]] bool copied() const noexcept { return bounce_ != nullptr; }

  private:
    std::byte* bounce_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace mqblk::pci
