// SPDX-License-Identifier: Apache-2.0
//
// The rest of a hardware queue's block-layer side: its memory, its timer, reserved tags. Not on the path of each I/O.
#include "block/queue.h"

#include "block/channel_core.h"
#include "block/lane.h"

#include <algorithm>
#include <new>

namespace mqblk::block {

namespace {
std::size_t request_stride(std::size_t payload_bytes) noexcept {
    constexpr std::size_t alignment = alignof(Request);
    return sizeof(Request) + (payload_bytes + alignment - 1) / alignment * alignment;
}
}  // namespace

Queue::Queue(QueueSet& set, unsigned index, TagSet& tags, const Driver::Shape& shape,
             std::shared_ptr<Reactor> shareable, Reactor& reactor)
    : stride_(request_stride(shape.payload_bytes)),
      shared_(shareable != nullptr),
      tags_(tags),
      wheel_(shape.timeout),
      host_wide_(shape.host_wide_tags),
      set_(set),
      index_(index),
      shareable_(std::move(shareable)),
      reactor_(shareable_ != nullptr ? shareable_.get() : &reactor),
      pages_(stride_ * tags.size()),
      timer_([this] { expire(); }) {
    requests_ = pages_.data();
}

Queue::~Queue() = default;

void Queue::keep_polling(bool keep) noexcept {
    keep_polling_ = keep;
    if (keep && active_ != nullptr) active_->start_polling();
}

Request* Queue::allocate_reserved() noexcept {
    const std::uint32_t tag = tags_.get_reserved();
    if (tag == TagSet::none) return nullptr;
    Request* request = &at(tag);
    if (request->queue_ == nullptr) request = first_use(tag);
    ++request->generation;
    request->channel_ = nullptr;
    request->device_ = nullptr;
    request->bios_ = nullptr;
    request->data = {};
    request->sectors = 0;
    request->segments = 0;
    request->state = RequestState::in_flight;
    return request;
}

void Queue::free_reserved(Request& request) noexcept {
    request.state = RequestState::idle;
    tags_.put(request.tag);
}

std::shared_ptr<DeadlineScheduler> Queue::scheduler_of(const DeviceCore& device) {
    std::erase_if(schedulers_, [](const auto& each) { return each.second.expired(); });
    for (const auto& [of, scheduler] : schedulers_)
        if (of == &device) return scheduler.lock();
    auto made = std::make_shared<DeadlineScheduler>();
    schedulers_.emplace_back(&device, made);
    return made;
}

void Queue::start_timer(const Request& request) noexcept {
    timer_due_ = wheel_.due(request);
    timer_.arm(*reactor_, timer_due_);
}

/// The timer is left armed when requests end in time: it fires once per time-out at most, and looks.
void Queue::expire() noexcept {
    const Time at = now();
    timer_due_ = never;
    wheel_.expire(at, [this, at](Request& request) {
        request.channel_->counters_->timeouts.add();
        const std::uint16_t generation = request.generation;
        if (hardware_->timeout(request) == Expired::ended) return;
        if (request.state != RequestState::in_flight || request.generation != generation) return;
        request.deadline = at + request.channel_->timeout_;
        wheel_.insert(request, at);
    });
    const Time next = wheel_.next();
    if (next == never) return;
    timer_due_ = std::max(next, at + wheel_.tick());
    timer_.arm(*reactor_, timer_due_);
}

void Queue::tags_came_free(void* queue) noexcept {
    Queue& self = *static_cast<Queue*>(queue);
    self.tag_ready_.store(true);
    // Where the queue is shared its reactor's descriptor becomes readable, which wakes whoever watches it.
    self.reactor_->wake();
}

}  // namespace mqblk::block
