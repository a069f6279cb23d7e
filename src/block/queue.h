// SPDX-License-Identifier: Apache-2.0
//
// Queue: the block layer's side of one hardware queue: its requests by tag, what waits for a tag or for the driver, and
// its timer wheel. QueueSet: the queues of one driver and the disks on them. A queue belongs to one reactor's thread;
// only the last of a set is ever shared, when more threads come than the driver has queues: then it lives in a reactor
// of its own under a lock that its channels take in turn.
#pragma once

#include "block/driver.h"
#include "block/tag_set.h"

#include <memory>

namespace mqblk::block {

class Queue {
  public:
    ~Queue();

    // For the driver, on the queue's thread (or under its lock).

    /// Ends an outstanding request. Exactly once; the driver does not touch the request afterwards. May be called from
    /// within queue(), poll(), timeout() and cancel_all().
    void complete(Request&, Status) noexcept;

    /// The outstanding request with this tag, or null: no such tag, not in flight. A driver that carries the
    /// generation in its command identifier passes it and gets null for a stale one.
    [[nodiscard]] Request* find(std::uint32_t tag) noexcept;
    [[nodiscard]] Request* find(std::uint32_t tag, std::uint16_t generation, std::uint16_t mask) noexcept;

    /// The driver can take requests again: waiting ones are offered now.
    void restart() noexcept;

    /// While set, the queue is polled and put to sleep even with nothing outstanding (asynchronous events, keep-alive,
    /// noticing that the peer has gone).
    void keep_polling(bool) noexcept;

    /// A request on a reserved tag for a command of the driver's own; null if all are in use. Not completed but freed.
    [[nodiscard]] Request* allocate_reserved() noexcept;
    void free_reserved(Request&) noexcept;

    [[nodiscard]] unsigned index() const noexcept;
    [[nodiscard]] unsigned in_flight() const noexcept;
    [[nodiscard]] Reactor& reactor() noexcept;
    /// Every outstanding request, in tag order: fn(Request&). The function may complete the request it is given.
    template <class Fn>
    void for_each_in_flight(Fn&& fn);
};

class QueueSet : public std::enable_shared_from_this<QueueSet> {
  public:
    /// Takes the driver; it lives until the last device and channel are gone.
    [[nodiscard]] static std::shared_ptr<QueueSet> create(std::shared_ptr<Driver> driver);

    [[nodiscard]] std::shared_ptr<Device> add_disk(Disk disk);

    /// No HardwareQueue::queue call is running when it returns, and none starts until unquiesce(). Any thread.
    void quiesce() noexcept;
    void unquiesce() noexcept;
    /// No request exists when it returns ok, and new bios wait. `timed_out` when requests did not end by then; the set
    /// is then as before. The owning threads must be turning their loops, or be the caller.
    [[nodiscard]] Result<> freeze(Duration bound);
    void unfreeze() noexcept;
};

/// For drivers whose disk changes: size, limits or write protection. Devices see on_change. Any thread.
void update_disk(Device&, const QueueLimits&, std::uint64_t sectors, bool read_only);

/// What a stacked user may ask of a device besides I/O.
[[nodiscard]] DirectAccess* direct_access(Device&) noexcept;
[[nodiscard]] const Disk& disk_of(DeviceCore&) noexcept;

}  // namespace mqblk::block
