// SPDX-License-Identifier: Apache-2.0
//
// What waits in a channel becomes requests: flushes first, then the bio that is being cut, then what the scheduler
// chooses; and requests become ends of bios. Everything here is under the queue's lock where it is shared.
#include "block/channel_core.h"

#include "block/split.h"

namespace mqblk::block {

bool ChannelCore::fill_next(Request& request) noexcept {
    if (flushes_.pending() && flushes_.wanted(queue_.now())) {
        fill_flush(request);
        return true;
    }
    while (Bio* const first = take_next()) {
        ChannelCore& owner = *first->progress.channel;
        owner.take_over(request);
        if (owner.fill_group(request, *first)) return true;
    }
    return false;
}

void ChannelCore::fill_flush(Request& request) noexcept {
    flushes_.begin();
    request.op = Op::flush;
    request.flags = 0;
    request.sector = 0;
    request.sectors = 0;
    request.data = {};
    request.segments = 0;
    request.retries = 0;
    request.priority = Priority::best_effort;
    request.bios_ = request.last_bio_ = nullptr;
    request.device_ = device_hot_;
    request.started = queue_.now();
    request.deadline = request.started + timeout_;
}

Bio* ChannelCore::take_next() noexcept {
    Bio* const first = fifo_.take();
    if (first != nullptr || deadline_ == nullptr) return first;
    return deadline_->take(queue_.now().time_since_epoch().count());
}

/// The request, allocated for a channel of this disk and queue, is this channel's.
void ChannelCore::take_over(Request& request) noexcept {
    if (request.channel_ == this) return;
    --request.channel_->in_flight_;
    ++in_flight_;
    request.channel_ = this;
}

/// Nobody wants any bio of the group.
bool ChannelCore::given_up(const Bio& first) noexcept {
    for (const Bio* bio = &first; bio->status != Status::ok; bio = bio->progress.next)
        if (bio == first.progress.last) return true;
    return false;
}

void ChannelCore::end_given_up(Bio& first) noexcept {
    const Bio* const last = first.progress.last;
    for (Bio* bio = &first;;) {
        const bool more = bio != last;
        Bio* const next = bio->progress.next;
        end_piece(*bio, bio->status);
        if (!more) return;
        bio = next;
    }
}

/// All of a group, or the next piece of a bio; false if there is nothing to send, and it has been ended for that.
bool ChannelCore::fill_group(Request& request, Bio& bio) noexcept {
    Bio::Progress& progress = bio.progress;
    if (progress.last != &bio) {
        if (given_up(bio)) [[unlikely]] {
            end_given_up(bio);
            return false;
        }
        fill(request, bio, group_sectors(bio), progress.segments, queue_.now());
    } else {
        const Cut cut = next_cut(limits_, bio);
        if (cut.sectors == 0 || bio.status != Status::ok) {
            // Nothing more is sent of a bio that has failed already.
            end_piece(bio, cut.sectors == 0 && bio.status == Status::ok ? cut.status : bio.status);
            return false;
        }
        fill(request, bio, cut.sectors, cut.segments, queue_.now());
        if (progress.issued != 0 || cut.sectors != bio.sectors) counters_->splits.add();
        if (progress.issued + cut.sectors != bio.sectors) {
            ++progress.pieces;
            advance(bio, cut.sectors);
            fifo_.put_back(bio);
            queue_.waiting_.add(*this);
        }
    }
    if (deadline_ != nullptr) {
        request.scheduler_ = deadline_;
        deadline_->began(request.priority);
    }
    return true;
}

void ChannelCore::end_pieces(Request& request, Status status) noexcept {
    Bio* bio = request.bios_;
    if (bio == nullptr) [[unlikely]] {
        end_flush(status);
        return;
    }
    Bio* const last = request.last_bio_;
    while (bio != last) [[unlikely]] {
        Bio* const next = bio->progress.next;
        end_piece(*bio, status);
        bio = next;
    }
    end_piece(*bio, status);
}

void ChannelCore::end_flush(Status status) noexcept {
    BioList waited = flushes_.end();
    while (!waited.empty()) {
        Bio& bio = waited.pop_front();
        if (status != Status::ok) fail(bio, status);
        if (status != Status::ok || bio.progress.stage != static_cast<std::uint8_t>(Stage::preflush)) {
            end(bio);
            continue;
        }
        // Its data go now; this runs inside the driver, so the queue's next run sends them.
        flushes_.begin_data(bio, flush_follows(limits_, bio) ? Stage::data_then_flush : Stage::data);
        make_group(bio);
        schedule(bio, bio.progress.queued_ns);
        queue_.waiting_.add(*this);
        queue_.run_again_ = true;
    }
}

/// The data of a sequence have ended; a flush that waited for that may go now.
void ChannelCore::end_data_stage(Bio& bio) noexcept {
    flushes_.end_data();
    queue_.waiting_.add(*this);
    queue_.run_again_ = true;
    if (bio.progress.stage == static_cast<std::uint8_t>(Stage::data_then_flush) && bio.status == Status::ok) {
        flushes_.add(bio, Stage::flush, queue_.now());
    } else {
        end(bio);
    }
}

/// Ends what waits, or was refused as busy, and is wanted by nobody.
void ChannelCore::drop_cancelled() noexcept {
    const Hold hold(lane_);
    BioList flushes = flushes_.cancel();
    while (!flushes.empty()) {
        Bio& bio = flushes.pop_front();
        if (bio.status != Status::ok) {
            end(bio);
        } else {
            flushes_.add(bio, static_cast<Stage>(bio.progress.stage), Time(Duration(bio.progress.queued_ns)));
        }
    }
    Fifo wanted;
    while (Bio* const group = fifo_.take()) {
        if (given_up(*group)) {
            end_given_up(*group);
        } else {
            static_cast<void>(wanted.insert(*group, limits_, Merges::none));
        }
    }
    fifo_ = wanted;
    if (deadline_ != nullptr) {
        Fifo sorted;
        while (Bio* const group = deadline_->take_of(*this)) {
            if (given_up(*group)) {
                end_given_up(*group);
            } else {
                static_cast<void>(sorted.insert(*group, limits_, Merges::none));
            }
        }
        while (Bio* const group = sorted.take())
            static_cast<void>(deadline_->insert(*group, limits_, Merges::none, group->progress.queued_ns));
    }
    queue_.cancel_dispatch(this, Status::aborted, Queue::Which::given_up);
}

/// Ends all that no request exists for.
void ChannelCore::cancel_waiting(Status status) noexcept {
    const auto cancel = [this, status](Bio* bio) {
        while (bio != nullptr) {
            Bio* const next = bio->progress.next;
            fail(*bio, status);
            end_piece(*bio, status);
            bio = next;
        }
    };
    BioList flushes = flushes_.cancel();
    while (!flushes.empty()) {
        Bio& bio = flushes.pop_front();
        fail(bio, status);
        end(bio);
    }
    for (unsigned i = 0; i < plugged_count_; ++i) cancel(plugged_[i]);
    plugged_count_ = 0;
    lane_.unplugged(*this);
    while (Bio* const group = withdraw()) cancel(group);
}

}  // namespace mqblk::block
