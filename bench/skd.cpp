// SPDX-License-Identifier: Apache-2.0
//
// What a card costs: the S1120 driver and the model of the card in one thread, over a disk that does nothing, 4 KiB at
// depth 32 and 1. Each I/O crosses the block layer twice: above the driver and below the card.
#include "driver/skd/skd.h"
#include "base/steady_clock.h"
#include "device/skd/card.h"
#include "driver/null/null.h"
#include "pci/in_process.h"
#include "reactor/uring_reactor.h"

#include <mqblk/device.h>

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

using namespace mqblk;

template <class T>
T need(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
}

struct SkdOverNull {
    static constexpr std::uint64_t disk_bytes = 1ull << 32;

    explicit SkdOverNull(driver::skd::Options options) {
        driver::null::Options below;
        below.bytes = disk_bytes;
        auto card = need(device::skd::Card::create(need(driver::null::open(below)), {}));
        auto home = reactor->shareable();
        auto function = need(pci::make_in_process(std::move(card), *home));
        device = need(driver::skd::open(std::move(function), std::move(home), options));
        channel = need(device->channel(*reactor));
    }

    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = need(make_uring_reactor(clock, random));
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;
};

/// `depth` bios that submit themselves again; one iteration is one I/O.
void skd_over_null(benchmark::State& state, Op op, unsigned max_req_per_msg) {
    const auto depth = static_cast<unsigned>(state.range(0));
    driver::skd::Options options;
    options.max_req_per_msg = max_req_per_msg;
    const SkdOverNull disk(options);
    constexpr std::size_t bytes = 4096;
    std::vector<std::byte> memory(bytes * depth);
    std::vector<Segment> segments(depth);
    std::vector<Bio> bios(depth);
    struct Context {
        Channel& channel;
        bool running = true;
    } context{*disk.channel};
    for (unsigned i = 0; i < depth; ++i) {
        segments[i] = {memory.data() + i * bytes, bytes};
        Bio& bio = bios[i];
        bio.op = op;
        bio.sector = i * 8;
        bio.sectors = 8;
        bio.data = {&segments[i], 1};
        bio.context = &context;
        bio.done = [](Bio& ended) noexcept {
            const auto& self = *static_cast<Context*>(ended.context);
            if (ended.status != Status::ok) std::abort();
            ended.sector = (ended.sector + 8 * 977) % (SkdOverNull::disk_bytes / sector_bytes);
            if (self.running) self.channel.submit(ended);
        };
        disk.channel->submit(bio);
    }
    std::size_t done = 0;
    for (auto step : state) {
        while (done == 0) done = disk.channel->poll();
        --done;
    }
    context.running = false;
    while (disk.channel->outstanding() != 0) disk.channel->poll();
    state.SetItemsProcessed(state.iterations());
}

BENCHMARK_CAPTURE(skd_over_null, read, Op::read, 14)->Arg(32)->Arg(1);
BENCHMARK_CAPTURE(skd_over_null, write, Op::write, 14)->Arg(32)->Arg(1);
BENCHMARK_CAPTURE(skd_over_null, read_one_per_message, Op::read, 1)->Arg(32);

}  // namespace

BENCHMARK_MAIN();
