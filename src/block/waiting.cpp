// SPDX-License-Identifier: Apache-2.0
//
// What waits in a channel becomes requests: flushes first, then the bio that is being cut, then what the scheduler
// chooses; and requests become ends of bios. Everything here is under the queue's lock where it is shared.
#include "block/channel_core.h"

#include "block/split.h"

namespace mqblk::block {

bool ChannelCore::fill_next(Request& request) noexcept {
    if (flushes_.wanted()) {
        flushes_.begin();
        request.op = Op::flush;
        request.flags = 0;
        request.sector = 0;
        request.sectors = 0;
        request.data = {};
        request.segments = 0;
        request.retries = 0;
        request.bios_ = request.last_bio_ = nullptr;
        request.device_ = device_hot_;
        request.started = queue_.now();
        request.deadline = request.started + timeout_;
        return true;
    }
    if (partial_ != nullptr) return fill_piece(request, *partial_);
    const std::int64_t now_ns = queue_.now().time_since_epoch().count();
    while (Bio* const first = scheduler_->take(now_ns)) {
        if (first->progress.last != first) {
            fill(request, *first, group_sectors(*first), first->progress.segments, queue_.now());
            return true;
        }
        if (fill_piece(request, *first)) return true;
    }
    return false;
}

/// The next piece of a bio; false if it cannot be cut, and has been ended for that.
bool ChannelCore::fill_piece(Request& request, Bio& bio) noexcept {
    partial_ = nullptr;
    Bio::Progress& progress = bio.progress;
    const Cut cut = next_cut(limits_, bio);
    if (cut.sectors == 0 || bio.status != Status::ok) {
        // Nothing more is sent of a bio that has failed already.
        end_piece(bio, cut.sectors == 0 && bio.status == Status::ok ? cut.status : bio.status);
        return false;
    }
    fill(request, bio, cut.sectors, cut.segments, queue_.now());
    if (progress.issued != 0 || cut.sectors != bio.sectors) counters_->splits.add();
    if (progress.issued + cut.sectors == bio.sectors) return true;
    ++progress.pieces;
    advance(bio, cut.sectors);
    partial_ = &bio;
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
        bio.progress.stage = static_cast<std::uint8_t>(stage_of_data(limits_, bio));
        make_group(bio);
        static_cast<void>(scheduler_->insert(bio, limits_, Merges::none, bio.progress.queued_ns));
        queue_.waiting_.add(*this);
        queue_.run_again_ = true;
    }
}

/// Ends all that no request exists for.
void ChannelCore::cancel_waiting(Status status) noexcept {
    const auto cancel = [this, status](Bio* bio) {
        while (bio != nullptr) {
            Bio* const next = bio->progress.next;
            fail(*bio, status);
            bio->progress.stage = 0;
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
    if (Bio* const bio = partial_) {
        partial_ = nullptr;
        fail(*bio, status);
        end_piece(*bio, status);
    }
    while (Bio* const group = scheduler_->take(0)) cancel(group);
}

}  // namespace mqblk::block
