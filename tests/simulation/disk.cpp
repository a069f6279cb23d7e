// SPDX-License-Identifier: Apache-2.0
//
// Invariant: `cached` is what a read sees, `stable` what a power cut leaves at least; they differ in dirty blocks only.
#include "simulation/disk.h"

#include "block/device_core.h"
#include "block/queue.h"
#include "reactor/reactor.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mqblk::simulation {

class SimulatedDiskQueue;

struct SimulatedDisk::Media {
    Random& random;
    DiskOptions options;
    std::vector<std::byte> cached, stable;
    std::vector<bool> dirty;  // by block
    std::vector<SimulatedDiskQueue*> queues;
    bool hanging = false, refusing = false;

    Media(Random& r, const DiskOptions& o)
        : random(r), options(o), cached(o.bytes), stable(o.bytes), dirty(o.bytes / o.block_bytes) {}

    [[nodiscard]] bool chance(unsigned per_mille) { return random.below(1000) < per_mille; }
    [[nodiscard]] Duration between(Duration least, Duration most) {
        return least + Duration(static_cast<Duration::rep>(
                           random.below(static_cast<std::uint64_t>((most - least).count()) + 1)));
    }
    [[nodiscard]] Duration latency() {
        if (chance(options.slow_per_mille)) return between(options.most_latency, options.slow_latency);
        return between(options.least_latency, options.most_latency);
    }
    [[nodiscard]] std::span<std::byte> block(std::vector<std::byte>& of, std::uint64_t number) const {
        return std::span(of).subspan(number * options.block_bytes, options.block_bytes);
    }
    /// What was written to a block stays when the power fails.
    void settle(std::uint64_t number) {
        if (!dirty[number]) return;
        std::ranges::copy(block(cached, number), block(stable, number).begin());
        dirty[number] = false;
    }
    void flush() {
        for (std::uint64_t number = 0; number < dirty.size(); ++number) settle(number);
    }
    void read(const block::Request&);
    void change(const block::Request&, bool all);
    Status execute(block::Request&);
};

namespace {

struct Pending {
    block::Request* request;
    Time due;
    bool done;      // carried out when it was queued
    Status status;  // if so
};

}  // namespace

void SimulatedDisk::Media::read(const block::Request& request) {
    const std::byte* at = cached.data() + request.sector * sector_bytes;
    request.for_each_segment([&](std::byte* data, std::size_t bytes) {
        std::memcpy(data, at, bytes);
        at += bytes;
    });
}

/// Carries a write, discard or zeroing out; not `all` of it: each block or not.
void SimulatedDisk::Media::change(const block::Request& request, bool all) {
    std::vector<std::byte> data(request.sectors * sector_bytes);
    if (request.op == Op::write) {
        std::byte* to = data.data();
        request.for_each_segment([&](const std::byte* from, std::size_t bytes) {
            std::memcpy(to, from, bytes);
            to += bytes;
        });
    }
    const std::uint64_t first = request.sector * sector_bytes / options.block_bytes;
    const std::uint64_t count = data.size() / options.block_bytes;
    for (std::uint64_t i = 0; i < count; ++i) {
        if (!all && chance(500)) continue;
        if (request.op == Op::discard && chance(500)) continue;  // it may keep what it had
        std::ranges::copy(std::span(data).subspan(i * options.block_bytes, options.block_bytes),
                          block(cached, first + i).begin());
        dirty[first + i] = true;
        if (!options.write_cache || (request.flags & bio_fua) != 0) settle(first + i);
    }
}

Status SimulatedDisk::Media::execute(block::Request& request) {
    if ((request.sector + request.sectors) * sector_bytes > cached.size()) return Status::out_of_range;
    const bool error = chance(options.errors_per_mille);
    switch (request.op) {
        case Op::read:
            if (!error) read(request);
            break;
        case Op::flush:
            if (!error) flush();
            break;
        default:
            change(request, !error);
    }
    return error ? Status::medium_error : Status::ok;
}

class SimulatedDiskQueue final : public block::HardwareQueue {
  public:
    SimulatedDiskQueue(std::shared_ptr<SimulatedDisk::Media> media, block::Queue& queue, Reactor& reactor)
        : media_(std::move(media)), queue_(queue), reactor_(reactor), alarm_([] {}) {
        media_->queues.push_back(this);
    }
    ~SimulatedDiskQueue() override { std::erase(media_->queues, this); }

    block::Issue queue(block::Request& request, bool) noexcept override {
        const bool early = media_->chance(500) || media_->refusing;
        const Status status = media_->refusing ? Status::transport : early ? media_->execute(request) : Status::ok;
        pending_.push_back({&request, reactor_.now() + media_->latency(), early, status});
        return block::Issue::accepted;
    }
    unsigned poll() noexcept override {
        if (media_->hanging) return 0;
        return end_if([now = reactor_.now()](const Pending& pending) { return pending.due <= now; });
    }
    bool prepare_sleep() noexcept override {
        if (media_->hanging || pending_.empty()) return true;
        const auto first = std::ranges::min_element(pending_, {}, &Pending::due);
        if (first->due <= reactor_.now()) return false;
        alarm_.arm(reactor_, first->due);
        return true;
    }
    block::Expired timeout(block::Request&) noexcept override { return block::Expired::extend; }
    void cancel_all(Status status) noexcept override {
        for (const Pending& pending : std::exchange(pending_, {})) queue_.complete(*pending.request, status);
    }

    void wake() noexcept { reactor_.wake(); }
    /// The power fails: everything ends at the next poll, as failed, some of it carried out.
    void lose_power() {
        for (Pending& pending : pending_) pending = {pending.request, reactor_.now(), true, Status::io_error};
        wake();
    }
    [[nodiscard]] unsigned outstanding() const noexcept { return static_cast<unsigned>(pending_.size()); }

  private:
    template <class Due>
    unsigned end_if(Due due) noexcept {
        std::vector<Pending> ended;
        std::erase_if(pending_, [&](const Pending& pending) {
            if (!due(pending)) return false;
            ended.push_back(pending);
            return true;
        });
        for (const Pending& pending : ended) {
            const Status status = pending.done ? pending.status : media_->execute(*pending.request);
            queue_.complete(*pending.request, status);
        }
        return static_cast<unsigned>(ended.size());
    }

    const std::shared_ptr<SimulatedDisk::Media> media_;
    block::Queue& queue_;
    Reactor& reactor_;
    Timer alarm_;
    std::vector<Pending> pending_;
};

namespace {

class SimulatedDiskDriver final : public block::Driver {
  public:
    explicit SimulatedDiskDriver(std::shared_ptr<SimulatedDisk::Media> media) : media_(std::move(media)) {
        shape_.max_queues = media_->options.queues;
        shape_.depth = media_->options.depth;
    }
    const Shape& shape() const noexcept override { return shape_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue& queue, Reactor& reactor) override {
        return std::make_unique<SimulatedDiskQueue>(media_, queue, reactor);
    }

  private:
    const std::shared_ptr<SimulatedDisk::Media> media_;
    Shape shape_;
};

block::Disk describe(const DiskOptions& options) {
    block::Disk disk;
    disk.limits.logical_block_size = disk.limits.physical_block_size = disk.limits.io_min = options.block_bytes;
    disk.limits.max_discard_sectors = disk.limits.max_write_zeroes_sectors = 1u << 20;
    disk.limits.discard_granularity = options.block_bytes;
    disk.limits.write_cache = options.write_cache;
    disk.limits.fua = options.write_cache && options.fua;
    disk.sectors = options.bytes / sector_bytes;
    disk.identity.name = "simulated";
    disk.identity.driver = "simulated";
    return disk;
}

}  // namespace

SimulatedDisk::SimulatedDisk(Random& random, const DiskOptions& options)
    : media_(std::make_shared<Media>(random, options)),
      device_(block::QueueSet::create(std::make_shared<SimulatedDiskDriver>(media_))->add_disk(describe(options))) {}

SimulatedDisk::~SimulatedDisk() = default;

void SimulatedDisk::resize(std::uint64_t bytes) {
    const std::uint64_t size = std::min<std::uint64_t>(bytes, media_->cached.size());
    block::update_disk(*device_, device_->core().disk_limits(), size / sector_bytes, false);
}

void SimulatedDisk::power_cut() {
    for (SimulatedDiskQueue* queue : media_->queues) queue->lose_power();
    for (std::uint64_t number = 0; number < media_->dirty.size(); ++number) {
        if (media_->dirty[number] && media_->chance(500)) media_->settle(number);
        media_->dirty[number] = false;
    }
    media_->cached = media_->stable;
}

void SimulatedDisk::hang(bool on) {
    media_->hanging = on;
    for (SimulatedDiskQueue* queue : media_->queues) queue->wake();
}

void SimulatedDisk::set_errors(unsigned per_mille) {
    media_->options.errors_per_mille = per_mille;
}

void SimulatedDisk::refuse(bool on) {
    media_->refusing = on;
    if (!on) return;
    for (SimulatedDiskQueue* queue : media_->queues) queue->lose_power();
}

void SimulatedDisk::damage(std::uint64_t offset, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
        media_->cached[offset + i] ^= std::byte{0x5a};
        media_->stable[offset + i] = media_->cached[offset + i];
    }
}

unsigned SimulatedDisk::outstanding() const noexcept {
    unsigned sum = 0;
    for (const SimulatedDiskQueue* queue : media_->queues) sum += queue->outstanding();
    return sum;
}

}  // namespace mqblk::simulation
