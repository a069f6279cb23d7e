// SPDX-License-Identifier: Apache-2.0
//
// The served target on the test's own thread, its hosts connected by memory: each byte moves when the test says so.
#pragma once

#include "support/memory_network.h"
#include "support/tcp_served.h"

namespace mqblk::test {

/// The machine's time, and what the test adds to it.
class ShiftedClock final : public Clock {
  public:
    [[nodiscard]] Time now() const noexcept override { return steady_.now() + shift_; }
    void advance(Duration by) noexcept { shift_ += by; }

  private:
    SteadyClock steady_;
    Duration shift_{};
};

class MemoryServed {
  public:
    explicit MemoryServed(ServedOptions options = {}) : served_(options) {
        reactor_ = must(make_uring_reactor(clock_, random_, {.spin = {}}));
        tcp =
            must(device::nvme::TcpTarget::listen(served_.target, served_.port, network, {reactor_.get()}, options.tcp));
    }
    ~MemoryServed() {
        bool done = false;
        tcp->shutdown([&done] { done = true; });
        while (!done) pump();
    }
    void pump() {
        network.fire();
        reactor_->run_once(Reactor::Sleep::no);
    }
    /// Lets so much time pass, in which nothing else happens.
    void advance(Duration by) {
        for (int passes = 0; passes < 600; ++passes) pump();  // quiet connections come to rest
        clock_.advance(by);
        for (int passes = 0; passes < 8; ++passes) pump();
    }
    device::nvme::Target& target() { return served_.target; }
    /// False if `done` is still not true after as many passes as nothing here should need.
    template <class Done>
    [[nodiscard]] bool pump_until(Done done) {
        for (int passes = 0; passes < 100'000; ++passes) {
            if (done()) return true;
            pump();
        }
        return false;
    }

  private:
    ShiftedClock clock_;
    SeededRandom random_{1};
    ServedTarget served_;
    std::unique_ptr<Reactor> reactor_;

  public:
    MemoryNetwork network;
    std::unique_ptr<device::nvme::TcpTarget> tcp;
};

/// A host's end of a line in memory.
class MemoryLink final : public Link {
  public:
    explicit MemoryLink(MemoryServed& served) : line(served.network.dial()), served_(served) {}
    ~MemoryLink() override { line.close(); }
    bool send(std::span<const std::byte> bytes) override {
        if (line.to_target->ended) return false;
        line.to_target->bytes.insert(line.to_target->bytes.end(), bytes.begin(), bytes.end());
        return true;
    }
    bool receive(std::span<std::byte> bytes) override {
        MemoryPipe& pipe = *line.to_host;
        if (!served_.pump_until([&] { return pipe.waiting() >= bytes.size() || pipe.ended; })) return false;
        if (pipe.waiting() < bytes.size()) return false;
        std::memcpy(bytes.data(), pipe.bytes.data() + pipe.taken, bytes.size());
        pipe.taken += bytes.size();
        return true;
    }
    bool ended(std::size_t& dropped) override {
        MemoryPipe& pipe = *line.to_host;
        if (!served_.pump_until([&] { return pipe.ended; })) return false;
        dropped = pipe.waiting();
        return true;
    }
    MemoryNetwork::Line line;

  private:
    MemoryServed& served_;
};

}  // namespace mqblk::test
