// SPDX-License-Identifier: Apache-2.0
//
// Lane: one thread's way into one hardware queue, for all channels that the thread has on that driver's disks. It is
// what the thread's reactor polls: it turns the hardware queue, offers what waits, delivers what has ended. A queue of
// its own is used without a lock. On a shared queue the lane takes the queue's lock, runs the reactor that the queue
// lives in, and gets bios that another thread saw the end of through `inbox_`. Completions run outside the lock.
#pragma once

#include "block/queue.h"

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

namespace mqblk::block {

class ChannelCore;

class Lane final : public Poller {
  public:
    Lane(QueueSet&, Queue&, Reactor&);
    ~Lane();  ///< it has no channels

    // The lane's thread.

    /// One pass. With `only`, completions of no other channel run. Returns how many bios were completed.
    unsigned pass(ChannelCore* only) noexcept;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;

    [[nodiscard]] Queue& queue() noexcept { return queue_; }
    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] bool passing() const noexcept { return passing_; }
    /// Time of this pass, read once; outside a pass, now.
    [[nodiscard]] Time now() noexcept {
        if (!passing_) return reactor_.now();
        if (pass_time_ == Time{}) pass_time_ = reactor_.now();
        return pass_time_;
    }

    /// A bio was submitted: it will be polled for.
    void began() noexcept {
        ++outstanding_;
        if (!polled_) start_polling();
    }
    void ended(unsigned bios) noexcept { outstanding_ -= bios; }
    void start_polling() noexcept;

    void add(ChannelCore&);
    /// Ends what the channel has outstanding, with `aborted`, waits for it, and takes it out.
    void remove(ChannelCore&) noexcept;
    [[nodiscard]] bool empty() const noexcept { return channels_.empty(); }

    /// The channel has completed bios to deliver.
    void ready(ChannelCore&) noexcept;
    /// The channel holds plugged bios; the end of a pass sends them.
    void plugged(ChannelCore&) noexcept;
    void unplugged(ChannelCore&) noexcept;

    // Any thread.

    /// A bio of one of the lane's channels has ended on another thread.
    void deliver_from_afar(Bio&) noexcept;
    void wake() noexcept { reactor_.wake(); }
    [[nodiscard]] bool on_this_thread() const noexcept { return std::this_thread::get_id() == thread_; }

  private:
    friend class Hold;
    friend class Queue;
    [[nodiscard]] bool runs_reactor() const noexcept { return watch_ != nullptr; }
    void turn_queue() noexcept;
    unsigned deliver(ChannelCore* only) noexcept;
    void cancel(ChannelCore&, Status) noexcept;
    void take_inbox() noexcept;
    void finish_pass() noexcept;
    void look_at_changes() noexcept;

    Queue& queue_;
    Reactor& reactor_;
    unsigned outstanding_ = 0;
    bool passing_ = false;
    bool polled_ = false;
    unsigned events_ = 0;  // of the hardware queue, this pass
    Time pass_time_{};
    Ring<struct ReadyTag> ready_;
    Ring<struct PluggedTag> plugged_;
    std::uint32_t epoch_;
    QueueSet& set_;
    std::vector<ChannelCore*> channels_;
    const std::thread::id thread_;
    std::atomic<Bio*> inbox_{nullptr};
    std::unique_ptr<Watch> watch_;       // on the reactor of a shared queue
    std::optional<Timer> shared_timer_;  // for that reactor's next deadline
};

/// Holds a shared queue for its scope; does nothing for one that is the thread's own.
class Hold {
  public:
    enum class How : bool { wait, attempt };
    explicit Hold(Lane& lane, How how = How::wait) noexcept : queue_(lane.queue()) {
        if (!queue_.shared_) [[likely]]
            return;
        take(lane, how);
    }
    ~Hold() {
        if (queue_.shared_) [[unlikely]]
            give_back();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    [[nodiscard]] bool held() const noexcept { return held_; }

  private:
    void take(Lane&, How) noexcept;
    void give_back() noexcept;
    Queue& queue_;
    bool held_ = true;
};

}  // namespace mqblk::block
