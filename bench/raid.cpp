// SPDX-License-Identifier: Apache-2.0
//
// What RAID-6 costs: full stripes of 8+2 members in one thread, beside ISA-L alone on memory of the same size in the
// same run, and the reads that reach members meanwhile, which must be none. Rates count the data, not P and Q.
#include "driver/raid/raid.h"
#include "base/steady_clock.h"
#include "block/statistics.h"
#include "driver/null/null.h"
#include "driver/ram/ram.h"
#include "reactor/uring_reactor.h"

#include <mqblk/device.h>

#include <benchmark/benchmark.h>
#include <isa-l/raid.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

using namespace mqblk;

constexpr unsigned data_members = 8;
constexpr std::size_t chunk = 128u << 10, stripe = data_members * chunk;
constexpr std::uint64_t member_bytes = 64u << 20;

template <class T>
T need(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
}

struct Memory {
    explicit Memory(std::size_t bytes) : all(bytes + 4096) {
        at =
            reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(all.data()) + 4095) & ~std::uintptr_t{4095});
        std::memset(at, 0x5a, bytes);
    }
    std::vector<std::byte> all;
    std::byte* at;
};

/// ISA-L alone: P and Q of so much data in stripes of this shape, from memory that is as cold as the array's.
void isal(benchmark::State& state) {
    const auto bytes = static_cast<std::size_t>(state.range(0));
    const Memory data(bytes), parity(2 * chunk);
    for (auto step : state) {
        for (std::size_t at = 0; at < bytes; at += stripe) {
            void* vectors[data_members + 2];
            for (unsigned i = 0; i < data_members; ++i) vectors[i] = data.at + at + i * chunk;
            vectors[data_members] = parity.at;
            vectors[data_members + 1] = parity.at + chunk;
            pq_gen(data_members + 2, static_cast<int>(chunk), vectors);
        }
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}

enum class Below { null, ram };

/// One request of that size after another, in pieces of `piece` bytes of memory.
void raid6(benchmark::State& state, Below below, std::size_t piece) {
    const auto bytes = static_cast<std::size_t>(state.range(0));
    SteadyClock clock;
    SeededRandom random{1};
    const auto reactor = need(make_uring_reactor(clock, random));
    std::vector<std::shared_ptr<Device>> members;
    driver::raid::Options options;
    options.create = true;
    options.chunk = chunk;
    for (unsigned i = 0; i < data_members + 2; ++i) {
        driver::null::Options null;
        driver::ram::Options ram;
        null.bytes = ram.bytes = member_bytes;
        ram.populate = true;
        members.push_back(below == Below::null ? need(driver::null::open(null)) : need(driver::ram::open(ram)));
        options.members.push_back({members.back(), "member", false});
    }
    Result<std::shared_ptr<Device>> opened = fail(Errc::closed, "not yet");
    bool ended = false;
    const driver::raid::Home home{reactor.get(), [](const std::function<void()>& work) { work(); }};
    spawn(driver::raid::open(options, home), [&](Result<std::shared_ptr<Device>> result) {
        opened = std::move(result);
        ended = true;
    });
    while (!ended) reactor->run_once(Reactor::Sleep::yes);
    auto device = need(std::move(opened));
    auto channel = need(device->channel(*reactor));

    const Memory data(bytes);
    std::vector<Segment> segments;
    for (std::size_t at = 0; at < bytes; at += piece) segments.push_back({data.at + at, piece});
    Bio bio;
    bio.op = Op::write;
    bio.sectors = bytes / sector_bytes;
    bio.data = segments;
    bool done = false;
    bio.context = &done;
    bio.done = [](Bio& finished) noexcept {
        if (finished.status != Status::ok) std::abort();
        *static_cast<bool*>(finished.context) = true;
    };
    const auto reads = [&] {
        std::uint64_t sum = 0;
        for (const auto& member : members) sum += block::statistics(*member).of(block::OpGroup::read).ios;
        return sum;
    };
    const std::uint64_t reads_before = reads();
    for (auto step : state) {
        done = false;
        channel->submit(bio);
        while (!done) reactor->run_once(Reactor::Sleep::no);
        bio.sector = (bio.sector + bio.sectors) % (device->sectors() / bio.sectors * bio.sectors);
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
    state.counters["member_reads"] = static_cast<double>(reads() - reads_before);
    channel.reset();
}

BENCHMARK(isal)->Arg(1 << 20)->Arg(8 << 20);
BENCHMARK_CAPTURE(raid6, null, Below::null, std::size_t{1} << 20)->Arg(1 << 20)->Arg(8 << 20);
BENCHMARK_CAPTURE(raid6, null_scattered_pages, Below::null, std::size_t{4096})->Arg(8 << 20);
BENCHMARK_CAPTURE(raid6, ram, Below::ram, std::size_t{1} << 20)->Arg(8 << 20);

}  // namespace

BENCHMARK_MAIN();
