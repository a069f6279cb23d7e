// SPDX-License-Identifier: Apache-2.0
//
// What the block layer itself costs: from submit to completion over a driver that does nothing, and a tag.
#include "base/steady_clock.h"
#include "block/queue.h"
#include "block/tag_set.h"
#include "reactor/uring_reactor.h"

#include <mqblk/device.h>

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

using namespace mqblk;

class NothingQueue final : public block::HardwareQueue {
  public:
    block::Issue queue(block::Request&, bool) noexcept override { return block::Issue::done; }
    unsigned poll() noexcept override { return 0; }
    bool prepare_sleep() noexcept override { return true; }
    block::Expired timeout(block::Request&) noexcept override { return block::Expired::ended; }
    void cancel_all(Status) noexcept override {}
};

class NothingDriver final : public block::Driver {
  public:
    const Shape& shape() const noexcept override { return shape_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue&, Reactor&) override {
        return std::make_unique<NothingQueue>();
    }

  private:
    Shape shape_{.max_queues = 8, .depth = 128};
};

template <class T>
T need(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
}

/// A channel to a disk of 1 GiB that carries out everything at once.
struct NothingDisk {
    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = need(make_uring_reactor(clock, random));
    std::shared_ptr<Device> device =
        block::QueueSet::create(std::make_shared<NothingDriver>())->add_disk(description());
    std::unique_ptr<Channel> channel = need(device->channel(*reactor));

    static block::Disk description() {
        block::Disk disk;
        disk.sectors = 1 << 21;
        return disk;
    }
};

/// `depth` bios that submit themselves again; one iteration is one I/O.
void submit_to_completion(benchmark::State& state) {
    const auto depth = static_cast<unsigned>(state.range(0));
    const NothingDisk disk;
    Channel* const channel = disk.channel.get();
    std::vector<std::byte> memory(4096);
    const Segment segment{memory.data(), memory.size()};
    std::vector<Bio> bios(depth);
    bool running = true;
    struct Context {
        Channel& channel;
        bool& running;
    } context{*channel, running};
    for (Bio& bio : bios) {
        bio.sectors = 8;
        bio.data = {&segment, 1};
        bio.context = &context;
        bio.done = [](Bio& ended) noexcept {
            const auto& self = *static_cast<Context*>(ended.context);
            ended.sector = (ended.sector + 8 * 977) % (1 << 20);
            if (self.running) self.channel.submit(ended);
        };
        channel->submit(bio);
    }
    std::size_t done = 0;
    for (auto step : state) {
        if (done == 0) done = channel->poll();
        --done;
    }
    running = false;
    while (channel->outstanding() != 0) channel->poll();
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(submit_to_completion)->Arg(1)->Arg(32);

/// One at a time from outside poll(), as a caller that waits for each.
void submit_then_poll(benchmark::State& state) {
    const NothingDisk disk;
    Channel* const channel = disk.channel.get();
    std::vector<std::byte> memory(4096);
    const Segment segment{memory.data(), memory.size()};
    Bio bio;
    bio.sectors = 8;
    bio.data = {&segment, 1};
    bio.done = [](Bio&) noexcept {};
    for (auto step : state) {
        channel->submit(bio);
        while (channel->poll() == 0) {
        }
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(submit_then_poll);

void tag_get_put(benchmark::State& state) {
    block::TagSet tags(static_cast<unsigned>(state.range(0)));
    block::TagSet::User user(tags);
    for (auto step : state) {
        const std::uint32_t tag = user.get();
        benchmark::DoNotOptimize(tag);
        user.put(tag);
    }
}
BENCHMARK(tag_get_put)->Arg(1)->Arg(128)->Arg(65536);

}  // namespace

BENCHMARK_MAIN();
