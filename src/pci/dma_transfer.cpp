// SPDX-License-Identifier: Apache-2.0
#include "pci/dma_transfer.h"

#include "memory/segments.h"

#include <algorithm>
#include <bit>

namespace mqblk::pci {

namespace {

constexpr std::size_t smallest_block_bytes = 4096;  // what a BufferPool asks for

}  // namespace

Result<std::unique_ptr<BouncePool>> BouncePool::create(DmaSpace& space, std::size_t budget_bytes,
                                                       std::size_t max_bytes) {
    const std::size_t block = std::bit_ceil(std::max(max_bytes, smallest_block_bytes));
    auto pool = memory::BufferPool::create(std::max(budget_bytes, block), block, space.backing());
    if (!pool) return std::unexpected(pool.error());
    auto mapping = space.map((*pool)->arena());
    if (!mapping) return std::unexpected(mapping.error());
    return std::unique_ptr<BouncePool>(new BouncePool(std::move(*pool), std::move(*mapping)));
}

std::byte* BouncePool::get(std::size_t bytes) noexcept {
    memory::BufferRequest request;
    request.bytes = bytes;
    request.ready = [](memory::BufferRequest&) noexcept {};
    switch (pool_->get(request)) {
        case memory::BufferPool::Grant::granted:
            return request.data;
        case memory::BufferPool::Grant::waiting:
            pool_->cancel(request);
            break;  // the block layer keeps the order
        case memory::BufferPool::Grant::too_large:
            break;
    }
    return nullptr;
}

std::optional<std::span<DmaSegment>> DmaTransfer::begin(const DmaSpace& space, BouncePool& pool, Segments memory,
                                                        bool to_device, std::span<DmaSegment> room) noexcept {
    bounce_ = nullptr;
    if (const auto pieces = space.translate(memory, room)) return pieces;
    bytes_ = memory::total_bytes(memory);
    if (room.empty() || (bounce_ = pool.get(bytes_)) == nullptr) return std::nullopt;
    if (to_device) memory::copy(std::span(bounce_, bytes_), memory);
    room[0] = {pool.address(bounce_), bytes_};
    return room.first(1);
}

void DmaTransfer::end(BouncePool& pool, Segments memory, bool from_device) noexcept {
    if (bounce_ == nullptr) return;
    if (from_device) memory::copy(memory, std::span<const std::byte>(bounce_, bytes_));
    pool.put(bounce_, bytes_);
    bounce_ = nullptr;
}

}  // namespace mqblk::pci
