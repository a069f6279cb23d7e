// SPDX-License-Identifier: Apache-2.0
//
// Submission: the short way for what needs no look at limits, the other way for the rest, the plug; and delivery.
#include "block/channel_core.h"

#include "block/split.h"

#include <algorithm>
#include <limits>

namespace mqblk::block {

ChannelCore::ChannelCore(std::shared_ptr<DeviceCore> device, Lane& lane, std::shared_ptr<void> own)
    : queue_(lane.queue()),
      lane_(lane),
      device_hot_(device.get()),
      pages_(sizeof(ChannelCounters)),
      counters_(reinterpret_cast<ChannelCounters*>(pages_.data())),
      own_(std::move(own)),
      device_(std::move(device)) {
    {
        const Hold hold(lane_);
        refresh();
        lane_.add(*this);
    }
    device_->add(*this);
}

ChannelCore::~ChannelCore() {
    lane_.remove(*this);
    if (counters_ != nullptr) device_->take_out(*this);
    if (lane_.empty()) device_->set().close_lane(lane_);
}

/// Copies what the device and its settings say now. Under the queue's lock.
void ChannelCore::refresh() noexcept {
    const DeviceCore::View view = device_->view();
    version_ = view.version;
    limits_ = view.limits;
    sectors_ = view.sectors;
    read_only_ = view.read_only;
    removed_ = view.removed;
    timeout_ = view.settings.timeout;
    iostats_ = view.settings.iostats;
    merges_ = view.settings.merges;
    nr_requests_ = view.settings.nr_requests;
    use_scheduler(view.settings);
    max_piece_ = max_piece_bytes(limits_);
    boundary_mask_ = limits_.seg_boundary_mask;
    plain_mask_ = limits_.logical_block_size / sector_bytes - 1;
    memory_mask_ = limits_.dma_alignment;
    plain_sectors_ = std::min<std::uint64_t>(limits_.max_sectors, max_piece_ / sector_bytes);
    if (removed_ || closing_ || limits_.chunk_sectors != 0 || limits_.max_segments == 0) plain_sectors_ = 0;
    direct_ = plugs_ == 0 && deadline_ == nullptr;
}

void ChannelCore::use_scheduler(const Settings& settings) noexcept {
    DeadlineScheduler* next = nullptr;
    if (settings.scheduler == SchedulerKind::mq_deadline) {
        if (shared_scheduler_ == nullptr) shared_scheduler_ = queue_.scheduler_of(*device_);
        next = shared_scheduler_.get();
        next->tune(settings.deadline);
    }
    if (next == deadline_) return;
    // Those in the fifo stay before all others.
    Fifo moved;
    if (deadline_ != nullptr)
        while (Bio* const group = deadline_->take_of(*this)) moved.insert(*group, limits_, Merges::none);
    deadline_ = next;
    while (Bio* const group = moved.take()) schedule(*group, group->progress.queued_ns);
    queue_.waiting_.add(*this);
    queue_.run_again_ = true;
}

void ChannelCore::submit(Bio& bio) noexcept {
    const Hold hold(lane_);
    begin(bio);
}

/// A bio that has failed is not sent when its turn comes: see fill_group().
void ChannelCore::cancel(Bio& bio) noexcept {
    const Hold hold(lane_);
    if (bio.status == Status::ok) bio.status = Status::aborted;
}

void ChannelCore::begin(Bio& bio) noexcept {
    if (device_hot_->version() != version_) [[unlikely]]
        refresh();
    bio.status = Status::ok;
    Bio::Progress& progress = bio.progress;
    progress.next = nullptr;
    progress.issued = 0;
    progress.segment = 0;
    progress.pieces = 1;
    progress.segment_offset = 0;
    progress.queued_ns = lane_.now().time_since_epoch().count();
    progress.channel = this;
    progress.stage = 0;
    outstanding_.store(outstanding_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    lane_.began();
    if (plain(bio)) [[likely]] {
        if (send_at_once(bio)) [[likely]]
            return;
        if (plugs_ != 0) {
            hold_back(bio);
        } else {
            make_group(bio);
            enqueue(bio);
        }
        return;
    }
    begin_other(bio);
}

/// One piece of memory, within all limits, nothing to do before or after.
inline bool ChannelCore::plain(const Bio& bio) const noexcept {
    if (!carries_data(bio.op) || (bio.flags & (bio_fua | bio_preflush)) != 0 || bio.data.size() != 1) return false;
    if (bio.op == Op::write && read_only_) return false;
    const Segment& segment = bio.data[0];
    const auto from = reinterpret_cast<std::uintptr_t>(segment.data);
    return bio.sectors - 1 < plain_sectors_ && segment.bytes == bio.sectors * sector_bytes &&
           ((bio.sector | bio.sectors) & plain_mask_) == 0 && bio.sector <= sectors_ &&
           bio.sectors <= sectors_ - bio.sector && (from & memory_mask_) == 0 &&
           ((from ^ (from + segment.bytes - 1)) & ~boundary_mask_) == 0;
}

/// False: something stands before it, or no tag is free.
inline bool ChannelCore::send_at_once(Bio& bio) noexcept {
    if (!direct_ || queue_.congested() || has_waiting() || !may_issue()) [[unlikely]]
        return false;
    Request* request = nullptr;
    if (queue_.gate_.enter() == 0) [[likely]] {
        request = queue_.allocate(*this);
        if (request != nullptr) [[likely]] {
            bio.progress.last = &bio;
            fill(*request, bio, bio.sectors, 1, Time(Duration(bio.progress.queued_ns)));
            queue_.issue(*request, !lane_.passing());
        }
    }
    queue_.gate_.leave();
    return request != nullptr;
}

void ChannelCore::begin_other(Bio& bio) noexcept {
    make_group(bio);
    Status status = Status::ok;
    if (closing_ || removed_) {
        status = removed_ ? Status::removed : Status::aborted;
    } else {
        status = check(limits_, sectors_, read_only_, bio);
    }
    if (status != Status::ok) {
        fail(bio, status);
        end(bio);
        return;
    }
    const Stage stage = first_stage(limits_, bio);
    if (bio.op == Op::flush && stage == Stage::plain) {
        end(bio);
        return;
    }
    if (stage == Stage::preflush || stage == Stage::flush) {
        if (plugs_ != 0) flush_plug();  // what came before is not kept back behind it
        flushes_.add(bio, stage, Time(Duration(bio.progress.queued_ns)));
        queue_.waiting_.add(*this);
        if (!lane_.passing()) {
            queue_.run();
            queue_.commit();
        } else {
            queue_.run_again_ = true;
        }
        return;
    }
    if (stage == Stage::data_then_flush) {
        flushes_.begin_data(bio, stage);
        schedule(bio, bio.progress.queued_ns);
        run_waiting();
    } else if (plugs_ != 0) {
        hold_back(bio);
    } else {
        enqueue(bio);
    }
}

/// To the scheduler; and on, unless the end of the pass does that.
void ChannelCore::enqueue(Bio& group) noexcept {
    schedule(group, group.progress.queued_ns);
    run_waiting();
}

/// Data of a flush sequence go past the scheduler: a flush waits for them.
void ChannelCore::schedule(Bio& group, std::int64_t now_ns) noexcept {
    const unsigned which = static_cast<unsigned>(group_of(group.op));
    const bool in_order = deadline_ == nullptr || group.progress.stage != static_cast<std::uint8_t>(Stage::plain);
    const bool merged =
        in_order ? fifo_.insert(group, limits_, merges_) : deadline_->insert(group, limits_, merges_, now_ns);
    if (merged) counters_->groups[which].merges.add();
}

/// Sends what waits, unless the end of the pass does that.
void ChannelCore::run_waiting() noexcept {
    queue_.waiting_.add(*this);
    if (lane_.passing()) {
        queue_.run_again_ = true;
        return;
    }
    queue_.run();
    queue_.commit();
}

void ChannelCore::hold_back(Bio& bio) noexcept {
    make_group(bio);
    const unsigned which = static_cast<unsigned>(group_of(bio.op));
    if (plugged_count_ > 0 && merges_ != Merges::none) {
        Bio*& newest = plugged_[plugged_count_ - 1];
        if (grow_back(*newest, bio, limits_)) {
            counters_->groups[which].merges.add();
            return;
        }
        if (Bio* const first = grow_front(*newest, bio, limits_)) {
            newest = first;
            counters_->groups[which].merges.add();
            return;
        }
    }
    if (plugged_count_ == max_plugged || (plugged_count_ > 0 && merges_ != Merges::none &&
                                          group_sectors(*plugged_[plugged_count_ - 1]) >= max_plugged_sectors)) {
        flush_plug();
    }
    if (plugged_count_ == 0) lane_.plugged(*this);
    plugged_[plugged_count_++] = &bio;
}

/// Sends what the plug holds, in order, as one batch. Under the queue's lock.
void ChannelCore::flush_plug() noexcept {
    if (plugged_count_ == 0) return;
    const std::int64_t now_ns = lane_.now().time_since_epoch().count();
    for (unsigned i = 0; i < plugged_count_; ++i) schedule(*plugged_[i], now_ns);
    plugged_count_ = 0;
    lane_.unplugged(*this);
    run_waiting();
}

void ChannelCore::plug() noexcept {
    ++plugs_;
    direct_ = false;
}

void ChannelCore::unplug() noexcept {
    if (plugs_ == 0 || --plugs_ > 0) return;
    const Hold hold(lane_);
    direct_ = deadline_ == nullptr;
    flush_plug();
}

void ChannelCore::fail(Bio& bio, Status status) noexcept {
    // What a removed device says of its last requests is beside the point.
    bio.status = removed_ ? Status::removed : status;
}

unsigned ChannelCore::deliver() noexcept {
    const unsigned count = completed_.size();
    if (count == 0) return 0;
    const std::int64_t now_ns = lane_.now().time_since_epoch().count();
    for (unsigned i = 0; i < count && !completed_.empty(); ++i) {
        Bio& bio = completed_.pop_front();
        if (iostats_) [[likely]] {
            const auto which = static_cast<unsigned>(group_of(bio.op));
            const std::int64_t took = now_ns - bio.progress.queued_ns;
            counters_->latency[which].add(took > 0 ? static_cast<std::uint64_t>(took) : 0);
            if (bio.status == Status::ok) [[likely]] {
                counters_->groups[which].bytes.add(bio.sectors * sector_bytes);
            } else {
                counters_->groups[which].errors.add();
            }
        }
        outstanding_.store(outstanding_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
        lane_.ended(1);
        ++delivered_;
        bio.done(bio);
    }
    return count;
}

unsigned ChannelCore::poll() noexcept {
    const unsigned before = delivered_;
    lane_.pass(this);
    return delivered_ - before;
}

unsigned ChannelCore::wait() noexcept {
    const unsigned before = delivered_;
    lane_.pass(this);
    while (delivered_ == before && outstanding() != 0) lane_.reactor().run_once(Reactor::Sleep::yes);
    return delivered_ - before;
}

}  // namespace mqblk::block
