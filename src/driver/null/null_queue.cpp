// SPDX-License-Identifier: Apache-2.0
//
// Queues that hold requests for a while. The thread's lock is taken once per batch and shared by one queue only.
#include "driver/null/null_queue.h"

#include <chrono>
#include <cstring>
#include <utility>

namespace mqblk::driver::null {

using block::Issue;
using block::Request;

void fill_with_zeroes(Request& request) noexcept {
    if (request.op != Op::read) return;
    request.for_each_segment([](std::byte* data, std::size_t bytes) { std::memset(data, 0, bytes); });
}

void RequestList::push(Request& request) noexcept {
    request.payload<Payload>().next = nullptr;
    (last_ != nullptr ? last_->payload<Payload>().next : first_) = &request;
    last_ = &request;
}

Request* RequestList::pop() noexcept {
    Request* const result = first_;
    if (result != nullptr) first_ = result->payload<Payload>().next;
    if (first_ == nullptr) last_ = nullptr;
    return result;
}

Request* RequestList::take() noexcept {
    last_ = nullptr;
    return std::exchange(first_, nullptr);
}

Issue TimedQueue::queue(Request& request, bool) noexcept {
    if (zero_) fill_with_zeroes(request);
    request.payload<Payload>().due = reactor_.now() + latency_;
    pending_.push(request);
    return Issue::accepted;
}

unsigned TimedQueue::poll() noexcept {
    if (pending_.front() == nullptr) return 0;
    const Time now = reactor_.now();
    unsigned completed = 0;
    while (pending_.front() != nullptr && pending_.front()->payload<Payload>().due <= now) {
        queue_.complete(*pending_.pop(), Status::ok);
        ++completed;
    }
    return completed;
}

bool TimedQueue::prepare_sleep() noexcept {
    if (pending_.front() != nullptr) alarm_.arm(reactor_, pending_.front()->payload<Payload>().due);
    return true;
}

void TimedQueue::cancel_all(Status status) noexcept {
    while (Request* const request = pending_.pop()) queue_.complete(*request, status);
}

ThreadQueue::ThreadQueue(block::Queue& queue, Reactor& reactor, Duration latency, bool zero)
    : queue_(queue), reactor_(reactor), latency_(latency), zero_(zero), thread_([this] { serve(); }) {}

ThreadQueue::~ThreadQueue() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

Issue ThreadQueue::queue(Request& request, bool last) noexcept {
    if (zero_) fill_with_zeroes(request);
    if (latency_ != Duration::zero()) request.payload<Payload>().due = reactor_.now() + latency_;
    collected_.push(request);
    ++outstanding_;
    if (last) commit();
    return Issue::accepted;
}

void ThreadQueue::commit() noexcept {
    if (collected_.front() == nullptr) return;
    {
        const std::lock_guard lock(mutex_);
        while (Request* const request = collected_.pop()) submitted_.push(*request);
    }
    changed_.notify_one();
}

unsigned ThreadQueue::poll() noexcept {
    if (!any_finished_.load(std::memory_order_acquire)) return 0;
    Request* request = nullptr;
    {
        const std::lock_guard lock(mutex_);
        request = finished_.take();
        any_finished_.store(false, std::memory_order_relaxed);
    }
    unsigned completed = 0;
    while (request != nullptr) {
        Request& done = *std::exchange(request, request->payload<Payload>().next);
        --outstanding_;
        queue_.complete(done, status_);
        ++completed;
    }
    if (outstanding_ == 0 && status_ != Status::ok) {
        const std::lock_guard lock(mutex_);
        hurry_ = false;
        status_ = Status::ok;
    }
    return completed;
}

bool ThreadQueue::prepare_sleep() noexcept {
    commit();
    return !any_finished_.load(std::memory_order_acquire);
}

void ThreadQueue::cancel_all(Status status) noexcept {
    if (outstanding_ == 0) return;
    status_ = status;
    {
        const std::lock_guard lock(mutex_);
        hurry_ = true;
        while (Request* const request = collected_.pop()) submitted_.push(*request);
    }
    changed_.notify_one();
}

void ThreadQueue::serve() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ending_ || submitted_.front() != nullptr; });
        if (submitted_.front() == nullptr) return;
        if (latency_ != Duration::zero() && !hurry_) {
            const Time due = submitted_.front()->payload<Payload>().due;
            const Duration left = due - reactor_.now();
            if (left > Duration::zero()) {
                changed_.wait_for(lock, left, [&] { return ending_ || hurry_; });
                continue;
            }
        }
        const Time now = latency_ != Duration::zero() ? reactor_.now() : Time{};
        while (submitted_.front() != nullptr && (hurry_ || submitted_.front()->payload<Payload>().due <= now)) {
            finished_.push(*submitted_.pop());
        }
        if (!any_finished_.exchange(true, std::memory_order_release)) reactor_.wake();
    }
}

}  // namespace mqblk::driver::null
