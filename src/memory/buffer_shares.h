// SPDX-License-Identifier: Apache-2.0
//
// BufferShares: who may have how much of a BufferPool. An account that holds nothing is served in the order of arrival,
// whatever others hold; one that holds something gets more only while it has no more than is left over then. So one
// account alone has half of the pool at most, and the next that comes finds half of the rest: no fixed division, and
// something left for whoever comes (the dynamic thresholds of Choudhury and Hahne, 1998). What is over an account's
// share waits in the account, in order; accounts that wait take turns. Nothing fails, and whoever waits holds a block
// that comes back, or stands in the pool's own line. One thread.
#pragma once

#include "memory/buffer_pool.h"

#include <cstddef>

namespace mqblk::memory {

struct BufferAccount;

/// A demand for memory on an account. `ready` runs as the pool's does.
struct SharedBufferRequest : BufferRequest {
    BufferAccount* account = nullptr;

    struct {
        SharedBufferRequest* next = nullptr;
        SharedBufferRequest* previous = nullptr;
        bool waiting = false;
    } held_back;  ///< the shares'
};

/// Nothing is held and nobody waits when it goes. Its fields are the shares'.
struct BufferAccount {
    std::size_t used_bytes = 0;  ///< held, or asked of the pool
    SharedBufferRequest* first = nullptr;
    SharedBufferRequest* last = nullptr;
    BufferAccount* next = nullptr;  ///< in the ring of those that wait; null: in none
    BufferAccount* previous = nullptr;
};

class BufferShares {
  public:
    /// The pool is asked by these shares alone, and outlives them.
    explicit BufferShares(BufferPool& pool) : pool_(pool) {}
    BufferShares(const BufferShares&) = delete;
    BufferShares& operator=(const BufferShares&) = delete;

    /// `request.account` is set.
    [[nodiscard]] BufferPool::Grant get(SharedBufferRequest& request) noexcept;
    /// Gives back what a request of `bytes` on the account was granted.
    void put(BufferAccount&, std::byte* data, std::size_t bytes) noexcept;
    /// No effect unless it waits.
    void cancel(SharedBufferRequest&) noexcept;

    [[nodiscard]] unsigned waiting() const noexcept { return waiting_ + pool_.waiting(); }

  private:
    [[nodiscard]] static std::size_t block_of(std::size_t bytes) noexcept;
    [[nodiscard]] bool may_take(const BufferAccount&, std::size_t block) const noexcept;
    BufferPool::Grant ask(SharedBufferRequest&) noexcept;
    void hold_back(SharedBufferRequest&) noexcept;
    void let_go(SharedBufferRequest&) noexcept;
    void settle(BufferAccount&, std::size_t bytes) noexcept;
    void serve() noexcept;

    BufferPool& pool_;
    std::size_t used_bytes_ = 0;     // of all accounts; more than there is while some wait in the pool
    BufferAccount* turn_ = nullptr;  // of those with requests held back
    unsigned accounts_ = 0;          // in that ring
    unsigned waiting_ = 0;
    bool serving_ = false;
};

}  // namespace mqblk::memory
