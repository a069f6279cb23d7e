// SPDX-License-Identifier: Apache-2.0
//
// Queue: the block layer's side of one hardware queue: its requests by tag, what waits for a tag or for the driver, and
// its timer wheel. QueueSet: the queues of one driver and the disks on them. A queue belongs to one reactor's thread;
// only the last of a set is ever shared, when more threads come than the driver has queues: then it lives in a reactor
// of its own under a lock that its channels take in turn.
#pragma once

#include "block/bio_list.h"
#include "block/driver.h"
#include "block/gate.h"
#include "block/tag_set.h"
#include "block/timer_wheel.h"
#include "block/zero_pages.h"
#include "reactor/reactor.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace mqblk::block {

class Lane;
class QueueSet;

class Queue {
  public:
    ~Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    // For the driver, on the queue's thread (or under its lock).

    /// Ends an outstanding request. Exactly once; the driver does not touch the request afterwards. May be called from
    /// within queue(), poll(), timeout() and cancel_all(). Never calls the driver back.
    void complete(Request&, Status) noexcept;

    /// The outstanding request with this tag, or null: no such tag, not in flight. A driver that carries the
    /// generation in its command identifier passes it and gets null for a stale one.
    [[nodiscard]] Request* find(std::uint32_t tag) noexcept {
        if (tag >= touched_) return nullptr;
        Request& request = at(tag);
        return request.state == RequestState::in_flight ? &request : nullptr;
    }
    [[nodiscard]] Request* find(std::uint32_t tag, std::uint16_t generation, std::uint16_t mask) noexcept {
        Request* const request = find(tag);
        return request != nullptr && ((request->generation ^ generation) & mask) == 0 ? request : nullptr;
    }

    /// The driver can take requests again: waiting ones are offered in the next pass of the queue's thread.
    void restart() noexcept;

    /// While set, the queue is polled and put to sleep even with nothing outstanding (asynchronous events, keep-alive,
    /// noticing that the peer has gone).
    void keep_polling(bool) noexcept;

    /// A request on a reserved tag for a command of the driver's own; null if all are in use. Not completed but freed;
    /// its state is in_flight meanwhile, so that find() knows it. It has no device and no time-out.
    [[nodiscard]] Request* allocate_reserved() noexcept;
    void free_reserved(Request&) noexcept;

    [[nodiscard]] unsigned index() const noexcept { return index_; }
    /// Requests the driver holds; the driver's own on reserved tags do not count. Any thread.
    [[nodiscard]] unsigned in_flight() const noexcept { return in_flight_.load(std::memory_order_relaxed); }
    [[nodiscard]] Reactor& reactor() noexcept { return *reactor_; }
    /// Every outstanding request but those on reserved tags, in tag order: fn(Request&). The function may complete the
    /// request it is given.
    template <class Fn>
    void for_each_in_flight(Fn&& fn) {
        for (std::uint32_t tag = 0; tag < touched_; ++tag) {
            Request& request = at(tag);
            if (request.state == RequestState::in_flight && request.channel_ != nullptr) fn(request);
        }
    }

  private:
    friend class ChannelCore;
    friend class Hold;
    friend class Lane;
    friend class QueueSet;

    Queue(QueueSet& set, unsigned index, TagSet& tags, const Driver::Shape& shape, std::shared_ptr<Reactor> shareable,
          Reactor& reactor);

    [[nodiscard]] Request& at(std::uint32_t tag) noexcept {
        return *reinterpret_cast<Request*>(requests_ + std::size_t{tag} * stride_);
    }
    [[nodiscard]] Time now() const noexcept;
    /// The scheduler mq-deadline of a disk on this queue. With the queue held.
    [[nodiscard]] std::shared_ptr<DeadlineScheduler> scheduler_of(const DeviceCore&);
    /// There is something to poll the driver for. Any thread.
    [[nodiscard]] bool holds_requests() const noexcept { return held_.load(std::memory_order_acquire) != 0; }

    // Dispatch (dispatch.cpp). All of it under enter()/leave() of the gate.
    [[nodiscard]] bool congested() const noexcept { return blocked_ || dispatch_head_ != nullptr || !waiting_.empty(); }
    Request* allocate(ChannelCore&) noexcept;
    void give_back(Request&) noexcept;
    Request* first_use(std::uint32_t tag) noexcept;
    void issue(Request&, bool last) noexcept;
    void run() noexcept;
    void offer_again() noexcept;
    void serve_waiting() noexcept;
    [[nodiscard]] bool wait_for_tag() noexcept;
    void commit() noexcept {
        if (!uncommitted_) return;
        uncommitted_ = false;
        hardware_->commit();
    }
    /// The request has ended: its bios, its place in the lists, its tag.
    void finish(Request&, Status) noexcept;
    /// The channel goes; others of its scheduler have their turn.
    void pass_turn_on(ChannelCore& leaving) noexcept;
    enum class Which : bool { all, given_up };
    void cancel_dispatch(const ChannelCore*, Status, Which) noexcept;
    static void tags_came_free(void* queue) noexcept;

    // Time-outs (queue.cpp).
    void start_timer(const Request&) noexcept;
    void expire() noexcept;

    // Touched for every I/O.
    HardwareQueue* hardware_ = nullptr;
    std::byte* requests_ = nullptr;
    std::size_t stride_;
    std::uint32_t touched_ = 0;  // tags below this have a constructed request, or zeroes
    std::atomic<std::uint32_t> in_flight_{0};
    std::atomic<std::uint32_t> held_{0};  // requests that exist: in flight, or refused as busy
    Lane* active_ = nullptr;              // whose thread runs the queue now; null: none (shared only)
    Request* dispatch_head_ = nullptr;    // have a tag, were refused as busy: offered first
    Request* dispatch_tail_ = nullptr;
    unsigned dispatch_count_ = 0;
    bool blocked_ = false;  // the driver is busy until a completion or restart()
    bool uncommitted_ = false;
    bool run_again_ = false;  // something may be issued that waits
    bool keep_polling_ = false;
    const bool shared_;
    Gate gate_;
    Ring<struct WaitingTag> waiting_;  // channels with something to issue, in turn
    Time timer_due_ = never;           // when the reactor's timer fires; never: not armed

    TagSet::User tags_;
    TimerWheel wheel_;

    // Touched now and then.
    std::atomic<bool> tag_ready_{false};  // set by whoever frees tags of a host-wide set
    bool waits_for_tag_ = false;
    const bool host_wide_;
    QueueSet& set_;
    const unsigned index_;
    std::mutex mutex_;                                                                        // of a shared queue
    std::vector<Lane*> lanes_;                                                                // under QueueSet's mutex
    std::vector<std::pair<const DeviceCore*, std::weak_ptr<DeadlineScheduler>>> schedulers_;  // with the queue held
    std::shared_ptr<Reactor> shareable_;
    Reactor* reactor_;
    ZeroPages pages_;
    Timer timer_;
    std::unique_ptr<HardwareQueue> owned_hardware_;
};

class QueueSet : public std::enable_shared_from_this<QueueSet> {
  public:
    /// Takes the driver; it lives until the last device and channel are gone.
    [[nodiscard]] static std::shared_ptr<QueueSet> create(std::shared_ptr<Driver> driver);
    ~QueueSet();
    QueueSet(const QueueSet&) = delete;
    QueueSet& operator=(const QueueSet&) = delete;

    [[nodiscard]] std::shared_ptr<Device> add_disk(Disk disk);

    /// No HardwareQueue::queue call is running when it returns, and none starts until unquiesce(). Nests. Any thread,
    /// but not from within HardwareQueue::queue.
    void quiesce() noexcept;
    void unquiesce() noexcept;
    /// No request exists when it returns ok, and new bios wait. `timed_out` when requests did not end by then; the set
    /// is then as before. The owning threads must be turning their loops, or be the caller. Nests.
    [[nodiscard]] Result<> freeze(Duration bound);
    void unfreeze() noexcept;

    // For the block layer itself.

    [[nodiscard]] Driver& driver() noexcept { return *driver_; }
    [[nodiscard]] const Driver::Shape& shape() const noexcept { return shape_; }
    /// The calling thread's way into the set: the one it has, or a queue of its own while there are any, or the last
    /// queue together with others. The lane stays while it has channels.
    [[nodiscard]] Result<Lane*> lane(Reactor&);
    /// The lane's last channel is gone. On the lane's thread.
    void close_lane(Lane&) noexcept;
    /// Grows when lanes must look at their channels and queues again (a device was removed or changed, a gate opened).
    [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
    void announce() noexcept;  ///< grows the epoch and wakes every lane
    void device_added() noexcept { live_devices_.fetch_add(1); }
    void device_gone() noexcept { live_devices_.fetch_sub(1); }
    [[nodiscard]] unsigned live_devices() const noexcept { return live_devices_.load(); }

  private:
    explicit QueueSet(std::shared_ptr<Driver> driver);
    [[nodiscard]] Result<Lane*> open(unsigned index, Reactor&);
    void close_gates(Gate::Reason) noexcept;
    void open_gates(Gate::Reason) noexcept;
    [[nodiscard]] bool drained() noexcept;

    std::shared_ptr<Driver> driver_;
    const Driver::Shape shape_;
    std::atomic<std::uint32_t> epoch_{0};
    std::atomic<std::uint32_t> live_devices_{0};
    std::recursive_mutex mutex_;  // everything below; open_queue may call back; never taken on the I/O path
    std::unique_ptr<TagSet> host_tags_;
    std::vector<std::unique_ptr<TagSet>> tags_;   // by queue index, kept when a queue closes
    std::vector<std::unique_ptr<Queue>> queues_;  // by index; null: not open
    std::vector<std::unique_ptr<Lane>> lanes_;
    unsigned quiesced_ = 0;
    unsigned frozen_ = 0;
};

/// For drivers whose disk changes: size, limits or write protection. Devices see on_change. Any thread.
void update_disk(Device&, const QueueLimits&, std::uint64_t sectors, bool read_only);

/// What a stacked user may ask of a device besides I/O.
[[nodiscard]] DirectAccess* direct_access(Device&) noexcept;
/// Disk::reads_nothing.
[[nodiscard]] bool reads_nothing(Device&) noexcept;
[[nodiscard]] const Disk& disk_of(DeviceCore&) noexcept;

}  // namespace mqblk::block
