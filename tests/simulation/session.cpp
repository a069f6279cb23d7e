// SPDX-License-Identifier: Apache-2.0
//
// The course of a session, and what each seed varies: sizes, digests, queues, buffers, the network's conditions.
#include "simulation/session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::simulation {

namespace {

using namespace std::chrono_literals;

bool coin(Random& random) {
    return random.below(2) == 0;
}

void draw(Random& random, WorldOptions& world, driver::nvme::HostOptions& host) {
    world.target_reactors = 1 + static_cast<unsigned>(random.below(2));
    world.target.max_transfer_bytes = 64u << 10 << random.below(3);
    world.target.in_capsule_bytes = static_cast<std::uint32_t>(random.below(3)) * 8192;
    world.tcp.max_h2c_data_bytes = 4096u << random.below(6);
    // Now and then for one transfer of the largest size: everybody waits.
    world.tcp.buffer_bytes = random.below(3) == 0 ? 1 : std::size_t{16} << 20;
    world.network.random_pieces = random.below(3) != 0;
    world.disk.block_bytes = coin(random) ? 512 : 4096;
    world.disk.bytes = 1u << 20;
    world.disk.write_cache = random.below(4) != 0;
    world.disk.fua = coin(random);
    world.disk.queues = 1 + static_cast<unsigned>(random.below(3));
    world.disk.depth = 4u << random.below(4);
    host.header_digest = coin(random);
    host.data_digest = coin(random);
    host.queues = 1 + static_cast<unsigned>(random.below(3));
    host.depth = 2u << random.below(5);
}

class Session {
  public:
    Session(std::uint64_t seed, const SessionPlan& plan);
    std::uint64_t run();

  private:
    [[nodiscard]] std::unique_ptr<HostSide> new_host(unsigned number);
    [[nodiscard]] bool connect_all();
    void work();
    void leave();
    void expect_fresh_host_served();
    [[nodiscard]] bool all_finished() const {
        return std::ranges::all_of(workloads_, [](const auto& workload) { return workload->finished(); });
    }

    const SessionPlan& plan_;
    WorldOptions options_;
    driver::nvme::HostOptions host_options_;
    std::unique_ptr<World> world_;
    std::unique_ptr<Model> model_;
    std::vector<std::unique_ptr<HostSide>> hosts_;
    std::vector<std::shared_ptr<Device>> devices_;
    std::vector<std::unique_ptr<Workload>> workloads_;
};

Session::Session(std::uint64_t seed, const SessionPlan& plan) : plan_(plan), host_options_(quick_host()) {
    SeededRandom random(seed * 2 + 1);
    draw(random, options_, host_options_);
    if (plan_.adjust) plan_.adjust(options_, host_options_);
    options_.disk.errors_per_mille = plan.disk_errors_per_mille;
    world_ = std::make_unique<World>(seed, options_);
    model_ = std::make_unique<Model>(options_.disk.bytes / options_.disk.block_bytes, options_.disk.block_bytes);
}

std::unique_ptr<HostSide> Session::new_host(unsigned number) {
    auto options = host_options_;
    options.host_nqn = fmt::format("nqn.2026-01.org.example:host-{}", number);
    return std::make_unique<HostSide>(*world_, options, 2);
}

/// Before any fault strikes.
bool Session::connect_all() {
    for (unsigned number = 0; number < plan_.hosts; ++number) {
        hosts_.push_back(new_host(number));
        if (!hosts_.back()->connect()) {
            ADD_FAILURE() << hosts_.back()->error;
            return false;
        }
        auto device = hosts_.back()->controller().device(1);
        if (!device) {
            ADD_FAILURE() << device.error().message();
            return false;
        }
        devices_.push_back(std::move(*device));
        auto options = plan_.workload;
        if (options.bound == Duration::zero()) options.bound = longest_operation(host_options_);
        for (unsigned reactor = 0; reactor < 2; ++reactor) {
            workloads_.push_back(std::make_unique<Workload>(*world_, fmt::format("host {} thread {}", number, reactor),
                                                            devices_.back(), hosts_.back()->io(reactor), *model_,
                                                            options));
        }
    }
    return true;
}

void Session::work() {
    Faults faults(*world_, *model_, plan_.faults);
    for (const auto& workload : workloads_) workload->start();
    faults.start();
    // As long as there is work, but not for ever.
    static_cast<void>(world_->run_until([&] { return all_finished(); }, 60s));
    faults.stop();
    for (const auto& workload : workloads_) workload->stop();
    const bool healed = world_->run_until([&] { return faults.healed(); }, 60s);
    EXPECT_TRUE(healed) << "the target did not come back\n" << world_->story();
    const bool finished = world_->run_until([&] { return all_finished(); }, longest_operation(host_options_));
    for (const auto& workload : workloads_) {
        EXPECT_TRUE(finished) << workload->pending() << world_->story();
    }
    world_->disk().set_errors(0);
}

void Session::leave() {
    workloads_.clear();
    devices_.clear();
    for (const auto& host : hosts_) EXPECT_TRUE(host->disconnect()) << "a host does not leave\n" << world_->story();
    hosts_.clear();
}

/// And all data are there.
void Session::expect_fresh_host_served() {
    const auto host = new_host(99);
    // Some faults wait for connections to come: it may take a few.
    bool connected = false;
    for (int attempt = 0; attempt < 200 && !connected; ++attempt) connected = host->connect();
    EXPECT_TRUE(connected) << host->error << "\n" << world_->story();
    if (!connected) return;
    const auto device = host->controller().device(1);
    EXPECT_TRUE(device.has_value());
    if (!device) return;
    EXPECT_TRUE(verify(*world_, **device, host->io(0), *model_)) << world_->story();
}

std::uint64_t Session::run() {
    if (!connect_all()) return 0;
    work();
    leave();
    world_->network.set_conditions({});
    expect_fresh_host_served();
    // A half-open connection is noticed by the target's keep-alive.
    world_->expect_quiet(60s);
    return world_->trace();
}

}  // namespace

std::uint64_t run_session(std::uint64_t seed, const SessionPlan& plan) {
    return Session(seed, plan).run();
}

}  // namespace mqblk::simulation
