// SPDX-License-Identifier: Apache-2.0
//
// The seam below the block layer. A Driver is one controller: it opens hardware queues, which all of its disks share. A
// Disk is one disk behind it (a namespace, a LUN, a volume). The block layer owns tags, requests, waiting, splitting,
// time-outs and statistics; a driver owns none of these and keeps what it needs per command in the request's payload.
#pragma once

#include "base/clock.h"
#include "block/request.h"

#include <mqblk/device.h>
#include <mqblk/error.h>
#include <mqblk/limits.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mqblk {
class Reactor;
}

namespace mqblk::block {

class DirectAccess;
class Queue;
class TagSet;

/// What HardwareQueue::queue did with a request.
enum class Issue : std::uint8_t {
    accepted,  ///< in flight; the driver will end it with Queue::complete
    done,      ///< carried out already; request.status says how it ended; the driver forgets it at once
    busy,      ///< nothing was sent; the block layer offers it again after the next completion or Queue::restart
};

/// What HardwareQueue::timeout did with a late request.
enum class Expired : std::uint8_t {
    ended,   ///< the driver ended it, or will within a bound of its own (abort sent, reset begun)
    extend,  ///< give it its whole time again
};

/// One submission and completion path. All calls come from the thread that owns the queue or, for a queue shared by
/// several channels, under the queue's lock. None may block.
class HardwareQueue {
  public:
    virtual ~HardwareQueue() = default;  ///< no request is outstanding

    /// Called once for each request before its first use: construct the payload.
    virtual void prepare(Request&) {}

    /// Starts `request`. `last`: no other follows at once, ring now; else commit() will come.
    virtual Issue queue(Request& request, bool last) noexcept = 0;
    /// Makes visible what queue() was told not to ring for.
    virtual void commit() noexcept {}
    /// Looks for completions and ends them with Queue::complete. Returns how many.
    virtual unsigned poll() noexcept = 0;
    /// The thread is about to sleep: see Poller::prepare_sleep. Only called while requests are outstanding or the
    /// driver asked to be polled.
    virtual bool prepare_sleep() noexcept = 0;
    virtual Expired timeout(Request&) noexcept = 0;
    /// Ends every outstanding request with `status`, soon if not now: the channel or the device goes away.
    virtual void cancel_all(Status status) noexcept = 0;
};

class Driver {
  public:
    /// Constant for the driver's life.
    struct Shape {
        unsigned max_queues = 1;        ///< 1 or more hardware queues
        unsigned depth = 128;           ///< tags per hardware queue, or in all if host_wide_tags; reserved ones count
        unsigned reserved = 0;          ///< tags kept for the driver's own commands
        std::size_t payload_bytes = 0;  ///< behind each request
        bool host_wide_tags = false;    ///< one tag space for all hardware queues
        Duration timeout = std::chrono::seconds(30);
    };

    virtual ~Driver() = default;
    [[nodiscard]] virtual const Shape& shape() const noexcept = 0;

    /// The reactor that the last, shared queue lives in, where the device lives in one already (a card and its
    /// interrupts): one that may be shared, as of Reactor::shareable(). Null: one is made.
    [[nodiscard]] virtual std::shared_ptr<Reactor> home() noexcept { return nullptr; }

    /// Opens hardware queue `index` in `reactor`, from the thread that will use it. Must not wait for a peer: a queue
    /// that is still connecting answers `busy` and calls Queue::restart when it is live.
    [[nodiscard]] virtual Result<std::unique_ptr<HardwareQueue>> open_queue(unsigned index, Queue& queue,
                                                                            Reactor& reactor) = 0;
};

/// One disk as its driver describes it.
struct Disk {
    QueueLimits limits;
    std::uint64_t sectors = 0;
    bool read_only = false;
    Identity identity;
    std::uint64_t unit = 0;          ///< the driver's name for it: namespace id, LUN, target id
    void* driver_data = nullptr;     ///< the driver's, as is
    DirectAccess* direct = nullptr;  ///< where the media is memory that may be lent
    bool reads_nothing = false;      ///< a read leaves memory as it was: clear what is handed on to others
    std::vector<std::pair<std::string, std::string>> details;  ///< what `mqblk info` prints besides, in order
};

/// Optional: a driver whose media is memory may let others use that memory in place, saving a copy. Any thread.
class DirectAccess {
  public:
    virtual ~DirectAccess() = default;
    /// Memory of `sectors` from `sector` on, contiguous, valid while the device is open: to read from, or, for_write,
    /// to fill, which is the write (the null disk lends zeroes to read and nothing to fill). {nullptr, 0} where the
    /// range is out of bounds or cannot be lent.
    [[nodiscard]] virtual Segment map(std::uint64_t sector, std::uint64_t sectors, bool for_write) noexcept = 0;
};

}  // namespace mqblk::block
