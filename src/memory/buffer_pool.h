// SPDX-License-Identifier: Apache-2.0
//
// BufferPool: a fixed budget of memory for data on its way, handed out in blocks of powers of two (512 bytes to a
// maximum). When it runs out, requests wait and are served strictly in order: a small one never overtakes a large one,
// so none starves. It never fails later and cannot deadlock as long as whoever holds a block gives it back without
// waiting for another. Memory is touched only as it is used; block::PoolTrimmer gives it back when the pool falls idle.
// A buddy system that leaves freed blocks as they are until somebody needs a larger one. One thread.
#pragma once

#include "memory/buffer.h"

#include <mqblk/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mqblk::memory {

/// One demand for memory. The caller owns it until it is granted or cancelled.
struct BufferRequest {
    std::size_t bytes = 0;
    std::byte* data = nullptr;  ///< out: the block, aligned to min(its size, 4 KiB) at least
    /// Runs once if get() said `waiting`, from within some put(). It may call get() and put().
    void (*ready)(BufferRequest&) noexcept = nullptr;
    void* context = nullptr;  ///< the caller's

    struct Link {
        BufferRequest* next = nullptr;
        BufferRequest* previous = nullptr;
        bool waiting = false;
    } link;  ///< the pool's
};

class BufferPool {
  public:
    static constexpr std::size_t min_block_bytes = 512;

    enum class Grant : std::uint8_t {
        granted,    ///< `data` is set
        waiting,    ///< `ready` will run
        too_large,  ///< more than max_block_bytes(), or 0: will never be granted
    };

    /// `budget_bytes` is rounded up to whole blocks of `max_block_bytes`, a power of two from 4 KiB to 1 GiB.
    [[nodiscard]] static Result<std::unique_ptr<BufferPool>> create(std::size_t budget_bytes,
                                                                    std::size_t max_block_bytes,
                                                                    Backing = Backing::anonymous);
    ~BufferPool();  ///< every block is back and nobody waits
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    [[nodiscard]] Grant get(BufferRequest&) noexcept;
    /// Gives back what a request of `bytes` was granted.
    void put(std::byte* data, std::size_t bytes) noexcept;
    /// No longer wants it: `ready` will not run. Others behind it may be served at once. No effect unless waiting.
    void cancel(BufferRequest&) noexcept;

    [[nodiscard]] std::size_t budget_bytes() const noexcept { return arena_.size(); }
    [[nodiscard]] std::size_t max_block_bytes() const noexcept { return min_block_bytes << max_order_; }
    [[nodiscard]] std::size_t used_bytes() const noexcept { return used_units_ * min_block_bytes; }
    [[nodiscard]] unsigned waiting() const noexcept { return waiting_; }
    /// To share it. Not to pin it: trim() would part the pinned pages from the memory.
    [[nodiscard]] const Buffer& arena() const noexcept { return arena_; }

    /// Gives the memory of all free blocks back to the system.
    void trim() noexcept;

    /// Runs `used` with the first put() and with the first after each time that trim_if_quiet() said true.
    void on_use(void (*used)(void*) noexcept, void* context) noexcept;
    /// Trims if nothing was asked for since the last call, and says whether it did.
    bool trim_if_quiet() noexcept;

  private:
    static constexpr unsigned orders = 22;  // 512 bytes to 1 GiB
    static constexpr std::uint32_t nothing = ~0u;

    /// One for each 512 bytes of the arena; meaningful at the first unit of a free block.
    struct Unit {
        std::uint32_t next, previous;
        std::uint8_t free_order;  // 0 = not the start of a free block, else order + 1
    };

    BufferPool(Buffer arena, Buffer units, unsigned max_order);
    [[nodiscard]] static unsigned order_for(std::size_t bytes) noexcept;
    [[nodiscard]] std::uint32_t index_of(const std::byte* data) const noexcept;
    [[nodiscard]] Unit& unit(std::uint32_t index) noexcept { return reinterpret_cast<Unit*>(units_.data())[index]; }
    void push(std::uint32_t index, unsigned order) noexcept;
    void unlink(std::uint32_t index, unsigned order) noexcept;
    [[nodiscard]] std::uint32_t pop(unsigned order) noexcept;  // `nothing` if none is large enough
    void join(std::uint32_t index, unsigned order) noexcept;
    void join_all() noexcept;
    [[nodiscard]] bool grant(BufferRequest&) noexcept;
    void enqueue(BufferRequest&) noexcept;
    void dequeue(BufferRequest&) noexcept;
    void serve() noexcept;

    Buffer arena_, units_;
    const unsigned max_order_;
    std::uint32_t heads_[orders];
    std::uint32_t fresh_ = 0;  // first unit that was never handed out
    std::size_t used_units_ = 0;
    BufferRequest* first_ = nullptr;
    BufferRequest* last_ = nullptr;
    unsigned waiting_ = 0;
    bool serving_ = false;
    bool joined_ = true;  // no two free buddies lie side by side
    std::uint64_t gets_ = 0;
    std::uint64_t gets_seen_ = 0;
    bool use_told_ = false;
    void (*used_)(void*) noexcept = nullptr;
    void* used_context_ = nullptr;
};

}  // namespace mqblk::memory
