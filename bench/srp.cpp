// SPDX-License-Identifier: Apache-2.0
//
// What SRP costs in one thread, over RDMA in this process: the mapping of 256 scattered pages to descriptors and back,
// for each way to register; and initiator and target end to end over a disk that does nothing, from 4 KiB to 8 MiB in
// 2048 scattered pages, which has to stay one command.
#include "driver/srp/srp.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "driver/null/null.h"
#include "driver/srp/mapper.h"
#include "memory/buffer.h"
#include "reactor/uring_reactor.h"
#include "registry/srp_loop.h"

#include <mqblk/device.h>

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

namespace {

using namespace mqblk;
namespace rdma = fabric::rdma;

constexpr std::size_t page = 4096;

template <class T>
T need(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
}

/// Pages that do not touch, in no order.
struct Pages {
    explicit Pages(std::size_t count) : memory(need(memory::Buffer::allocate(2 * count * page))) {
        for (std::size_t i = 0; i < count; ++i)
            list.push_back({memory.data() + (i * 769 % count) * 2 * page, page});  // 769: odd, so each once
    }
    memory::Buffer memory;
    std::vector<Segment> list;
};

/// A queue pair that is connected to somebody who does nothing.
struct Connected final : rdma::QueuePairHandler {
    explicit Connected(const rdma::Limits& limits) : network({.limits = limits, .refuse_registration = {}}) {
        listener = need(network.listen(*reactor, {.host = "target"}, [this](auto pair, auto) {
            far = std::move(pair);
            far->set_handler(silent);
            make(*far, far_completions);
            if (!far->accept({})) std::exit(1);
        }));
        near = network.open(*reactor, {.host = "target"}, *this, std::chrono::seconds(5));
        while (!stands) reactor->run_once(Reactor::Sleep::no);
    }
    ~Connected() {
        near.reset();
        far.reset();
    }
    static void make(rdma::QueuePair& pair, std::unique_ptr<rdma::CompletionQueue>& completions) {
        completions = need(pair.domain()->make_completion_queue(256));
        if (!pair.create({.max_sends = 128, .max_receives = 128}, *completions)) std::exit(1);
    }
    void resolved() noexcept override {
        make(*near, near_completions);
        near->connect({}, std::chrono::seconds(5));
    }
    void accepted(std::span<const std::byte>) noexcept override { stands = true; }

    struct Silent final : rdma::QueuePairHandler {
    } silent;
    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = need(make_uring_reactor(clock, random));
    rdma::InProcessNetwork network;
    std::unique_ptr<rdma::CompletionQueue> near_completions, far_completions;
    std::unique_ptr<rdma::QueuePair> near, far;
    std::unique_ptr<rdma::QueuePairListener> listener;
    bool stands = false;
};

/// One iteration: descriptors for all the pages, and all taken back.
void map_256_pages(benchmark::State& state, bool fast, bool pools) {
    Connected connected({.fast_registration = fast, .pools = pools});
    auto mapper = need(driver::srp::Mapper::create(
        connected.near->domain(), {.slots = 8, .table_entries = 2048, .max_bytes = 8u << 20, .prefer_fast = fast}));
    const Pages pages(256);
    std::uint32_t descriptors = 0;
    for (auto step : state) {
        const auto mapped = mapper->map(*connected.near, 0, true, [&](auto&& add) {
            for (const Segment& each : pages.list) add(each.data, each.bytes);
        });
        if (!mapped.ok) std::abort();
        descriptors = mapped.count;
        mapper->unmap(*connected.near, 0);
    }
    state.counters["descriptors"] = descriptors;
}

struct SrpOverNull {
    static constexpr std::uint64_t disk_bytes = 1ull << 32;

    SrpOverNull() {
        driver::null::Options below;
        below.bytes = disk_bytes;
        loop = need(registry::SrpLoop::create(*home, {}, {{.lun = 0, .device = need(driver::null::open(below))}}));
        std::optional<Result<std::shared_ptr<driver::srp::Initiator>>> result;
        driver::srp::Options options;
        options.ch_count = 2;
        options.cmd_sg_entries = 255;
        spawn(driver::srp::Initiator::connect(*reactor, loop->network(), registry::SrpLoop::address(), options, {}),
              [&](auto value) { result = std::move(value); });
        while (!result) reactor->run_once(Reactor::Sleep::no);
        initiator = need(std::move(*result));
        device = need(initiator->device(0));
        channel = need(device->channel(*reactor));
    }
    ~SrpOverNull() {
        channel.reset();
        device.reset();
        initiator.reset();
        for (unsigned i = 0; i < 10; ++i) reactor->run_once(Reactor::Sleep::no);
    }

    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> home = need(make_uring_reactor(clock, random));
    std::unique_ptr<registry::SrpLoop> loop;
    std::unique_ptr<Reactor> reactor = need(make_uring_reactor(clock, random));
    std::shared_ptr<driver::srp::Initiator> initiator;
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;
};

/// `depth` bios that submit themselves again; one iteration is one I/O of `pages` pages.
void srp_over_null(benchmark::State& state, Op op) {
    const auto depth = static_cast<unsigned>(state.range(0));
    const auto count = static_cast<std::size_t>(state.range(1));
    const SrpOverNull disk;
    struct Context {
        Channel& channel;
        bool running = true;
        std::uint64_t ended = 0;
    } context{*disk.channel};
    std::vector<Pages> pages;
    std::vector<Bio> bios(depth);
    for (unsigned i = 0; i < depth; ++i) pages.emplace_back(count);
    for (unsigned i = 0; i < depth; ++i) {
        Bio& bio = bios[i];
        bio.op = op;
        bio.sectors = count * page / sector_bytes;
        bio.data = pages[i].list;
        bio.context = &context;
        bio.done = [](Bio& ended) noexcept {
            auto& self = *static_cast<Context*>(ended.context);
            if (ended.status != Status::ok) std::abort();
            ++self.ended;
            if (self.running) self.channel.submit(ended);
        };
        disk.channel->submit(bio);
    }
    // The target's end is the reactor's to poll.
    const auto turn_until = [&](std::uint64_t ended) {
        while (context.ended < ended) {
            disk.reactor->run_once(Reactor::Sleep::no);
            disk.channel->poll();
        }
    };
    turn_until(4 * depth);  // the first one of a new nexus goes twice, for its unit attention
    std::uint64_t done = context.ended;
    const auto before = disk.initiator->counters();
    for (auto step : state) turn_until(++done);
    const auto after = disk.initiator->counters();
    context.running = false;
    for (; disk.channel->outstanding() != 0; disk.channel->poll()) disk.reactor->run_once(Reactor::Sleep::no);
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * count * page));
    state.counters["commands_per_io"] = static_cast<double>(after.commands - before.commands) /
                                        static_cast<double>(std::max<benchmark::IterationCount>(state.iterations(), 1));
    state.counters["external"] = static_cast<double>(after.external - before.external);
}

BENCHMARK_CAPTURE(map_256_pages, fast_registration, true, false);
BENCHMARK_CAPTURE(map_256_pages, pool, false, true);
BENCHMARK_CAPTURE(map_256_pages, ranges, false, false);
BENCHMARK_CAPTURE(srp_over_null, read, Op::read)->Args({1, 1})->Args({32, 1})->Args({4, 256})->Args({1, 2048});
BENCHMARK_CAPTURE(srp_over_null, write, Op::write)->Args({1, 1})->Args({32, 1})->Args({4, 256})->Args({1, 2048});

}  // namespace

BENCHMARK_MAIN();
