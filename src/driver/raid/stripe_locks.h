// SPDX-License-Identifier: Apache-2.0
//
// Who may change a stripe. One holder at a time for each stripe, the others behind it in the order in which they came;
// the table is in shards by stripe, each with a lock that is held for a few instructions, so that threads at work on
// different stripes hardly ever meet. Nobody ever waits for a second stripe while holding one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace mqblk::driver::raid {

/// One who holds a stripe, or waits for it. The owner's; the table links it meanwhile.
struct StripeLock {
    /// It is the holder now. On the thread of whoever held it before.
    void (*granted)(StripeLock&) noexcept = nullptr;
    void* context = nullptr;  ///< the owner's

    std::uint64_t stripe = 0;
    StripeLock* next = nullptr;          ///< of the shard's holders, or of those that wait for the same stripe
    StripeLock* first_waiter = nullptr;  ///< of a holder
    StripeLock* last_waiter = nullptr;
};

/// Any thread.
class StripeLocks {
  public:
    /// True: held. False: `granted` will be called.
    [[nodiscard]] bool acquire(StripeLock& lock, std::uint64_t stripe) noexcept {
        Shard& shard = shard_of(stripe);
        lock.stripe = stripe;
        lock.first_waiter = lock.last_waiter = nullptr;
        const std::lock_guard guard(shard.mutex);
        for (StripeLock* holder = shard.holders; holder != nullptr; holder = holder->next) {
            if (holder->stripe != stripe) continue;
            lock.next = nullptr;
            (holder->first_waiter == nullptr ? holder->first_waiter : holder->last_waiter->next) = &lock;
            holder->last_waiter = &lock;
            return false;
        }
        lock.next = shard.holders;
        shard.holders = &lock;
        return true;
    }

    void release(StripeLock& lock) noexcept {
        StripeLock* heir = nullptr;
        {
            Shard& shard = shard_of(lock.stripe);
            const std::lock_guard guard(shard.mutex);
            StripeLock** link = &shard.holders;
            while (*link != &lock) link = &(*link)->next;
            heir = lock.first_waiter;
            if (heir == nullptr) {
                *link = lock.next;
            } else {
                heir->first_waiter = heir->next;
                heir->last_waiter = heir->next != nullptr ? lock.last_waiter : nullptr;
                heir->next = lock.next;
                *link = heir;
            }
        }
        if (heir != nullptr) heir->granted(*heir);
    }

  private:
    struct alignas(64) Shard {
        std::mutex mutex;
        StripeLock* holders = nullptr;
    };
    [[nodiscard]] Shard& shard_of(std::uint64_t stripe) noexcept { return shards_[stripe % shards_.size()]; }

    std::array<Shard, 256> shards_;
};

}  // namespace mqblk::driver::raid
