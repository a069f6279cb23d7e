// SPDX-License-Identifier: Apache-2.0
//
// Worker: what one reactor holds for all target queues that live in it: a channel to each namespace it has used. Only
// its reactor's thread touches it, so a command finds its namespace and its channel without a lock or an atomic
// read-modify-write: one look into the subsystem's XArray, one into the worker's table. Namespaces leave by a task that
// is posted to every worker.
#pragma once

#include "device/nvme/check_buffers.h"
#include "device/nvme/namespace.h"
#include "device/nvme/target_queue.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace mqblk {
class Reactor;
}

namespace mqblk::device::nvme {

class Subsystem;
class Worker;

/// One namespace as one reactor sees it.
struct alignas(64) NamespaceChannel {
    // The hot line.
    Namespace* ns = nullptr;
    std::unique_ptr<Channel> channel;  ///< null once closed
    Worker* worker = nullptr;
    std::uint32_t holders = 0;      ///< commands that were planned and have not ended
    std::uint32_t busy = 0;         ///< commands in execution, and loans of media memory
    std::uint32_t writes = 0;       ///< those of them that change the media
    bool active = false;            ///< in the worker's list of channels to poll
    bool closing = false;           ///< the namespace was removed
    bool close_posted = false;      ///< a task will close it if it is not busy then
    std::uint32_t hold_writes = 0;  ///< not 0: a fused pair runs, nothing may change the media

    IoCounters counters;

    // Rarely used.
    TargetCommand* held_first = nullptr;  ///< commands that wait for hold_writes to end
    TargetCommand** held_last = &held_first;
    std::shared_ptr<void> drained;  ///< given up when `writes` is zero, for the fused pair that waits for it
    std::shared_ptr<void> closed;   ///< given up when the channel is closed, for who removes the namespace
    std::shared_ptr<Namespace> keep;
    std::shared_ptr<char> alive = std::make_shared<char>();  ///< tasks posted to it look whether it is there still
};

class Worker : public std::enable_shared_from_this<Worker> {
  public:
    explicit Worker(Reactor&);
    ~Worker();  ///< on the reactor's thread, with nothing outstanding
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }

    /// The channel to namespace `nsid`, opened now if this is its first use here. Null: `status` says why.
    [[nodiscard]] NamespaceChannel* find(const Subsystem&, std::uint32_t nsid, std::uint16_t& status) noexcept;

    /// A command begins to use the channel, or media memory is lent to it, until finish().
    void start(NamespaceChannel&, bool changes_media) noexcept;
    void finish(NamespaceChannel&, bool changes_media) noexcept;
    /// Starts `command.bio` on its channel. Between start() and finish().
    void submit(TargetCommand& command) noexcept;
    /// A planned command has ended.
    void release(NamespaceChannel&) noexcept;

    /// One pass over the channels that have bios outstanding. Returns bios completed.
    unsigned poll() noexcept;
    /// Waits until at least one bio of one channel has ended; false if none is outstanding.
    bool wait() noexcept;

    /// Ends what waits before a backend and was cancelled.
    void drop_given_up() noexcept;

    /// The namespace in `slot` was removed: closes its channel as soon as nothing is outstanding, then gives up
    /// `closed`. Commands that were planned and are executed later end with an invalid namespace.
    void close(std::uint32_t slot, std::shared_ptr<void> closed) noexcept;

    /// For commands that read without sending (Compare, Verify).
    [[nodiscard]] CheckBuffers& checks() noexcept { return checks_; }

  private:
    NamespaceChannel* open(std::shared_ptr<Namespace>, std::uint16_t& status) noexcept;
    void close_if_idle(NamespaceChannel&) noexcept;
    void forget(NamespaceChannel&) noexcept;

    Reactor& reactor_;
    std::vector<NamespaceChannel*> channels_;  // by Namespace::slot; owned
    std::vector<NamespaceChannel*> active_;
    std::vector<NamespaceChannel*> closing_;  // out of the table, not yet deleted; owned
    CheckBuffers checks_;
};

}  // namespace mqblk::device::nvme
