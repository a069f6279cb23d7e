// SPDX-License-Identifier: Apache-2.0
//
// A driver under the test's hand, for the tests of the block layer.
#pragma once

#include "block/device_core.h"
#include "block/driver.h"
#include "block/queue.h"
#include "block/tag_set.h"
#include "unit/manual_reactor.h"

#include <mqblk/device.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mqblk::test {

/// What the driver saw of a request.
struct Seen {
    Op op;
    std::uint64_t sector, sectors;
    std::uint8_t flags;
    std::uint32_t tag;
    std::uint32_t segments;
    bool last;
};

class TestDriver;

class TestQueue final : public block::HardwareQueue {
  public:
    TestQueue(TestDriver& driver, block::Queue& queue) : driver_(driver), queue_(queue) {}
    ~TestQueue() override;

    block::Issue queue(block::Request& request, bool last) noexcept override;
    void commit() noexcept override { ++commits; }
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override { return held_.empty() || hold_asleep; }
    block::Expired timeout(block::Request& request) noexcept override;
    void cancel_all(Status status) noexcept override {
        queue_.for_each_in_flight([&](block::Request& request) { queue_.complete(request, status); });
        held_.clear();
        ++cancels;
    }

    /// Ends the oldest request that is held.
    bool complete_one(Status status = Status::ok) {
        while (!held_.empty()) {
            block::Request* const request = held_.front();
            held_.pop_front();
            if (request->state != block::RequestState::in_flight) continue;
            queue_.complete(*request, status);
            return true;
        }
        return false;
    }
    [[nodiscard]] std::size_t held() const noexcept { return held_.size(); }
    [[nodiscard]] block::Queue& core() noexcept { return queue_; }

    std::vector<Seen> seen;
    unsigned commits = 0, cancels = 0;
    bool hold_asleep = false;

  private:
    TestDriver& driver_;
    block::Queue& queue_;
    std::deque<block::Request*> held_;
};

class TestDriver final : public block::Driver {
  public:
    enum class Mode : std::uint8_t { inline_done, next_poll, hold };

    explicit TestDriver(Shape shape) : shape_(shape) {}
    const Shape& shape() const noexcept override { return shape_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned index, block::Queue& queue, Reactor&) override {
        opened.push_back(index);
        auto made = std::make_unique<TestQueue>(*this, queue);
        if (queues.size() <= index) queues.resize(index + 1);
        queues[index] = made.get();
        return made;
    }

    Mode mode = Mode::inline_done;
    unsigned busy = 0;  ///< refuse so many
    block::Expired expired = block::Expired::ended;
    std::function<Status(const block::Request&)> result;  ///< ok where not set
    std::function<void(block::Request&)> late;            ///< besides `expired`
    std::vector<unsigned> opened;
    std::vector<TestQueue*> queues;
    bool record = true;

    [[nodiscard]] Status result_of(const block::Request& request) const {
        return result ? result(request) : Status::ok;
    }

  private:
    Shape shape_;
};

inline TestQueue::~TestQueue() {
    driver_.queues[queue_.index()] = nullptr;
}

inline block::Issue TestQueue::queue(block::Request& request, bool last) noexcept {
    if (driver_.busy > 0) {
        --driver_.busy;
        return block::Issue::busy;
    }
    if (driver_.record)
        seen.push_back(
            {request.op, request.sector, request.sectors, request.flags, request.tag, request.segments, last});
    if (driver_.mode == TestDriver::Mode::inline_done) {
        request.status = driver_.result_of(request);
        return block::Issue::done;
    }
    held_.push_back(&request);
    return block::Issue::accepted;
}

inline unsigned TestQueue::poll() noexcept {
    if (driver_.mode != TestDriver::Mode::next_poll) return 0;
    unsigned ended = 0;
    for (std::size_t left = held_.size(); left > 0; --left) {
        block::Request* const request = held_.front();
        held_.pop_front();
        if (request->state != block::RequestState::in_flight) continue;
        queue_.complete(*request, driver_.result_of(*request));
        ++ended;
    }
    return ended;
}

inline block::Expired TestQueue::timeout(block::Request& request) noexcept {
    if (driver_.late) driver_.late(request);
    return driver_.expired;
}

/// A bio with memory of its own that notes its end.
struct TestBio {
    Bio bio;
    std::vector<std::byte> memory;
    Segment segment{nullptr, 0};
    unsigned ends = 0;
    unsigned order = 0;  ///< of its end among all
    static inline std::atomic<unsigned> ended_total{0};

    TestBio(Op op, std::uint64_t sector, std::uint64_t sectors, std::uint8_t flags = 0) {
        bio.op = op;
        bio.sector = sector;
        bio.sectors = sectors;
        bio.flags = flags;
        if (carries_data(op)) {
            memory.resize(sectors * sector_bytes);
            segment = {memory.data(), memory.size()};
            bio.data = {&segment, 1};
        }
        bio.context = this;
        bio.done = [](Bio& ended) noexcept {
            auto& self = *static_cast<TestBio*>(ended.context);
            ++self.ends;
            self.order = ++ended_total;
        };
    }
    TestBio(const TestBio&) = delete;
    TestBio& operator=(const TestBio&) = delete;
};

/// One driver, one disk, one thread.
struct Bench {
    ManualClock clock;
    SeededRandom random{1};
    ManualReactor reactor{clock, random};
    std::shared_ptr<TestDriver> driver;
    std::shared_ptr<block::QueueSet> set;
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;

    static QueueLimits default_limits() {
        QueueLimits limits;
        limits.max_discard_sectors = 1 << 16;
        limits.max_write_zeroes_sectors = 1 << 16;
        return limits;
    }
    static block::Driver::Shape shape(unsigned depth, unsigned queues = 2) {
        block::Driver::Shape made;
        made.max_queues = queues;
        made.depth = depth;
        return made;
    }

    explicit Bench(block::Driver::Shape shape = Bench::shape(32), QueueLimits limits = default_limits())
        : driver(std::make_shared<TestDriver>(shape)), set(block::QueueSet::create(driver)) {
        device = add_disk(limits);
        channel = open();
    }
    std::shared_ptr<Device> add_disk(QueueLimits limits = default_limits()) {
        block::Disk disk;
        disk.limits = limits;
        disk.sectors = 1 << 20;
        disk.identity.name = "test";
        return set->add_disk(std::move(disk));
    }
    std::unique_ptr<Channel> open() { return open(*device); }
    std::unique_ptr<Channel> open(Device& of) {
        auto made = of.channel(reactor);
        EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message());
        return std::move(*made);
    }
    /// The hardware queue that the bench's thread has.
    TestQueue& queue(unsigned index = 0) { return *driver->queues.at(index); }
    void submit(TestBio& bio) { channel->submit(bio.bio); }
    /// Passes until nothing is outstanding, or too many.
    void drain() {
        for (int i = 0; i < 10000 && channel->outstanding() != 0; ++i) channel->poll();
    }
};

}  // namespace mqblk::test
