// SPDX-License-Identifier: Apache-2.0
//
// Which entries of the journal are in use. They are used in turn and an entry is written anew only once its write is
// on stable media, so what is found after a crash is the end of what was written, in order. Used while members are
// missing (or always, if asked for), when each write waits for media anyway; the lock is short.
#pragma once

#include "driver/raid/waiter.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace mqblk::driver::raid {

/// Any thread.
class JournalRing {
  public:
    explicit JournalRing(std::uint32_t slots) : busy_(slots) {}

    /// The next entry's sequence number; nothing: `waiter` is told when one comes free.
    [[nodiscard]] std::optional<std::uint64_t> take(Waiter& waiter) noexcept {
        const std::lock_guard guard(mutex_);
        if (busy_[next_ % busy_.size()]) {
            waiter.next = nullptr;
            (first_ == nullptr ? first_ : last_->next) = &waiter;
            last_ = &waiter;
            return std::nullopt;
        }
        busy_[next_ % busy_.size()] = true;
        return next_++;
    }
    void put(std::uint64_t sequence) noexcept {
        Waiter* woken = nullptr;
        {
            const std::lock_guard guard(mutex_);
            busy_[sequence % busy_.size()] = false;
            if (first_ == nullptr || busy_[next_ % busy_.size()]) return;
            // All of them: those that come too late this time wait again.
            woken = first_;
            first_ = last_ = nullptr;
        }
        while (woken != nullptr) {
            Waiter* const next = woken->next;
            woken->granted(*woken);
            woken = next;
        }
    }
    /// Numbers go on from here. Nothing is in use.
    void start_at(std::uint64_t sequence) noexcept {
        const std::lock_guard guard(mutex_);
        next_ = sequence;
    }

  private:
    std::mutex mutex_;
    std::vector<bool> busy_;
    std::uint64_t next_ = 1;
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;
};

}  // namespace mqblk::driver::raid
