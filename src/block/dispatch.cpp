// SPDX-License-Identifier: Apache-2.0
//
// From tag to driver and back: issuing requests, offering again what the driver was too busy for, giving tags in turn
// to the channels that wait, ending requests. Rules of Linux's blk-mq: what was refused goes first; a queue that is
// quiesced calls no driver; a frozen one begins no request; a request ends once.
#include "block/channel_core.h"

#include <new>

namespace mqblk::block {

Time Queue::now() const noexcept {
    return active_ != nullptr ? active_->now() : reactor_->now();
}

Request* Queue::first_use(std::uint32_t tag) noexcept {
    Request* const request = new (requests_ + std::size_t{tag} * stride_) Request;
    request->tag = tag;
    request->queue_ = this;
    if (tag >= touched_) touched_ = tag + 1;
    hardware_->prepare(*request);
    return request;
}

Request* Queue::allocate(ChannelCore& channel) noexcept {
    const std::uint32_t tag = tags_.get();
    if (tag == TagSet::none) [[unlikely]]
        return nullptr;
    Request* request = &at(tag);
    if (request->queue_ == nullptr) [[unlikely]]
        request = first_use(tag);
    ++request->generation;
    request->channel_ = &channel;
    ++channel.in_flight_;
    held_.store(held_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return request;
}

/// The tag is free again; the request is nobody's.
void Queue::give_back(Request& request) noexcept {
    --request.channel_->in_flight_;
    if (request.scheduler_ != nullptr) [[unlikely]] {
        request.scheduler_->ended(request.priority);
        request.scheduler_ = nullptr;
    }
    tags_.put(request.tag);
    held_.store(held_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

void Queue::issue(Request& request, bool last) noexcept {
    ChannelCore& channel = *request.channel_;
    request.state = RequestState::in_flight;
    request.status = Status::ok;
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    channel.counters_->requests.add();
    switch (hardware_->queue(request, last)) {
        case Issue::done:
            in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
            finish(request, request.status);
            return;
        case Issue::accepted:
            if (!last) uncommitted_ = true;
            // It may have ended within queue().
            if (request.state != RequestState::in_flight) return;
            wheel_.insert(request, request.started);
            if (wheel_.due(request) < timer_due_) start_timer(request);
            return;
        case Issue::busy:
            break;
    }
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    if (!last) uncommitted_ = true;  // those before it were told that something follows
    channel.counters_->requeues.add();
    request.state = RequestState::waiting;
    request.next_ = nullptr;
    (dispatch_head_ == nullptr ? dispatch_head_ : dispatch_tail_->next_) = &request;
    dispatch_tail_ = &request;
    ++dispatch_count_;
    // With nothing in flight only the driver can know when: it calls restart().
    blocked_ = true;
}

void Queue::complete(Request& request, Status status) noexcept {
    if (request.state != RequestState::in_flight) {
        assert(false && "a request ends once");
        return;
    }
    if (request.channel_ == nullptr) {
        free_reserved(request);
        return;
    }
    in_flight_.store(in_flight_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    TimerWheel::remove(request);
    finish(request, status);
}

void Queue::finish(Request& request, Status status) noexcept {
    request.state = RequestState::idle;
    ChannelCore& channel = *request.channel_;
    channel.end_pieces(request, status);
    give_back(request);
    blocked_ = false;
    if (channel.has_waiting()) [[unlikely]]
        waiting_.add(channel);
    if (congested()) [[unlikely]]
        run_again_ = true;
}

void Queue::restart() noexcept {
    blocked_ = false;
    if (congested()) run_again_ = true;
}

void Queue::run() noexcept {
    run_again_ = false;
    if (congested() && !blocked_) {
        const std::uint8_t closed = gate_.enter();
        if ((closed & Gate::quiesced) == 0) {
            offer_again();
            if (!blocked_ && dispatch_head_ == nullptr && (closed & Gate::frozen) == 0) serve_waiting();
        }
        gate_.leave();
    }
    // Tags that were kept for this queue and that it cannot use now go to the next in line.
    if (waits_for_tag_ && (blocked_ || waiting_.empty())) {
        waits_for_tag_ = false;
        tags_.cancel_wait();
    }
}

void Queue::offer_again() noexcept {
    unsigned left = dispatch_count_;
    while (left-- > 0 && !blocked_ && dispatch_head_ != nullptr) {
        Request& request = *dispatch_head_;
        dispatch_head_ = request.next_;
        Request* const rest = dispatch_head_;
        Request* const rest_end = dispatch_tail_;
        dispatch_head_ = nullptr;
        --dispatch_count_;
        request.started = now();
        request.deadline = request.started + request.channel_->timeout_;
        if (request.retries != 0xff) ++request.retries;
        issue(request, false);
        if (rest == nullptr) continue;
        // Refused again, it stays the first.
        if (dispatch_head_ == nullptr) {
            dispatch_head_ = rest;
        } else {
            dispatch_tail_->next_ = rest;
        }
        dispatch_tail_ = rest_end;
    }
}

/// One request for each channel in turn, while there are tags and the driver takes them.
void Queue::serve_waiting() noexcept {
    while (auto* const channel = waiting_.front<ChannelCore>()) {
        if (!channel->may_issue() || !channel->has_waiting()) {
            waiting_.remove(*channel);  // its next completion or submission brings it back
            continue;
        }
        Request* const request = allocate(*channel);
        if (request == nullptr) {
            if (wait_for_tag()) return;
            continue;
        }
        if (!channel->fill_next(*request)) {
            give_back(*request);
            continue;
        }
        waiting_.rotate();
        issue(*request, false);
        if (blocked_) return;
    }
}

/// False: try again now. A queue with tags of its own is run again when one of its requests ends.
bool Queue::wait_for_tag() noexcept {
    if (!host_wide_) return true;
    waits_for_tag_ = true;
    return tags_.wait(&Queue::tags_came_free, this);
}

void Queue::pass_turn_on(ChannelCore& leaving) noexcept {
    waiting_.remove(leaving);
    if (leaving.deadline_ == nullptr) return;
    for (Lane* const lane : lanes_) {
        for (ChannelCore* const channel : lane->channels_) {
            if (channel == &leaving || channel->device_hot_ != leaving.device_hot_ || !channel->has_waiting()) continue;
            waiting_.add(*channel);
            run_again_ = true;
            lane->wake();
        }
    }
}

void Queue::cancel_dispatch(const ChannelCore* channel, Status status, Which which) noexcept {
    Request* request = dispatch_head_;
    dispatch_head_ = dispatch_tail_ = nullptr;
    while (request != nullptr) {
        Request* const next = request->next_;
        request->next_ = nullptr;
        const bool unwanted =
            which == Which::all || (request->bios_ != nullptr && ChannelCore::given_up(*request->bios_));
        if (request->channel_ == channel && unwanted) {
            --dispatch_count_;
            finish(*request, status);
        } else {
            (dispatch_head_ == nullptr ? dispatch_head_ : dispatch_tail_->next_) = request;
            dispatch_tail_ = request;
        }
        request = next;
    }
}

}  // namespace mqblk::block
