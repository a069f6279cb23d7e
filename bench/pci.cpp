// SPDX-License-Identifier: Apache-2.0
//
// What the PCI layer itself costs: a command of 64 bytes that a model fetches, and its completion word, through each
// way to have a model; registers; translation of an I/O's memory. The model of the vfio-user runs is in a thread of its
// own.
#include "base/steady_clock.h"
#include "pci/in_process.h"
#include "pci/vfio_user_client.h"
#include "pci/vfio_user_server.h"
#include "reactor/uring_reactor.h"

#include <benchmark/benchmark.h>

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

namespace {

using namespace mqblk;

template <class T>
T need(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
}

constexpr std::uint64_t memory_register = 0, doorbell_register = 8, area = 0x1000;

/// Fetches 64 bytes at the address in its register for each new value of its doorbell, and writes the value behind
/// them.
class EchoModel final : public pci::Model, Poller {
  public:
    EchoModel() {
        spec_.bars[0] = {0x2000, false, false};
        spec_.areas = {{0, area, 4096}};
    }
    ~EchoModel() override { host_->reactor().remove(*this); }
    const pci::FunctionSpec& spec() const noexcept override { return spec_; }
    Result<> attach(pci::Host& host) override {
        host_ = &host;
        host.reactor().add(*this);
        return {};
    }
    std::uint64_t bar_read(unsigned, std::uint64_t, unsigned) noexcept override { return seen_; }
    void bar_write(unsigned, std::uint64_t offset, unsigned, std::uint64_t value) noexcept override {
        if (offset == memory_register) {
            memory_ = value;
        } else {
            run(static_cast<std::uint32_t>(value));
        }
    }
    void reset() noexcept override { memory_ = seen_ = 0; }
    bool quiet() const noexcept override { return true; }

  private:
    unsigned poll() noexcept override {
        if (!host_->areas_mapped()) return 0;
        const auto value = *reinterpret_cast<const volatile std::uint32_t*>(host_->area(0));
        if (value == seen_) return 0;
        std::atomic_thread_fence(std::memory_order_acquire);
        run(value);
        return 1;
    }
    bool prepare_sleep() noexcept override { return !host_->areas_mapped(); }
    void run(std::uint32_t value) noexcept {
        seen_ = value;
        if (host_->memory().load(memory_, command_)) static_cast<void>(host_->memory().publish(memory_ + 64, value));
    }

    pci::FunctionSpec spec_;
    pci::Host* host_ = nullptr;
    std::array<std::byte, 64> command_{};
    std::uint64_t memory_ = 0;
    std::uint32_t seen_ = 0;
};

struct InProcess {
    explicit InProcess(pci::InProcessOptions options = {})
        : function(need(pci::make_in_process(std::make_unique<EchoModel>(), *reactor, options))) {}
    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = need(make_uring_reactor(clock, random));
    std::unique_ptr<pci::Function> function;
};

struct OverSocket {
    explicit OverSocket(bool map_areas, bool posted_writes = false) {
        if (::mkdtemp(directory.data()) == nullptr) std::exit(1);
        server = need(pci::VfioUserServer::listen(*reactor, directory + "/s", std::make_unique<EchoModel>(),
                                                  {.map_areas = map_areas}));
        thread = std::thread([this] {
            while (!stop.load()) reactor->run_once(Reactor::Sleep::yes);
            server.reset();
        });
        function = need(pci::open_vfio_user(directory + "/s", {.posted_writes = posted_writes}));
    }
    ~OverSocket() {
        function.reset();
        stop.store(true);
        reactor->wake();
        thread.join();
        ::rmdir(directory.c_str());
    }
    std::string directory = "/tmp/mqblk-bench-XXXXXX";
    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = need(make_uring_reactor(clock, random));
    std::unique_ptr<pci::VfioUserServer> server;
    std::atomic<bool> stop{false};
    std::thread thread;
    std::unique_ptr<pci::Function> function;
};

/// One command after the other, each with its doorbell.
void run_commands(benchmark::State& state, pci::Function& function, std::uint64_t doorbell) {
    const auto memory = need(function.dma().allocate(4096));
    const pci::Bar bar = need(function.bar_at(0, doorbell));
    bar.write64(memory_register, memory.address());
    auto& done = *reinterpret_cast<std::uint32_t*>(memory.data() + 64);
    std::uint32_t value = 0;
    for (auto _ : state) {
        std::memset(memory.data(), static_cast<int>(++value), 64);
        bar.write32(doorbell, value);
        while (std::atomic_ref(done).load(std::memory_order_acquire) != value) {
        }
    }
    state.SetItemsProcessed(state.iterations());
}

void CommandInProcess(benchmark::State& state) {
    const InProcess world;
    run_commands(state, *world.function, doorbell_register);
}
BENCHMARK(CommandInProcess);

void CommandInProcessChecked(benchmark::State& state) {
    const InProcess world({.reaches_everything = false});
    run_commands(state, *world.function, doorbell_register);
}
BENCHMARK(CommandInProcessChecked);

void CommandByMappedDoorbell(benchmark::State& state) {
    const OverSocket world(true);
    run_commands(state, *world.function, area);
}
BENCHMARK(CommandByMappedDoorbell)->UseRealTime();

void CommandByPostedWrite(benchmark::State& state) {
    const OverSocket world(false, true);
    run_commands(state, *world.function, doorbell_register);
}
BENCHMARK(CommandByPostedWrite)->UseRealTime();

void CommandByMessage(benchmark::State& state) {
    const OverSocket world(false);
    run_commands(state, *world.function, doorbell_register);
}
BENCHMARK(CommandByMessage)->UseRealTime();

void RegisterReadByMessage(benchmark::State& state) {
    const OverSocket world(false);
    const pci::Bar bar = need(world.function->bar(0));
    for (auto _ : state) benchmark::DoNotOptimize(bar.read32(doorbell_register));
}
BENCHMARK(RegisterReadByMessage)->UseRealTime();

/// Doorbells one after the other, as a driver with much to do rings them.
void PostedWriteByMessage(benchmark::State& state) {
    const OverSocket world(false);
    const pci::Bar bar = need(world.function->bar(0));
    std::uint32_t value = 0;
    for (auto _ : state) bar.write32(doorbell_register, ++value);
    benchmark::DoNotOptimize(bar.read32(doorbell_register));
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(PostedWriteByMessage)->UseRealTime();

void TranslateSegments(benchmark::State& state) {
    const InProcess world({.reaches_everything = false});
    pci::DmaSpace& dma = world.function->dma();
    const auto count = static_cast<std::size_t>(state.range(0));
    const auto buffer = need(memory::Buffer::allocate(8192 * count, dma.backing()));
    const auto mapping = need(dma.map(buffer));
    std::vector<Segment> list;
    for (std::size_t i = 0; i < count; ++i) list.push_back({buffer.data() + 8192 * i, 4096});
    std::vector<pci::DmaSegment> room(count);
    for (auto _ : state) benchmark::DoNotOptimize(dma.translate(list, room));
}
BENCHMARK(TranslateSegments)->Arg(1)->Arg(32);

}  // namespace

BENCHMARK_MAIN();
