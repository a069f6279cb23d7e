// SPDX-License-Identifier: Apache-2.0
//
// Which thread gets which hardware queue, and what stops all of them. Control path: everything is under the set's lock.
#include "block/channel_core.h"
#include "block/device_core.h"
#include "block/lane.h"
#include "block/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <thread>

namespace mqblk::block {

QueueSet::QueueSet(std::shared_ptr<Driver> driver)
    : driver_(std::move(driver)), shape_(driver_->shape()), tags_(shape_.max_queues), queues_(shape_.max_queues) {
    assert(shape_.max_queues >= 1);
    if (shape_.host_wide_tags) host_tags_ = std::make_unique<TagSet>(shape_.depth, shape_.reserved);
}

QueueSet::~QueueSet() {
    assert(lanes_.empty());
}

std::shared_ptr<QueueSet> QueueSet::create(std::shared_ptr<Driver> driver) {
    return std::shared_ptr<QueueSet>(new QueueSet(std::move(driver)));
}

std::shared_ptr<Device> QueueSet::add_disk(Disk disk) {
    return std::make_shared<Device>(std::make_shared<DeviceCore>(shared_from_this(), std::move(disk)));
}

Result<Lane*> QueueSet::lane(Reactor& reactor) {
    const std::scoped_lock lock(mutex_);
    for (const auto& lane : lanes_)
        if (&lane->reactor() == &reactor) return lane.get();

    // A queue for this thread alone while there are any; the last one is everybody's.
    const unsigned last = shape_.max_queues - 1;
    unsigned index = 0;
    while (index < last && queues_[index] != nullptr) ++index;
    if (index < last || queues_[last] == nullptr) {
        auto opened = open(index, reactor);
        if (!opened) return std::unexpected(opened.error());
        return *opened;
    }
    Queue& queue = *queues_[last];
    lanes_.push_back(std::make_unique<Lane>(*this, queue, reactor));
    const std::scoped_lock shared_lock(queue.mutex_);
    queue.lanes_.push_back(lanes_.back().get());
    return lanes_.back().get();
}

Result<Lane*> QueueSet::open(unsigned index, Reactor& reactor) {
    if (!shape_.host_wide_tags && tags_[index] == nullptr)
        tags_[index] = std::make_unique<TagSet>(shape_.depth, shape_.reserved);
    TagSet& tags = shape_.host_wide_tags ? *host_tags_ : *tags_[index];
    std::shared_ptr<Reactor> shareable;
    if (index == shape_.max_queues - 1) {
        shareable = driver_->home();
        if (shareable == nullptr) shareable = reactor.shareable();
        if (shareable == nullptr)
            return fail(Errc::no_space,
                        "open a shared hardware queue: the kernel gives no further io_uring; raise "
                        "RLIMIT_NOFILE or use fewer threads");
    }
    std::unique_ptr<Queue> queue(new Queue(*this, index, tags, shape_, std::move(shareable), reactor));
    if (queue->pages_.data() == nullptr)
        return fail(Errc::no_space, fmt::format("hardware queue {}: no memory for {} requests; use a smaller depth",
                                                index, tags.size()));
    if (quiesced_ != 0) queue->gate_.close(Gate::quiesced);
    if (frozen_ != 0) queue->gate_.close(Gate::frozen);

    auto lane = std::make_unique<Lane>(*this, *queue, reactor);
    {
        const Hold hold(*lane);
        auto hardware = driver_->open_queue(index, *queue, queue->reactor());
        if (!hardware) return std::unexpected(hardware.error());
        queue->owned_hardware_ = std::move(*hardware);
        queue->hardware_ = queue->owned_hardware_.get();
    }
    queue->lanes_.push_back(lane.get());
    queues_[index] = std::move(queue);
    lanes_.push_back(std::move(lane));
    return lanes_.back().get();
}

void QueueSet::close_lane(Lane& lane) noexcept {
    const std::scoped_lock lock(mutex_);
    Queue& queue = lane.queue();
    {
        const Hold hold(lane);
        std::erase(queue.lanes_, &lane);
        if (queue.lanes_.empty()) {
            queue.owned_hardware_.reset();
            queue.hardware_ = nullptr;
        }
    }
    const bool unused = queue.lanes_.empty();
    const unsigned index = queue.index_;
    std::erase_if(lanes_, [&lane](const auto& each) { return each.get() == &lane; });
    if (unused) queues_[index].reset();
}

void QueueSet::announce() noexcept {
    epoch_.fetch_add(1);
    const std::scoped_lock lock(mutex_);
    for (const auto& lane : lanes_) lane->wake();
}

void QueueSet::close_gates(Gate::Reason reason) noexcept {
    for (const auto& queue : queues_)
        if (queue != nullptr) queue->gate_.close(reason);
    Gate::barrier();
    for (const auto& queue : queues_)
        while (queue != nullptr && queue->gate_.inside()) std::this_thread::yield();
}

void QueueSet::open_gates(Gate::Reason reason) noexcept {
    for (const auto& queue : queues_)
        if (queue != nullptr) queue->gate_.open(reason);
}

void QueueSet::quiesce() noexcept {
    const std::scoped_lock lock(mutex_);
    if (quiesced_++ == 0) close_gates(Gate::quiesced);
}

void QueueSet::unquiesce() noexcept {
    {
        const std::scoped_lock lock(mutex_);
        assert(quiesced_ > 0);
        if (--quiesced_ > 0) return;
        open_gates(Gate::quiesced);
    }
    announce();
}

bool QueueSet::drained() noexcept {
    return std::ranges::all_of(queues_, [](const auto& queue) { return queue == nullptr || !queue->holds_requests(); });
}

Result<> QueueSet::freeze(Duration bound) {
    std::unique_lock lock(mutex_);
    if (frozen_++ == 0) close_gates(Gate::frozen);
    // All lanes of a set have one clock; without lanes there are no requests.
    const auto now = [this] { return lanes_.front()->reactor().now(); };
    const Time until = lanes_.empty() ? never : now() + bound;
    while (!drained()) {
        if (now() >= until) {
            lock.unlock();
            unfreeze();
            return mqblk::fail(Errc::timed_out,
                               fmt::format("freeze: requests are still outstanding after {} ms; wait for them or "
                                           "remove the device",
                                           std::chrono::duration_cast<std::chrono::milliseconds>(bound).count()));
        }
        // The caller's own queues are turned here; a callback may close or open channels, so begin again after one.
        const auto own = std::ranges::find_if(lanes_, [](const auto& lane) { return lane->on_this_thread(); });
        Lane* const lane = own != lanes_.end() ? own->get() : nullptr;
        lock.unlock();
        if (lane != nullptr) {
            Reactor& reactor = lane->reactor();
            reactor.run_once(Reactor::Sleep::yes, std::min(until, reactor.now() + std::chrono::milliseconds(1)));
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        lock.lock();
    }
    return {};
}

void QueueSet::unfreeze() noexcept {
    {
        const std::scoped_lock lock(mutex_);
        assert(frozen_ > 0);
        if (--frozen_ > 0) return;
        open_gates(Gate::frozen);
    }
    announce();
}

}  // namespace mqblk::block
