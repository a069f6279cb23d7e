// SPDX-License-Identifier: Apache-2.0
#include "block/lane.h"

#include "block/channel_core.h"

#include <algorithm>

namespace mqblk::block {

void Hold::take(Lane& lane, How how) noexcept {
    if (how == How::wait) {
        queue_.mutex_.lock();
    } else if (!queue_.mutex_.try_lock()) {
        held_ = false;
        return;
    }
    queue_.active_ = &lane;
}

void Hold::give_back() noexcept {
    if (!held_) return;
    queue_.active_ = nullptr;
    queue_.mutex_.unlock();
}

Lane::Lane(QueueSet& set, Queue& queue, Reactor& reactor)
    : queue_(queue), reactor_(reactor), epoch_(set.epoch()), set_(set), thread_(std::this_thread::get_id()) {
    if (!queue.shared_) {
        queue.active_ = this;
        return;
    }
    // A simulated reactor shares itself, and is run by the simulation.
    if (queue.shareable_.get() != &reactor && queue.shareable_->fd() >= 0) {
        watch_ = reactor.watch(queue.shareable_->fd(), [] {});
        shared_timer_.emplace([] {});
    }
    start_polling();
}

Lane::~Lane() {
    if (polled_) reactor_.remove(*this);
}

void Lane::start_polling() noexcept {
    if (polled_) return;
    polled_ = true;
    reactor_.add(*this);
}

void Lane::ready(ChannelCore& channel) noexcept {
    ready_.add(channel);
}
void Lane::plugged(ChannelCore& channel) noexcept {
    plugged_.add(channel);
}
void Lane::unplugged(ChannelCore& channel) noexcept {
    plugged_.remove(channel);
}

unsigned Lane::poll() noexcept {
    const unsigned done = pass(nullptr);
    return done + events_;
}

unsigned Lane::pass(ChannelCore* only) noexcept {
    const bool outer = !passing_;
    passing_ = true;
    pass_time_ = {};
    events_ = 0;
    if (set_.epoch() != epoch_) [[unlikely]]
        look_at_changes();
    if (queue_.shared_) [[unlikely]]
        take_inbox();
    unsigned done = deliver(only);
    if (done == 0 || queue_.holds_requests()) {
        turn_queue();
        if (queue_.shared_) [[unlikely]]
            take_inbox();
        done += deliver(only);
    }
    finish_pass();
    if (outer) passing_ = false;
    return done;
}

void Lane::turn_queue() noexcept {
    const Hold hold(*this, Hold::How::attempt);
    if (!hold.held()) return;  // another thread is at it
    pass_time_ = {};
    if (runs_reactor()) events_ += queue_.shareable_->run_once(Reactor::Sleep::no);
    if (queue_.holds_requests() || queue_.keep_polling_) events_ += queue_.hardware_->poll();
}

void Lane::finish_pass() noexcept {
    const Hold hold(*this);
    while (auto* const channel = plugged_.front<ChannelCore>()) channel->flush_plug();
    if (queue_.tag_ready_.load(std::memory_order_relaxed)) {
        queue_.tag_ready_.store(false);
        queue_.run_again_ = true;
    }
    if (queue_.run_again_) queue_.run();
    queue_.commit();
}

unsigned Lane::deliver(ChannelCore* only) noexcept {
    if (only != nullptr) {
        if (only->completed_.empty()) return 0;
        ready_.remove(*only);
        const unsigned done = only->deliver();
        if (!only->completed_.empty()) ready_.add(*only);
        return done;
    }
    // Channels that become ready meanwhile have their turn in the next pass.
    unsigned done = 0;
    for (unsigned left = ready_.size(); left > 0 && !ready_.empty(); --left) {
        ChannelCore* const channel = ready_.front<ChannelCore>();
        ready_.remove(*channel);
        done += channel->deliver();
        if (!channel->completed_.empty()) ready_.add(*channel);
    }
    return done;
}

void Lane::deliver_from_afar(Bio& bio) noexcept {
    Bio* head = inbox_.load(std::memory_order_relaxed);
    do {
        bio.progress.next = head;
    } while (!inbox_.compare_exchange_weak(head, &bio, std::memory_order_release, std::memory_order_relaxed));
    if (head == nullptr) reactor_.wake();
}

void Lane::take_inbox() noexcept {
    if (inbox_.load(std::memory_order_relaxed) == nullptr) return;
    Bio* bio = inbox_.exchange(nullptr, std::memory_order_acquire);
    Bio* oldest = nullptr;
    while (bio != nullptr) {
        Bio* const next = bio->progress.next;
        bio->progress.next = oldest;
        oldest = bio;
        bio = next;
    }
    while (oldest != nullptr) {
        Bio* const next = oldest->progress.next;
        oldest->progress.channel->push_completed(*oldest);
        oldest = next;
    }
}

bool Lane::prepare_sleep() noexcept {
    if (!ready_.empty() || !plugged_.empty() || inbox_.load() != nullptr || set_.epoch() != epoch_) return false;
    if (outstanding_ == 0 && !queue_.shared_ && !queue_.keep_polling_) {
        polled_ = false;
        reactor_.remove(*this);
        return true;
    }
    const Hold hold(*this);
    if (queue_.run_again_ || queue_.tag_ready_.load()) return false;
    if ((queue_.holds_requests() || queue_.keep_polling_) && !queue_.hardware_->prepare_sleep()) return false;
    if (runs_reactor()) {
        if (!queue_.shareable_->prepare_sleep()) return false;
        watch_->arm(false);
        const Time next = queue_.shareable_->next_deadline();
        if (next != never) shared_timer_->arm(reactor_, next);
    }
    return true;
}

void Lane::look_at_changes() noexcept {
    const Hold hold(*this);
    epoch_ = set_.epoch();
    queue_.run_again_ = true;
    for (ChannelCore* const channel : channels_) {
        if (channel->device_hot_->version() != channel->version_) channel->refresh();
        if (!channel->removed_ || channel->removal_done_) continue;
        channel->removal_done_ = true;
        cancel(*channel, Status::removed);
        // Other disks' requests are not this one's to end: then the driver ends them in its own time.
        if (channel->in_flight_ != 0 && set_.live_devices() == 0) queue_.hardware_->cancel_all(Status::removed);
    }
}

/// Ends what the driver does not have. With the queue held.
void Lane::cancel(ChannelCore& channel, Status status) noexcept {
    channel.cancel_waiting(status);
    queue_.cancel_dispatch(&channel, status, Queue::Which::all);
    queue_.waiting_.remove(channel);
}

void Lane::add(ChannelCore& channel) {
    channels_.push_back(&channel);
}

void Lane::remove(ChannelCore& channel) noexcept {
    {
        const Hold hold(*this);
        channel.closing_ = true;
        channel.plain_sectors_ = 0;
        cancel(channel, Status::aborted);
        if (channel.in_flight_ != 0 && channel.in_flight_ == queue_.in_flight())
            queue_.hardware_->cancel_all(Status::aborted);
        queue_.commit();
    }
    while (channel.outstanding() != 0) {
        pass(&channel);
        if (channel.outstanding() != 0)
            reactor_.run_once(Reactor::Sleep::yes, reactor_.now() + std::chrono::milliseconds(1));
    }
    const Hold hold(*this);  // whoever ended the last bio from another thread has let go of this lane
    queue_.pass_turn_on(channel);
    ready_.remove(channel);
    plugged_.remove(channel);
    std::erase(channels_, &channel);
}

}  // namespace mqblk::block
