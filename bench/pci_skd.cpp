// SPDX-License-Identifier: Apache-2.0
//
// What the S1120's registers allow: reads of 4 KiB at depth 32 by a driver that does no more than the card asks for,
// against the card over a null disk, in one thread (in this process) and in two (over vfio-user, with doorbells as
// messages or as posted writes). The argument is the most requests in a FIT message, and so for each doorbell. Then the
// whole driver over vfio-user, block layer and copies of the data (which lies in memory that no card has seen)
// included.
#include "base/steady_clock.h"
#include "device/skd/card.h"
#include "driver/null/null.h"
#include "driver/skd/skd.h"
#include "pci/in_process.h"
#include "pci/vfio_user_client.h"
#include "pci/vfio_user_server.h"
#include "reactor/uring_reactor.h"
#include "wire/scsi_cdb.h"
#include "wire/skd.h"

#include <benchmark/benchmark.h>

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace mqblk;
using namespace mqblk::wire::skd;

constexpr unsigned depth = 32;
constexpr std::size_t io_bytes = 4096;

template <class T>
T need(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::exit(1);
}

std::unique_ptr<device::skd::Card> make_card() {
    driver::null::Options options;
    options.bytes = 1ull << 30;
    return need(device::skd::Card::create(need(driver::null::open(options)), {}));
}

/// The card in this thread.
struct InProcess {
    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = need(make_uring_reactor(clock, random));
    std::unique_ptr<pci::Function> function = need(pci::make_in_process(make_card(), *reactor));
    void pass() { reactor->run_once(Reactor::Sleep::no); }
};

/// The card behind a socket, in a thread of its own.
struct OverSocket {
    explicit OverSocket(bool posted_writes) {
        if (::mkdtemp(directory.data()) == nullptr) std::exit(1);
        server = need(pci::VfioUserServer::listen(*reactor, directory + "/s", make_card()));
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
    void pass() {}
    std::string directory = "/tmp/mqblk-bench-XXXXXX";
    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = need(make_uring_reactor(clock, random));
    std::unique_ptr<pci::VfioUserServer> server;
    std::atomic<bool> stop{false};
    std::thread thread;
    std::unique_ptr<pci::Function> function;
};

class RawDriver {
  public:
    RawDriver(pci::Function& function, unsigned per_message, std::function<void()> pass)
        : pass_(std::move(pass)),
          per_message_(per_message),
          bar_(need(function.bar(register_bar))),
          ring_(need(function.dma().allocate(completion_ring_bytes()))),
          messages_(need(function.dma().allocate(depth * sizeof(FitMessage)))),
          lists_(need(function.dma().allocate(depth * sizeof(SgDescriptor)))),
          data_(need(function.dma().allocate(depth * io_bytes))) {
        function.set_bus_master(true);
        bar_.write32(reg::control, control_soft_reset);
        wait_for(DriveState::init);
        say(MessageType::fitfw_init);
        say(MessageType::get_cmdq_depth);
        say(MessageType::set_compq_depth, completion_depth);
        bar_.write64(reg::msg_to_device_arg, ring_.address());
        say(MessageType::set_compq_addr);
        say(MessageType::arm_queue);
        wait_for(DriveState::online);
        for (unsigned i = 0; i < depth; ++i) {
            const SgDescriptor descriptor{
                .control = sg_last, .bytes = io_bytes, .host_address = data_.address(i * io_bytes)};
            at<SgDescriptor>(lists_, i) = descriptor;
            idle_[i] = static_cast<std::uint16_t>(i);
        }
    }

    /// Sends what is idle, takes what is done. Returns how many that were.
    unsigned step() {
        while (idle_count_ > 0) send(std::min(idle_count_, per_message_));
        pass_();
        unsigned done = 0;
        for (;; ++done) {
            auto& place = at<std::uint64_t>(ring_, position_.index);
            const auto entry = std::bit_cast<CompletionEntry>(std::atomic_ref(place).load(std::memory_order_acquire));
            if (entry.cycle != position_.cycle) return done;
            if (entry.status != 0 || entry.returned_bytes != io_bytes) std::abort();
            position_.advance();
            idle_[idle_count_++] = entry.tag;
        }
    }

  private:
    template <class T>
    static T& at(const pci::DmaMemory& memory, std::size_t index) {
        return *reinterpret_cast<T*>(memory.data() + index * sizeof(T));
    }
    void wait_for(DriveState state) {
        while (state_of(bar_.read32(reg::status)) != state) pass_();
    }
    void say(MessageType type, std::uint16_t data = 0) {
        bar_.write32(reg::msg_to_device, make_message(type, data));
        while (message_type(bar_.read32(reg::msg_from_device)) != type) pass_();
    }
    void send(unsigned requests) {
        const unsigned first = idle_[idle_count_ - 1];  // its message is free
        auto& message = at<FitMessage>(messages_, first);
        message.header = {};
        message.header.requests = static_cast<std::uint8_t>(requests);
        for (unsigned i = 0; i < requests; ++i) {
            const std::uint16_t tag = idle_[--idle_count_];
            message.request[i] = {.sg_list_address = lists_.address(tag * sizeof(SgDescriptor)),
                                  .tag = tag,
                                  .sg_list_bytes = io_bytes,
                                  .cdb = wire::scsi::build_read(tag * 8, 8)};
        }
        bar_.write64(reg::q_command, encode({.address = messages_.address(first * sizeof(FitMessage)),
                                             .bytes = FitMessage::bytes(requests)}));
    }

    const std::function<void()> pass_;
    const unsigned per_message_;
    const pci::Bar bar_;
    const pci::DmaMemory ring_, messages_, lists_, data_;
    RingPosition position_;
    std::uint16_t idle_[depth];
    unsigned idle_count_ = depth;
};

template <class World, class... Options>
void run_reads(benchmark::State& state, Options... options) {
    World world(options...);
    RawDriver driver(*world.function, static_cast<unsigned>(state.range(0)), [&world] { world.pass(); });
    std::int64_t done = 0;
    for (auto _ : state) done += driver.step();
    state.SetItemsProcessed(done);
}

void ReadsInProcess(benchmark::State& state) {
    run_reads<InProcess>(state);
}
BENCHMARK(ReadsInProcess)->Arg(1)->Arg(14);

void ReadsByPostedWrites(benchmark::State& state) {
    run_reads<OverSocket>(state, true);
}
BENCHMARK(ReadsByPostedWrites)->Arg(1)->Arg(14)->UseRealTime();

void ReadsByMessages(benchmark::State& state) {
    run_reads<OverSocket>(state, false);
}
BENCHMARK(ReadsByMessages)->Arg(1)->Arg(14)->UseRealTime();

/// `depth` bios that submit themselves again.
class Reader {
  public:
    explicit Reader(Channel& channel) : channel_(channel), memory_(depth * io_bytes) {
        for (unsigned i = 0; i < depth; ++i) {
            segments_[i] = {memory_.data() + i * io_bytes, io_bytes};
            Bio& bio = bios_[i];
            bio.sector = std::uint64_t{i} * (io_bytes / sector_bytes);
            bio.sectors = io_bytes / sector_bytes;
            bio.data = {&segments_[i], 1};
            bio.context = this;
            bio.done = [](Bio& ended) noexcept {
                if (ended.status != Status::ok) std::abort();
                auto& self = *static_cast<Reader*>(ended.context);
                if (self.running_) self.channel_.submit(ended);
            };
            channel_.submit(bio);
        }
    }
    ~Reader() {
        running_ = false;
        while (channel_.outstanding() != 0) channel_.poll();
    }

  private:
    Channel& channel_;
    std::vector<std::byte> memory_;
    Segment segments_[depth];
    Bio bios_[depth];
    bool running_ = true;
};

void DriverReads(benchmark::State& state) {
    OverSocket world(state.range(0) != 0);
    const auto reactor = need(make_uring_reactor(world.clock, world.random));
    auto device = need(driver::skd::open(std::move(world.function), reactor->shareable(), {}));
    {
        const auto channel = need(device->channel(*reactor));
        const Reader reader(*channel);
        std::int64_t done = 0;
        for (auto _ : state) done += static_cast<std::int64_t>(channel->poll());
        state.SetItemsProcessed(done);
    }
    device.reset();
}
BENCHMARK(DriverReads)->ArgName("posted_writes")->Arg(1)->Arg(0)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
