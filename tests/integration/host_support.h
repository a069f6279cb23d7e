// SPDX-License-Identifier: Apache-2.0
//
// An NVMe host with its control reactor on a thread of its own, and blocking calls on it, for tests.
#pragma once

#include "base/random.h"
#include "base/steady_clock.h"
#include "driver/nvme/host.h"
#include "fabric/tcp.h"
#include "reactor/uring_reactor.h"

#include <mqblk/device.h>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mqblk::test {

/// One small queue, no keep-alive, and no waiting for what a scripted target does.
inline driver::nvme::HostOptions quick_options() {
    driver::nvme::HostOptions options;
    options.queues = 1;
    options.depth = 32;
    options.reconnect_delay = std::chrono::milliseconds(5);
    options.ctrl_loss_tmo = std::chrono::seconds(20);
    options.connect_timeout = std::chrono::seconds(10);
    options.keep_alive = Duration::zero();
    return options;
}

/// A reactor that a thread of its own runs until it is destroyed.
class ReactorThread {
  public:
    ReactorThread() {
        auto made = make_uring_reactor(clock_, random_, {.spin = std::chrono::microseconds(20)});
        if (!made) throw std::runtime_error(made.error().message());
        reactor_ = std::move(*made);
        thread_ = std::thread([this] {
            while (!stop_) reactor_->run_once(Reactor::Sleep::yes);
        });
    }
    ~ReactorThread() { stop(); }
    void stop() {
        if (!thread_.joinable()) return;
        reactor_->post([this] { stop_ = true; });
        thread_.join();
    }
    [[nodiscard]] Reactor& operator*() { return *reactor_; }

    /// Runs `task` there and waits for it.
    template <class Fn>
    auto call(Fn fn) -> decltype(fn()) {
        using T = decltype(fn());
        std::promise<T> promise;
        reactor_->post([&] {
            if constexpr (std::is_void_v<T>) {
                fn();
                promise.set_value();
            } else {
                promise.set_value(fn());
            }
        });
        return promise.get_future().get();
    }
    /// Spawns the coroutine that `start` makes there and waits for its result.
    template <class T, class Start>
    T await(Start start) {
        std::promise<T> promise;
        reactor_->post([&] { spawn(start(), [&promise](T result) { promise.set_value(std::move(result)); }); });
        return promise.get_future().get();
    }

  private:
    SteadyClock clock_;
    SeededRandom random_{1};
    std::unique_ptr<Reactor> reactor_;
    bool stop_ = false;
    std::thread thread_;
};

class HostSide {
  public:
    using ControllerResult = Result<std::shared_ptr<driver::nvme::Controller>>;

    ~HostSide() {
        control_.call([this] { host_.reset(); });
    }

    ControllerResult connect(std::uint16_t port, const std::string& nqn, driver::nvme::HostOptions options) {
        return control_.await<ControllerResult>(
            [&] { return host_->connect(fabric::Address{"127.0.0.1", port}, nqn, options); });
    }
    Result<std::vector<driver::nvme::DiscoveryEntry>> discover(std::uint16_t port, driver::nvme::HostOptions options) {
        return control_.await<Result<std::vector<driver::nvme::DiscoveryEntry>>>(
            [&] { return host_->discover(fabric::Address{"127.0.0.1", port}, options); });
    }
    /// Disconnects in order and waits for it.
    void shut_down(driver::nvme::Controller& controller) {
        std::promise<void> done;
        controller.shutdown([&] { done.set_value(); });
        done.get_future().get();
    }
    [[nodiscard]] ReactorThread& control() { return control_; }

  private:
    ReactorThread control_;
    std::unique_ptr<fabric::Network> network_ = fabric::make_tcp_network();
    std::unique_ptr<driver::nvme::Host> host_ = std::make_unique<driver::nvme::Host>(*control_, *network_);
};

/// One bio over flat memory, waited for.
inline Status run_bio(Channel& channel, Op op, std::uint64_t sector, std::span<std::byte> memory,
                      std::uint64_t sectors = 0, std::uint8_t flags = 0) {
    Segment segment{memory.data(), memory.size()};
    Bio bio;
    bio.op = op;
    bio.flags = flags;
    bio.sector = sector;
    bio.sectors = carries_data(op) ? memory.size() / sector_bytes : sectors;
    if (carries_data(op)) bio.data = Segments(&segment, 1);
    bool done = false;
    bio.context = &done;
    bio.done = [](Bio& ended) noexcept { *static_cast<bool*>(ended.context) = true; };
    channel.submit(bio);
    while (!done) channel.wait();
    return bio.status;
}

/// A namespace in use. What cannot be opened is an exception, which fails the test.
struct OpenNamespace {
    explicit OpenNamespace(driver::nvme::Controller& controller, std::uint32_t nsid = 1)
        : device(controller.device(nsid).value()), channel(device->channel().value()) {}
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;
};

}  // namespace mqblk::test
