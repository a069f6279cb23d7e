// SPDX-License-Identifier: Apache-2.0
//
// The three kinds of null queue: at once, after a time, by a thread.
#pragma once

#include "base/clock.h"
#include "block/driver.h"
#include "block/queue.h"
#include "reactor/reactor.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace mqblk::driver::null {

/// What a queue keeps for each request it holds.
struct Payload {
    block::Request* next = nullptr;
    Time due{};
};

/// Carries out everything in queue(): nothing is ever outstanding.
class InlineQueue : public block::HardwareQueue {
  public:
    block::Issue queue(block::Request& request, bool) noexcept override {
        request.status = Status::ok;
        return block::Issue::done;
    }
    unsigned poll() noexcept override { return 0; }
    bool prepare_sleep() noexcept override { return true; }
    block::Expired timeout(block::Request&) noexcept override { return block::Expired::extend; }
    void cancel_all(Status) noexcept override {}
};

/// What a read gives where zeroes were asked for; nothing else is done to a request.
void fill_with_zeroes(block::Request& request) noexcept;

class ZeroQueue final : public InlineQueue {
  public:
    block::Issue queue(block::Request& request, bool last) noexcept override {
        fill_with_zeroes(request);
        return InlineQueue::queue(request, last);
    }
};

/// Requests in the order in which they came, linked through their payloads.
class RequestList {
  public:
    [[nodiscard]] block::Request* front() const noexcept { return first_; }
    void push(block::Request& request) noexcept;
    block::Request* pop() noexcept;  ///< null if empty
    /// Empties it; the requests are linked by payload().next.
    block::Request* take() noexcept;

  private:
    block::Request* first_ = nullptr;
    block::Request* last_ = nullptr;
};

/// All requests take the same time, so the first to come is the first due.
class TimedQueue final : public block::HardwareQueue {
  public:
    TimedQueue(block::Queue& queue, Reactor& reactor, Duration latency, bool zero) noexcept
        : queue_(queue), reactor_(reactor), latency_(latency), zero_(zero), alarm_([] {}) {}

    void prepare(block::Request& request) override { new (&request.payload<Payload>()) Payload; }
    block::Issue queue(block::Request& request, bool last) noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    block::Expired timeout(block::Request&) noexcept override { return block::Expired::extend; }
    void cancel_all(Status status) noexcept override;

  private:
    block::Queue& queue_;
    Reactor& reactor_;
    const Duration latency_;
    const bool zero_;
    RequestList pending_;
    Timer alarm_;  // ends a sleep; poll() does the rest
};

/// Requests go to a thread, which sleeps out their latency and hands them back in batches.
class ThreadQueue final : public block::HardwareQueue {
  public:
    ThreadQueue(block::Queue& queue, Reactor& reactor, Duration latency, bool zero);
    ~ThreadQueue() override;

    void prepare(block::Request& request) override { new (&request.payload<Payload>()) Payload; }
    block::Issue queue(block::Request& request, bool last) noexcept override;
    void commit() noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    block::Expired timeout(block::Request&) noexcept override { return block::Expired::extend; }
    void cancel_all(Status status) noexcept override;

  private:
    void serve() noexcept;  // the thread

    block::Queue& queue_;
    Reactor& reactor_;
    const Duration latency_;
    const bool zero_;
    RequestList collected_;  // until commit()
    unsigned outstanding_ = 0;
    Status status_ = Status::ok;  // of what comes back; other than ok while a cancellation drains

    std::mutex mutex_;
    std::condition_variable changed_;
    RequestList submitted_;
    RequestList finished_;
    bool hurry_ = false;
    bool ending_ = false;
    std::atomic<bool> any_finished_ = false;
    std::thread thread_;
};

}  // namespace mqblk::driver::null
