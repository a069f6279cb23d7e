// SPDX-License-Identifier: Apache-2.0
//
// ChannelCore: the software queue of one device on one thread: what was submitted and waits (flushes, a bio being cut,
// the scheduler's), the plug, and what has ended and is to be delivered. Belongs to its lane's thread; on a shared
// queue what waits is under the queue's lock, what has ended is the thread's alone.
#pragma once

#include "block/bio_list.h"
#include "block/deadline.h"
#include "block/device_core.h"
#include "block/flush.h"
#include "block/lane.h"
#include "block/queue.h"
#include "block/scheduler.h"
#include "block/statistics.h"
#include "block/zero_pages.h"

#include <array>
#include <atomic>
#include <memory>

namespace mqblk::block {

class ChannelCore : public RingLink<WaitingTag>, public RingLink<ReadyTag>, public RingLink<PluggedTag> {
  public:
    /// `own`: the reactor, if it exists for this channel alone.
    ChannelCore(std::shared_ptr<DeviceCore>, Lane&, std::shared_ptr<void> own);
    ~ChannelCore();
    ChannelCore(const ChannelCore&) = delete;
    ChannelCore& operator=(const ChannelCore&) = delete;

    // The channel's thread: see mqblk::Channel.
    void submit(Bio&) noexcept;
    void cancel(Bio&) noexcept;
    void drop_cancelled() noexcept;
    void plug() noexcept;
    void unplug() noexcept;
    unsigned poll() noexcept;
    unsigned wait() noexcept;
    [[nodiscard]] unsigned outstanding() const noexcept { return outstanding_.load(std::memory_order_relaxed); }

    [[nodiscard]] Lane& lane() noexcept { return lane_; }
    [[nodiscard]] DeviceCore& device() noexcept { return *device_; }
    [[nodiscard]] const ChannelCounters& counters() const noexcept { return *counters_; }
    /// False: the system had no memory for it.
    [[nodiscard]] bool usable() const noexcept { return counters_ != nullptr; }

  private:
    friend class Lane;
    friend class Queue;
    static constexpr unsigned max_plugged = 32;
    static constexpr std::uint64_t max_plugged_sectors = 256;

    // Submission (channel_core.cpp).
    void begin(Bio&) noexcept;
    [[nodiscard]] bool plain(const Bio&) const noexcept;
    [[nodiscard]] bool send_at_once(Bio&) noexcept;
    void begin_other(Bio&) noexcept;
    void hold_back(Bio&) noexcept;
    void flush_plug() noexcept;
    void enqueue(Bio& group) noexcept;
    void schedule(Bio& group, std::int64_t now_ns) noexcept;
    void run_waiting() noexcept;
    void refresh() noexcept;

    // What waits (waiting.cpp).
    [[nodiscard]] bool has_waiting() const noexcept {
        return !fifo_.empty() || (flushes_.pending() && flushes_.wanted(queue_.now())) ||
               (deadline_ != nullptr && deadline_->ready(queue_.now().time_since_epoch().count()));
    }
    [[nodiscard]] bool may_issue() const noexcept {
        return (deadline_ == nullptr ? in_flight_ : deadline_->in_flight()) < nr_requests_;
    }
    /// Makes `request` the next thing that waits; false if nothing does. With a scheduler that several channels use it
    /// may be another's, whose request it then is.
    [[nodiscard]] bool fill_next(Request&) noexcept;
    void fill_flush(Request&) noexcept;
    [[nodiscard]] Bio* take_next() noexcept;
    [[nodiscard]] bool fill_group(Request&, Bio& first) noexcept;
    [[nodiscard]] static bool given_up(const Bio& first) noexcept;
    void end_given_up(Bio& first) noexcept;
    void take_over(Request&) noexcept;
    /// Whatever of this channel waits in a line, and is now in none; null: nothing more.
    [[nodiscard]] Bio* withdraw() noexcept {
        Bio* const group = fifo_.take();
        return group != nullptr || deadline_ == nullptr ? group : deadline_->take_of(*this);
    }
    void use_scheduler(const Settings&) noexcept;
    /// The piece of `first` that comes next, or all of a group.
    void fill(Request& request, Bio& first, std::uint64_t sectors, std::uint32_t segments, Time now) noexcept {
        const Bio::Progress& progress = first.progress;
        request.op = first.op;
        request.flags = first.flags & bio_unmap;
        if ((first.flags & bio_fua) != 0 && limits_.write_cache && limits_.fua) [[unlikely]]
            request.flags |= bio_fua;
        request.sector = first.sector + progress.issued;
        request.sectors = sectors;
        request.data = {&first, progress.segment, progress.segment_offset};
        request.segments = segments;
        request.retries = 0;
        request.priority = first.priority;
        request.bios_ = &first;
        request.last_bio_ = progress.last;
        request.device_ = device_hot_;
        request.max_segment_size_ = max_piece_;
        request.seg_boundary_mask_ = boundary_mask_;
        request.started = now;
        request.deadline = now + timeout_;
    }
    [[nodiscard]] bool fill_piece(Request&, Bio&) noexcept;
    void cancel_waiting(Status) noexcept;

    // Ends.
    void end_pieces(Request&, Status) noexcept;
    void end_flush(Status) noexcept;
    void end_piece(Bio& bio, Status status) noexcept {
        if (status != Status::ok && bio.status == Status::ok) [[unlikely]]
            fail(bio, status);
        if (--bio.progress.pieces == 0) end_data(bio);
    }
    void fail(Bio&, Status) noexcept;
    void end_data(Bio& bio) noexcept {
        if (bio.progress.stage != static_cast<std::uint8_t>(Stage::plain)) [[unlikely]] {
            end_data_stage(bio);
            return;
        }
        end(bio);
    }
    void end_data_stage(Bio&) noexcept;
    void end(Bio& bio) noexcept {
        if (queue_.active_ != &lane_) [[unlikely]] {
            lane_.deliver_from_afar(bio);
            return;
        }
        push_completed(bio);
    }
    void push_completed(Bio& bio) noexcept {
        if (completed_.empty()) lane_.ready(*this);
        completed_.push_back(bio);
    }
    unsigned deliver() noexcept;

    // Touched for every I/O.
    Queue& queue_;
    Lane& lane_;
    DeviceCore* const device_hot_;  // device_
    ZeroPages pages_;
    ChannelCounters* const counters_;
    std::uint32_t version_ = 0;
    std::atomic<std::uint32_t> outstanding_{0};
    std::uint32_t in_flight_ = 0;  // requests
    std::uint32_t nr_requests_ = 0;
    std::uint64_t sectors_ = 0;
    std::uint64_t plain_sectors_ = 0;  // bios up to this, of one piece of memory, need no look at limits; 0: all do
    std::uint64_t plain_mask_ = 0;     // of sector and length in sectors
    std::uint64_t memory_mask_ = 0;    // of memory addresses
    std::uint64_t boundary_mask_ = ~0ull;
    std::size_t max_piece_ = ~0ull;
    Duration timeout_{};
    unsigned plugs_ = 0;
    bool direct_ = false;  // nothing stands between submit and the driver: no scheduler to go through
    bool read_only_ = false;
    bool iostats_ = true;
    bool closing_ = false;
    bool removed_ = false;
    bool removal_done_ = false;
    BioList completed_;
    unsigned delivered_ = 0;

    Fifo fifo_;  // what no scheduler orders, a bio being cut before all others
    FlushQueue flushes_;
    DeadlineScheduler* deadline_ = nullptr;                // null: none
    std::shared_ptr<DeadlineScheduler> shared_scheduler_;  // the queue's for this disk, once it was in use here
    Merges merges_ = Merges::all;
    unsigned plugged_count_ = 0;
    std::array<Bio*, max_plugged> plugged_{};  // groups, in order
    QueueLimits limits_;
    std::shared_ptr<void> own_;  // goes last: all else lives in it
    std::shared_ptr<DeviceCore> device_;
};

}  // namespace mqblk::block
