// SPDX-License-Identifier: Apache-2.0
//
// The arm is one number: until when it is busy. Whoever comes takes its share behind that with one atomic exchange, so
// within a queue requests are due in the order in which they came.
#include "driver/delay/delay.h"

#include "base/units.h"
#include "block/device_core.h"
#include "block/queue.h"
#include "reactor/reactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace mqblk::driver::delay {

namespace {

using block::Issue;
using block::Request;

constexpr std::uint32_t max_segments = 512;

/// What all queues of the disk share.
struct Arm {
    const Options options;
    std::atomic<std::int64_t> busy_until_ns{0};
    std::atomic<std::uint64_t> next_sector{0};

    explicit Arm(const Options& given) : options(given) {}

    /// When a request that comes now reaches the device below.
    [[nodiscard]] Time reserve(const Request& request, Time now) noexcept {
        std::int64_t busy_ns = 0;
        if (carries_data(request.op)) {
            const std::uint64_t bytes = request.data_bytes();
            if (options.bytes_per_second != 0) {
                busy_ns = static_cast<std::int64_t>(static_cast<unsigned __int128>(bytes) * 1'000'000'000u /
                                                    options.bytes_per_second);
            }
            const std::uint64_t expected =
                next_sector.exchange(request.sector + request.sectors, std::memory_order_relaxed);
            if (expected != request.sector) busy_ns += options.seek.count();
        }
        const std::int64_t now_ns = now.time_since_epoch().count();
        std::int64_t before = busy_until_ns.load(std::memory_order_relaxed);
        std::int64_t after;
        do {
            after = std::max(before, now_ns) + busy_ns;
        } while (!busy_until_ns.compare_exchange_weak(before, after, std::memory_order_relaxed));
        return Time(Duration(after)) + options.latency;
    }
};

class DelayQueue;

struct Payload {
    Request* next = nullptr;
    DelayQueue* owner = nullptr;
    Time due{};
    Bio bio;
    Segment pieces[max_segments];
};

class DelayQueue final : public block::HardwareQueue {
  public:
    DelayQueue(Arm& arm, block::Queue& queue, Reactor& reactor, std::unique_ptr<Channel> below)
        : arm_(arm), queue_(queue), reactor_(reactor), below_(std::move(below)), alarm_([] {}) {}

    void prepare(Request& request) override {
        auto* const payload = new (&request.payload<Payload>()) Payload;
        payload->owner = this;
        payload->bio.context = &request;
        payload->bio.done = [](Bio& bio) noexcept {
            auto& ended = *static_cast<Request*>(bio.context);
            ended.payload<Payload>().owner->ended(ended);
        };
    }

    Issue queue(Request& request, bool) noexcept override {
        Payload& payload = request.payload<Payload>();
        payload.due = std::max(last_due_, arm_.reserve(request, reactor_.now()));
        last_due_ = payload.due;
        payload.next = nullptr;
        (first_ == nullptr ? first_ : last_->payload<Payload>().next) = &request;
        last_ = &request;
        return Issue::accepted;
    }

    unsigned poll() noexcept override {
        if (first_ != nullptr) {
            const Time now = reactor_.now();
            while (first_ != nullptr && first_->payload<Payload>().due <= now) send(take());
        }
        if (below_->outstanding() != 0) below_->poll();
        unsigned completed = 0;
        while (finished_ != nullptr) {
            Request& request = *finished_;
            finished_ = request.payload<Payload>().next;
            queue_.complete(request, request.payload<Payload>().bio.status);
            ++completed;
        }
        return completed;
    }

    bool prepare_sleep() noexcept override {
        if (finished_ != nullptr) return false;
        if (first_ != nullptr) alarm_.arm(reactor_, first_->payload<Payload>().due);
        return true;
    }
    /// The device below has time-outs of its own.
    block::Expired timeout(Request&) noexcept override { return block::Expired::extend; }
    /// What waits ends now; what the device below has ends when it does.
    void cancel_all(Status status) noexcept override {
        while (first_ != nullptr) queue_.complete(take(), status);
    }

  private:
    Request& take() noexcept {
        Request& request = *first_;
        first_ = request.payload<Payload>().next;
        return request;
    }

    void send(Request& request) noexcept {
        Payload& payload = request.payload<Payload>();
        Bio& bio = payload.bio;
        bio.op = request.op;
        bio.flags = request.flags;
        bio.status = Status::ok;
        bio.priority = request.priority;
        bio.sector = request.sector;
        bio.sectors = request.sectors;
        std::size_t count = 0;
        if (carries_data(request.op)) {
            request.for_each_segment(
                [&](std::byte* data, std::size_t bytes) { payload.pieces[count++] = {data, bytes}; });
        }
        bio.data = {payload.pieces, count};
        below_->submit(bio);
    }

    void ended(Request& request) noexcept {
        request.payload<Payload>().next = finished_;
        finished_ = &request;
    }

    Arm& arm_;
    block::Queue& queue_;
    Reactor& reactor_;
    const std::unique_ptr<Channel> below_;
    Timer alarm_;  // ends a sleep; poll() does the rest
    Request* first_ = nullptr;
    Request* last_ = nullptr;
    Request* finished_ = nullptr;
    Time last_due_{};
};

class DelayDriver final : public block::Driver {
  public:
    DelayDriver(std::shared_ptr<Device> below, const Options& options) : below_(std::move(below)), arm_(options) {
        block::DiskOptions disk;
        disk.queues = options.queues;
        disk.depth = options.depth;
        shape_ = block::shape_for(disk, sizeof(Payload));
    }
    const Shape& shape() const noexcept override { return shape_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue& queue, Reactor& reactor) override {
        auto channel = below_->channel(reactor);
        if (!channel) return std::unexpected(channel.error());
        return std::make_unique<DelayQueue>(arm_, queue, reactor, std::move(*channel));
    }

  private:
    const std::shared_ptr<Device> below_;
    Arm arm_;
    Shape shape_;
};

}  // namespace

Result<std::shared_ptr<Device>> open(std::shared_ptr<Device> below, const Options& options) {
    for (const auto& [name, value] : {std::pair{"latency", options.latency}, {"seek", options.seek}}) {
        if (value < Duration::zero() || value > Options::longest) {
            return fail(Errc::invalid_argument, fmt::format("delay: {}={}: must be from 0 to {}", name,
                                                            format_duration(value), format_duration(Options::longest)));
        }
    }
    block::Disk disk;
    disk.limits = below->limits();
    disk.limits.max_segments = std::min(disk.limits.max_segments, max_segments);
    disk.limits.rotational |= options.seek != Duration::zero();
    disk.sectors = below->sectors();
    disk.read_only = below->read_only();
    disk.identity = below->identity();
    disk.identity.driver = "delay";
    disk.identity.name = options.name;
    disk.reads_nothing = block::reads_nothing(*below);
    disk.details = {{"latency", format_duration(options.latency)},
                    {"seek", format_duration(options.seek)},
                    {"bytes_per_second", fmt::format("{}", options.bytes_per_second)}};
    return block::QueueSet::create(std::make_shared<DelayDriver>(std::move(below), options))->add_disk(std::move(disk));
}

}  // namespace mqblk::driver::delay
