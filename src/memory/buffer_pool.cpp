// SPDX-License-Identifier: Apache-2.0
//
// The buddy system and the queue of waiters. While nobody waits, a freed block keeps its size, so that steady traffic
// of one size costs two list operations; while somebody waits, every freed block is joined with its free buddies at
// once.
#include "memory/buffer_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>

namespace mqblk::memory {

namespace {
constexpr std::size_t smallest_max_block_bytes = Buffer::page_bytes;
constexpr std::size_t largest_max_block_bytes = std::size_t{1} << 30;
}  // namespace

Result<std::unique_ptr<BufferPool>> BufferPool::create(std::size_t budget_bytes, std::size_t max_block_bytes,
                                                       Backing backing) {
    if (!std::has_single_bit(max_block_bytes) || max_block_bytes < smallest_max_block_bytes ||
        max_block_bytes > largest_max_block_bytes) {
        return fail(Errc::invalid_argument,
                    fmt::format("largest buffer of {} bytes: must be a power of two from 4k to 1G", max_block_bytes));
    }
    const std::size_t budget =
        (std::max<std::size_t>(budget_bytes, 1) + max_block_bytes - 1) / max_block_bytes * max_block_bytes;
    if (budget / min_block_bytes >= nothing) {
        return fail(Errc::invalid_argument, fmt::format("buffer budget of {} bytes: must be below 2T", budget_bytes));
    }
    auto arena = Buffer::allocate(budget, backing);
    if (!arena) return std::unexpected(arena.error());
    auto units = Buffer::allocate(budget / min_block_bytes * sizeof(Unit));
    if (!units) return std::unexpected(units.error());
    return std::unique_ptr<BufferPool>(
        new BufferPool(std::move(*arena), std::move(*units), order_for(max_block_bytes)));
}

BufferPool::BufferPool(Buffer arena, Buffer units, unsigned max_order)
    : arena_(std::move(arena)), units_(std::move(units)), max_order_(max_order) {
    std::ranges::fill(heads_, nothing);
}

BufferPool::~BufferPool() {
    assert(used_units_ == 0 && first_ == nullptr);
}

unsigned BufferPool::order_for(std::size_t bytes) noexcept {
    return bytes <= min_block_bytes ? 0 : static_cast<unsigned>(std::bit_width((bytes - 1) / min_block_bytes));
}

std::uint32_t BufferPool::index_of(const std::byte* data) const noexcept {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(data - arena_.data()) / min_block_bytes);
}

void BufferPool::push(std::uint32_t index, unsigned order) noexcept {
    Unit& block = unit(index);
    block = {heads_[order], nothing, static_cast<std::uint8_t>(order + 1)};
    if (block.next != nothing) unit(block.next).previous = index;
    heads_[order] = index;
}

void BufferPool::unlink(std::uint32_t index, unsigned order) noexcept {
    Unit& block = unit(index);
    assert(block.free_order == order + 1);
    if (block.next != nothing) unit(block.next).previous = block.previous;
    (block.previous != nothing ? unit(block.previous).next : heads_[order]) = block.next;
    block.free_order = 0;
}

std::uint32_t BufferPool::pop(unsigned order) noexcept {
    unsigned found = order;
    while (found <= max_order_ && heads_[found] == nothing) ++found;
    std::uint32_t index = 0;
    if (found <= max_order_) {
        index = heads_[found];
        unlink(index, found);
    } else {
        if (fresh_ == arena_.size() / min_block_bytes) return nothing;
        found = max_order_;
        index = fresh_;
        fresh_ += 1u << max_order_;
    }
    while (found > order) {
        --found;
        push(index + (1u << found), found);
    }
    return index;
}

void BufferPool::join(std::uint32_t index, unsigned order) noexcept {
    while (order < max_order_) {
        const std::uint32_t buddy = index ^ (1u << order);
        if (unit(buddy).free_order != order + 1) break;
        unlink(buddy, order);
        index = std::min(index, buddy);
        ++order;
    }
    push(index, order);
}

void BufferPool::join_all() noexcept {
    if (joined_) return;
    for (unsigned order = 0; order < max_order_; ++order) {
        std::uint32_t index = heads_[order];
        while (index != nothing) {
            std::uint32_t next = unit(index).next;
            const std::uint32_t buddy = index ^ (1u << order);
            if (unit(buddy).free_order == order + 1) {
                if (next == buddy) next = unit(buddy).next;
                unlink(index, order);
                unlink(buddy, order);
                push(std::min(index, buddy), order + 1);
            }
            index = next;
        }
    }
    joined_ = true;
}

bool BufferPool::grant(BufferRequest& request) noexcept {
    const unsigned order = order_for(request.bytes);
    std::uint32_t index = pop(order);
    if (index == nothing && !joined_) {
        join_all();
        index = pop(order);
    }
    if (index == nothing) return false;
    used_units_ += std::size_t{1} << order;
    request.data = arena_.data() + std::size_t{index} * min_block_bytes;
    return true;
}

BufferPool::Grant BufferPool::get(BufferRequest& request) noexcept {
    assert(!request.link.waiting);
    if (request.bytes == 0 || request.bytes > max_block_bytes()) return Grant::too_large;
    ++gets_;
    if (first_ == nullptr && grant(request)) return Grant::granted;
    enqueue(request);
    return Grant::waiting;
}

void BufferPool::put(std::byte* data, std::size_t bytes) noexcept {
    const unsigned order = order_for(bytes);
    const std::uint32_t index = index_of(data);
    assert(unit(index).free_order == 0 && index % (1u << order) == 0);
    used_units_ -= std::size_t{1} << order;
    if (!use_told_ && used_ != nullptr) {
        use_told_ = true;
        used_(used_context_);
    }
    if (first_ == nullptr) {
        push(index, order);
        joined_ = false;
        return;
    }
    join(index, order);
    serve();
}

void BufferPool::cancel(BufferRequest& request) noexcept {
    if (!request.link.waiting) return;
    dequeue(request);
    serve();
}

void BufferPool::enqueue(BufferRequest& request) noexcept {
    request.link = {nullptr, last_, true};
    (last_ != nullptr ? last_->link.next : first_) = &request;
    last_ = &request;
    ++waiting_;
}

void BufferPool::dequeue(BufferRequest& request) noexcept {
    const auto [next, previous, waits] = request.link;
    (previous != nullptr ? previous->link.next : first_) = next;
    (next != nullptr ? next->link.previous : last_) = previous;
    request.link = {};
    --waiting_;
}

void BufferPool::serve() noexcept {
    if (serving_) return;  // a put() from within `ready`: the loop below goes on
    serving_ = true;
    while (first_ != nullptr && grant(*first_)) {
        BufferRequest& request = *first_;
        dequeue(request);
        request.ready(request);
    }
    serving_ = false;
}

void BufferPool::on_use(void (*used)(void*) noexcept, void* context) noexcept {
    used_ = used;
    used_context_ = context;
    use_told_ = false;
}

bool BufferPool::trim_if_quiet() noexcept {
    if (gets_ != gets_seen_) {
        gets_seen_ = gets_;
        return false;
    }
    trim();
    use_told_ = false;
    return true;
}

void BufferPool::trim() noexcept {
    join_all();
    for (unsigned order = order_for(Buffer::page_bytes); order <= max_order_; ++order) {
        for (std::uint32_t index = heads_[order]; index != nothing; index = unit(index).next) {
            arena_.release(std::size_t{index} * min_block_bytes, min_block_bytes << order);
        }
    }
}

}  // namespace mqblk::memory
