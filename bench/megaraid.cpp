// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID driver: reads of 4 KiB at depth 32 on the model in this process, which has a thread of its own, over
// twelve null disks: the threads (the argument) each have a hardware queue and use all of the disks in turn. And what a
// command's index costs: tags taken and given back, of one space for all threads.
#include "driver/megaraid/megaraid.h"
#include "base/steady_clock.h"
#include "block/tag_set.h"
#include "device/megaraid/controller.h"
#include "driver/null/null.h"
#include "pci/in_process.h"
#include "reactor/uring_reactor.h"
#include "registry/reactor_thread.h"

#include <mqblk/device.h>

#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

using namespace mqblk;
namespace mr = driver::megaraid;

constexpr unsigned disks = 12, depth = 32;
constexpr std::size_t io_bytes = 4096;

template <class T>
T need(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
}

/// Made by the first thread of a run, used by all.
std::shared_ptr<mr::Adapter> make_adapter(unsigned queues) {
    static const SteadyClock clock;
    const std::shared_ptr<registry::ReactorThread> thread =
        need(registry::ReactorThread::start(clock, {.name = "megaraid"}));
    std::unique_ptr<pci::Function> function;
    thread->run([&] {
        std::vector<std::shared_ptr<Device>> nulls;
        for (unsigned i = 0; i < disks; ++i) {
            driver::null::Options options;
            options.bytes = 1ull << 30;
            nulls.push_back(need(driver::null::open(options)));
        }
        function = need(pci::make_in_process(need(device::megaraid::Controller::create(std::move(nulls), {}, {})),
                                             thread->reactor()));
    });
    mr::Options options;
    options.queues = queues;
    return need(mr::Adapter::open(std::move(function), mr::threaded_control(thread->reactor(), thread), options));
}

/// One thread's I/O.
class Reader {
  public:
    explicit Reader(mr::Adapter& adapter) {
        for (unsigned i = 0; i < disks; ++i) {
            devices_.push_back(need(adapter.device(mr::Kind::disk, i)));
            channels_.push_back(need(devices_.back()->channel(*reactor_)));
        }
        for (unsigned i = 0; i < depth; ++i) {
            Io& io = ios_[i];
            io.reader = this;
            io.segment = {data_.data() + i * io_bytes, io_bytes};
            io.bio.context = &io;
            io.bio.sectors = io_bytes / sector_bytes;
            io.bio.data = {&io.segment, 1};
            io.bio.done = [](Bio& bio) noexcept { static_cast<Io*>(bio.context)->reader->ended(bio); };
        }
    }
    ~Reader() {
        again_ = false;
        while (outstanding_ > 0) reactor_->run_once(Reactor::Sleep::yes);
    }

    void start() {
        for (Io& io : ios_) submit(io.bio);
    }
    std::uint64_t run_some() {
        const std::uint64_t before = done_;
        while (done_ == before) reactor_->run_once(Reactor::Sleep::yes);
        return done_ - before;
    }

  private:
    struct Io {
        Bio bio;
        Segment segment{nullptr, 0};
        Reader* reader = nullptr;
    };
    void submit(Bio& bio) noexcept {
        ++outstanding_;
        bio.sector = next_ % (1u << 21) / 8 * 8;
        channels_[next_ % disks]->submit(bio);
        next_ += 8 * 7919 + 1;
    }
    void ended(Bio& bio) noexcept {
        --outstanding_;
        ++done_;
        if (bio.status != Status::ok) std::abort();
        if (again_) submit(bio);
    }

    SteadyClock clock_;
    SeededRandom random_{1};
    std::unique_ptr<Reactor> reactor_ = need(make_uring_reactor(clock_, random_));
    std::vector<std::shared_ptr<Device>> devices_;
    std::vector<std::unique_ptr<Channel>> channels_;
    std::vector<std::byte> data_ = std::vector<std::byte>(depth * io_bytes);
    std::array<Io, depth> ios_;
    std::uint64_t done_ = 0, next_ = 0;
    unsigned outstanding_ = 0;
    bool again_ = true;
};

std::shared_ptr<mr::Adapter> shared_adapter;

void reads(benchmark::State& state) {
    Reader reader(*shared_adapter);
    reader.start();
    std::uint64_t done = 0;
    for (auto _ : state) done += reader.run_some();
    state.SetItemsProcessed(static_cast<std::int64_t>(done));
}
void open_adapter(const benchmark::State& state) {
    shared_adapter = make_adapter(static_cast<unsigned>(state.threads()));
}
void close_adapter(const benchmark::State&) {
    shared_adapter.reset();
}
BENCHMARK(reads)->Setup(open_adapter)->Teardown(close_adapter)->ThreadRange(1, 8)->UseRealTime();

std::unique_ptr<block::TagSet> shared_tags;

void tags(benchmark::State& state) {
    block::TagSet::User user(*shared_tags);
    for (auto _ : state) {
        const std::uint32_t tag = user.get();
        benchmark::DoNotOptimize(tag);
        if (tag != block::TagSet::none) user.put(tag);
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
void make_tags(const benchmark::State&) {
    shared_tags = std::make_unique<block::TagSet>(1007, 12);
}
void drop_tags(const benchmark::State&) {
    shared_tags.reset();
}
BENCHMARK(tags)->Setup(make_tags)->Teardown(drop_tags)->ThreadRange(1, 8)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
