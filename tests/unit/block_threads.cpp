// SPDX-License-Identifier: Apache-2.0
//
// The block layer with real threads and reactors: a shared queue, and control calls under load. Bounds are counts, not
// times. Meant to run under ThreadSanitizer too.
#include "block_support.h"
#include "reactor_support.h"

#include <atomic>
#include <thread>

namespace mqblk::test {
namespace {

/// Ends each request in a later poll, as hardware does; counts calls that overlap.
class SlowQueue final : public block::HardwareQueue {
  public:
    SlowQueue(std::atomic<int>& inside, std::atomic<unsigned>& overlaps, std::atomic<bool>& forbidden,
              block::Queue& queue)
        : inside_(inside), overlaps_(overlaps), forbidden_(forbidden), queue_(queue) {}
    block::Issue queue(block::Request& request, bool) noexcept override {
        if (forbidden_.load()) ++overlaps_;
        if (busy_.exchange(true)) ++overlaps_;  // one thread at a time in one queue
        ++inside_;
        if (forbidden_.load()) ++overlaps_;
        started_.push_back(&request);
        --inside_;
        busy_.store(false);
        return block::Issue::accepted;
    }
    unsigned poll() noexcept override {
        std::vector<block::Request*> ending;
        ending.swap(started_);
        for (block::Request* const request : ending)
            if (request->state == block::RequestState::in_flight) queue_.complete(*request, Status::ok);
        return static_cast<unsigned>(ending.size());
    }
    bool prepare_sleep() noexcept override { return started_.empty(); }
    block::Expired timeout(block::Request&) noexcept override { return block::Expired::extend; }
    void cancel_all(Status status) noexcept override {
        started_.clear();
        queue_.for_each_in_flight([&](block::Request& request) { queue_.complete(request, status); });
    }

  private:
    std::atomic<int>& inside_;
    std::atomic<unsigned>& overlaps_;
    std::atomic<bool>& forbidden_;
    block::Queue& queue_;
    std::atomic<bool> busy_{false};
    std::vector<block::Request*> started_;
};

class SlowDriver final : public block::Driver {
  public:
    explicit SlowDriver(Shape shape) : shape_(shape) {}
    const Shape& shape() const noexcept override { return shape_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue& queue, Reactor&) override {
        return std::make_unique<SlowQueue>(inside, overlaps, forbidden, queue);
    }
    std::atomic<int> inside{0};
    std::atomic<unsigned> overlaps{0};
    std::atomic<bool> forbidden{false};  ///< a call now is an error

  private:
    Shape shape_;
};

/// Several bios that submit themselves again until stopped or failed.
struct Load {
    static constexpr unsigned depth = 8;
    Channel& channel;
    std::atomic<bool>& stop;
    std::uint64_t limit;
    std::uint64_t done = 0, failed = 0;
    std::vector<std::byte> memory = std::vector<std::byte>(4096);
    Segment segment{memory.data(), memory.size()};
    std::array<Bio, depth> bios;

    void run() {
        for (Bio& bio : bios) {
            bio.op = Op::read;
            bio.sectors = 8;
            bio.data = {&segment, 1};
            bio.context = this;
            bio.done = [](Bio& ended) noexcept {
                auto& self = *static_cast<Load*>(ended.context);
                ++self.done;
                if (ended.status != Status::ok) ++self.failed;
                if (ended.status == Status::ok && self.done < self.limit && !self.stop.load())
                    self.channel.submit(ended);
            };
            channel.submit(bio);
        }
        while (channel.outstanding() != 0) channel.wait();
    }
};

struct Threads {
    std::shared_ptr<SlowDriver> driver;
    std::shared_ptr<block::QueueSet> set;
    std::shared_ptr<Device> device;
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> done{0}, failed{0};
    std::atomic<unsigned> running{0};
    std::vector<std::thread> threads;

    explicit Threads(block::Driver::Shape shape)
        : driver(std::make_shared<SlowDriver>(shape)), set(block::QueueSet::create(driver)) {
        block::Disk disk;
        disk.sectors = 1 << 20;
        disk.identity.name = "test";
        device = set->add_disk(std::move(disk));
    }
    void start(unsigned count, std::uint64_t each) {
        for (unsigned i = 0; i < count; ++i) {
            threads.emplace_back([this, each] {
                const auto reactor = uring_reactor(std::chrono::microseconds(5));
                auto channel = device->channel(*reactor);
                ASSERT_TRUE(channel) << channel.error().message();
                Load load{.channel = **channel, .stop = stop, .limit = each, .bios = {}};
                ++running;
                load.run();
                done += load.done;
                failed += load.failed;
                channel->reset();
            });
        }
        while (running.load() < count) std::this_thread::yield();
    }
    void join() {
        for (std::thread& thread : threads) thread.join();
        threads.clear();
    }
};

TEST(BlockThreads, FourThreadsShareTheOnlyQueue) {
    Threads all(Bench::shape(16, 1));
    all.start(4, 2000);
    all.join();
    EXPECT_EQ(all.failed.load(), 0u);
    EXPECT_GE(all.done.load(), 4 * 2000u);
    EXPECT_LE(all.done.load(), 4 * (2000u + Load::depth));
    EXPECT_EQ(all.driver->overlaps.load(), 0u);
    EXPECT_EQ(block::statistics(*all.device).of(block::OpGroup::read).ios, all.done.load());
}

TEST(BlockThreads, FourThreadsOnThreeQueuesAndFewTags) {
    block::Driver::Shape shape = Bench::shape(10, 3);
    shape.host_wide_tags = true;
    Threads all(shape);
    all.start(4, 1500);
    all.join();
    EXPECT_EQ(all.failed.load(), 0u);
    EXPECT_GE(all.done.load(), 4 * 1500u);
    EXPECT_EQ(all.driver->overlaps.load(), 0u);
}

TEST(BlockThreads, QuiesceUnderLoad) {
    for (const unsigned queues : {1u, 4u}) {
        Threads all(Bench::shape(16, queues));
        all.start(2, ~0ull);
        for (int i = 0; i < 50; ++i) {
            all.set->quiesce();
            all.driver->forbidden.store(true);
            EXPECT_EQ(all.driver->inside.load(), 0);
            std::this_thread::yield();
            all.driver->forbidden.store(false);
            all.set->unquiesce();
            std::this_thread::yield();
        }
        all.stop.store(true);
        all.join();
        EXPECT_EQ(all.driver->overlaps.load(), 0u);
        EXPECT_EQ(all.failed.load(), 0u);
    }
}

TEST(BlockThreads, FreezeUnderLoad) {
    for (const unsigned queues : {1u, 4u}) {
        Threads all(Bench::shape(16, queues));
        all.start(2, ~0ull);
        for (int i = 0; i < 20; ++i) {
            const Result<> frozen = all.set->freeze(std::chrono::seconds(60));
            ASSERT_TRUE(frozen) << frozen.error().message();
            all.driver->forbidden.store(true);
            std::this_thread::yield();
            all.driver->forbidden.store(false);
            all.set->unfreeze();
        }
        all.stop.store(true);
        all.join();
        EXPECT_EQ(all.driver->overlaps.load(), 0u);
    }
}

TEST(BlockThreads, RemovalUnderLoadLeavesNothingBehind) {
    for (int round = 0; round < 5; ++round) {
        for (const unsigned queues : {1u, 4u}) {
            Threads all(Bench::shape(4, queues));
            all.start(3, ~0ull);
            std::this_thread::yield();
            all.device->remove();
            all.join();
            EXPECT_GT(all.failed.load(), 0u);
            EXPECT_EQ(block::statistics(*all.device).in_flight, 0u);
        }
    }
}

TEST(BlockThreads, SettingsAndSizeChangeUnderLoad) {
    Threads all(Bench::shape(16, 2));
    all.start(3, ~0ull);
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(all.device->set_attribute("scheduler", i % 2 == 0 ? "mq-deadline" : "none"));
        ASSERT_TRUE(all.device->set_attribute("nr_requests", i % 2 == 0 ? "4" : "16"));
        block::update_disk(*all.device, all.device->limits(), (1u << 20) + static_cast<unsigned>(i), false);
        static_cast<void>(block::statistics(*all.device));
        std::this_thread::yield();
    }
    all.stop.store(true);
    all.join();
    EXPECT_EQ(all.failed.load(), 0u);
}

TEST(BlockThreads, AChannelCanHaveItsOwnLoop) {
    Threads all(Bench::shape(16, 2));
    auto channel = all.device->channel();
    ASSERT_TRUE(channel) << channel.error().message();
    Load load{.channel = **channel, .stop = all.stop, .limit = 1000, .bios = {}};
    load.run();
    EXPECT_GE(load.done, 1000u);
    EXPECT_EQ(load.failed, 0u);
}

TEST(BlockThreads, AQueueOutlivesTheLoopOfWhoOpenedIt) {
    Threads all(Bench::shape(16, 1));
    auto first = all.device->channel();
    auto second = all.device->channel();
    ASSERT_TRUE(first && second);
    first->reset();
    Load load{.channel = **second, .stop = all.stop, .limit = 1000, .bios = {}};
    load.run();
    EXPECT_GE(load.done, 1000u);
    EXPECT_EQ(load.failed, 0u);
}

}  // namespace
}  // namespace mqblk::test
