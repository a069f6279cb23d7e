// SPDX-License-Identifier: Apache-2.0
//
// The armed timers of one reactor: a binary heap in which each timer knows its place, so that moving or cancelling one
// of thousands costs O(log n). Timers of equal deadline expire in the order in which they were armed.
#pragma once

#include "reactor/reactor.h"

#include <cstdint>
#include <vector>

namespace mqblk {

class TimerHeap {
  public:
    ~TimerHeap() {
        for (const Entry& entry : heap_) entry.timer->reactor_ = nullptr;
    }

    [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
    [[nodiscard]] Time earliest() const noexcept { return heap_.empty() ? never : heap_.front().deadline; }

    void arm(Timer& timer, Reactor& reactor, Time deadline) {
        if (timer.reactor_ == nullptr) {
            timer.position_ = heap_.size();
            heap_.push_back({deadline, 0, &timer});
            timer.reactor_ = &reactor;
        }
        timer.deadline_ = deadline;
        heap_[timer.position_] = {deadline, next_sequence_++, &timer};
        settle(timer.position_);
    }

    void cancel(Timer& timer) noexcept {
        const std::size_t hole = timer.position_;
        timer.reactor_ = nullptr;
        const Entry last = heap_.back();
        heap_.pop_back();
        if (hole == heap_.size()) return;
        place(hole, last);
        settle(hole);
    }

    /// Runs what is due at `now`, but not what the callbacks arm meanwhile: a timer that re-arms itself at once must
    /// not keep the reactor from everything else.
    unsigned run(Time now) noexcept {
        const std::uint64_t newer = next_sequence_;
        unsigned count = 0;
        while (!heap_.empty() && heap_.front().deadline <= now && heap_.front().sequence < newer) {
            Timer& timer = *heap_.front().timer;
            cancel(timer);
            const auto expired = timer.expired_;  // a copy: the callback may destroy the timer
            expired();
            ++count;
        }
        return count;
    }

  private:
    struct Entry {
        Time deadline;
        std::uint64_t sequence;
        Timer* timer;
        bool operator<(const Entry& other) const noexcept {
            return deadline != other.deadline ? deadline < other.deadline : sequence < other.sequence;
        }
    };

    void place(std::size_t position, const Entry& entry) noexcept {
        heap_[position] = entry;
        entry.timer->position_ = position;
    }

    void settle(std::size_t position) noexcept {
        const Entry entry = heap_[position];
        for (; position > 0 && entry < heap_[(position - 1) / 2]; position = (position - 1) / 2) {
            place(position, heap_[(position - 1) / 2]);
        }
        for (std::size_t child = 2 * position + 1; child < heap_.size(); child = 2 * position + 1) {
            if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
            if (!(heap_[child] < entry)) break;
            place(position, heap_[child]);
            position = child;
        }
        place(position, entry);
    }

    std::vector<Entry> heap_;
    std::uint64_t next_sequence_ = 0;
};

}  // namespace mqblk
