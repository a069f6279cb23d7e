// SPDX-License-Identifier: Apache-2.0
//
// A target with one disk, served over TCP by a thread of its own, for hosts under a test's control.
#pragma once

#include "base/steady_clock.h"
#include "device/nvme/target.h"
#include "device/nvme/tcp_target.h"
#include "driver/null/null.h"
#include "driver/ram/ram.h"
#include "fabric/tcp.h"
#include "reactor/uring_reactor.h"
#include "support/nvme_tcp_host.h"
#include "support/socket_link.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mqblk::test {

inline const std::string served_nqn = "nqn.2026-01.org.example:served";

template <class T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct ServedOptions {
    std::shared_ptr<Device> device;  ///< a RAM disk of 64 MiB if none is given
    device::nvme::Target::Options target{};
    device::nvme::TcpTarget::Options tcp{};
    unsigned threads = 1;  ///< connections are spread over them
};

/// The target without a transport.
class ServedTarget {
  public:
    explicit ServedTarget(const ServedOptions& options) : target(options.target) {
        device::nvme::SubsystemConfig subsystem;
        subsystem.nqn = served_nqn;
        must(target.add_subsystem(subsystem));
        device::nvme::NamespaceConfig ns;
        ns.nsid = 1;
        ns.uri = "ram://?size=64M";
        ns.device = options.device ? options.device : ram_disk();
        must(target.add_namespace(served_nqn, ns));
        device::nvme::PortConfig config;
        config.transport = "tcp";
        config.address = "127.0.0.1";
        config.service = "0";
        port = must(target.add_port(config));
    }
    static std::shared_ptr<Device> ram_disk() {
        driver::ram::Options options;
        options.bytes = 64u << 20;
        return must(driver::ram::open(options));
    }
    device::nvme::Target target;
    unsigned port;
};

class Served {
  public:
    explicit Served(ServedOptions options = {}) : served_(options) {
        options.tcp.listen = {"127.0.0.1", 0};
        std::vector<Reactor*> reactors;
        for (unsigned i = 0; i < options.threads; ++i) {
            reactors_.push_back(must(make_uring_reactor(clock_, random_, {.spin = std::chrono::microseconds(20)})));
            reactors.push_back(reactors_.back().get());
            threads_.emplace_back([this, reactor = reactors_.back().get()] {
                while (!stop_) reactor->run_once(Reactor::Sleep::yes);
            });
        }
        on_thread([&] {
            tcp = must(device::nvme::TcpTarget::listen(served_.target, served_.port, *network_, reactors, options.tcp));
        });
    }
    ~Served() {
        shut_down();
        on_thread([this] { tcp.reset(); });
        stop_ = true;
        for (const auto& reactor : reactors_) reactor->wake();
        for (std::thread& thread : threads_) thread.join();
    }
    /// Closes all connections; nothing can be dialled any more.
    void shut_down() {
        if (std::exchange(shut_down_, true)) return;
        std::promise<void> done;
        tcp->shutdown([&done] { done.set_value(); });
        done.get_future().wait();
    }
    /// On the first of its threads.
    void on_thread(const std::function<void()>& task) {
        std::promise<void> done;
        reactors_[0]->post([&] {
            task();
            done.set_value();
        });
        done.get_future().wait();
    }
    [[nodiscard]] std::unique_ptr<ScriptedHost> dial() const {
        return std::make_unique<ScriptedHost>(connect_link(tcp->address().port));
    }
    device::nvme::Target& target() { return served_.target; }

  private:
    SteadyClock clock_;
    SeededRandom random_{1};
    ServedTarget served_;
    std::unique_ptr<fabric::Network> network_ = fabric::make_tcp_network();
    std::vector<std::unique_ptr<Reactor>> reactors_;
    std::vector<std::thread> threads_;
    std::atomic<bool> stop_{false};
    bool shut_down_ = false;

  public:
    std::unique_ptr<device::nvme::TcpTarget> tcp;
};

}  // namespace mqblk::test
