// SPDX-License-Identifier: Apache-2.0
//
// Building the world and taking it down; each step has a bound in virtual time, and an expectation that it is kept.
#include "simulation/world.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

namespace mqblk::simulation {

namespace {

using namespace std::chrono_literals;

template <class T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace

driver::nvme::HostOptions quick_host() {
    driver::nvme::HostOptions options;
    options.host_nqn = "nqn.2026-01.org.example:host";
    options.queues = 2;
    options.depth = 16;
    options.keep_alive = 1s;
    options.connect_timeout = 1s;
    options.io_timeout = 2s;
    options.admin_timeout = 2s;
    options.reconnect_delay = 100ms;
    options.ctrl_loss_tmo = 60s;
    return options;
}

// --- HostSide -----------------------------------------------------------------------------------------------------

HostSide::HostSide(World& world, driver::nvme::HostOptions options, unsigned io_reactors)
    : world_(world), options_(std::move(options)), control_(world.sim.make_reactor()) {
    for (unsigned i = 0; i < io_reactors; ++i) io_.push_back(world.sim.make_reactor());
    host_ = std::make_unique<driver::nvme::Host>(*control_, world.dialling);
}

HostSide::~HostSide() {
    EXPECT_TRUE(disconnect());
}

bool HostSide::connect() {
    using Answer = Result<std::shared_ptr<driver::nvme::Controller>>;
    const Duration bound = options_.connect_timeout * 2 + options_.admin_timeout * 20;
    auto answer = world_.await<Answer>(
        *control_, [this] { return host_->connect(world_.address, std::string(subsystem_nqn), options_); }, bound);
    if (!answer) {
        error = "connecting did not end within its bounds";
        return false;
    }
    if (!*answer) {
        error = answer->error().message();
        return false;
    }
    controller_ = std::move(**answer);
    return true;
}

bool HostSide::disconnect() {
    if (!controller_) return true;
    const auto done = std::make_shared<bool>(false);
    controller_->shutdown([done] { *done = true; });
    const Duration bound = options_.connect_timeout * 2 + options_.admin_timeout * 2 + 10s;
    const bool ended = world_.run_until([&] { return *done; }, bound);
    controller_.reset();
    world_.sim.run_for(1ms);  // what it posted last
    return ended;
}

// --- World --------------------------------------------------------------------------------------------------------

World::World(std::uint64_t seed, WorldOptions options)
    : Scene(seed), network(sim, options.network), tcp_options_(options.tcp) {
    tcp_options_.listen = address;
    for (unsigned i = 0; i < options.target_reactors; ++i) reactors_.push_back(sim.make_reactor());
    disk_ = std::make_unique<SimulatedDisk>(random, options.disk);
    replace_target(options.target);
    start_listening();
}

void World::replace_target(const device::nvme::Target::Options& options) {
    target_.reset();
    target_ = std::make_unique<device::nvme::Target>(options);
    device::nvme::SubsystemConfig subsystem;
    subsystem.nqn = subsystem_nqn;
    must(target_->add_subsystem(subsystem));
    device::nvme::NamespaceConfig ns;
    ns.nsid = 1;
    ns.uri = "simulated://1";
    ns.device = disk_->device();
    must(target_->add_namespace(subsystem.nqn, ns));
    device::nvme::PortConfig port;
    port.transport = "tcp";
    port.address = address.host;
    port.service = std::to_string(address.port);
    port_ = must(target_->add_port(port));
}

World::~World() {
    bool stopped = !listening();
    if (listening()) stop_listening([&stopped] { stopped = true; });
    EXPECT_TRUE(run_until([&] { return stopped; }, 60s)) << "the target's connections did not end\n" << story();
    if (!stopped) std::abort();  // what it holds cannot be taken down
    sim.run_for(10ms);
    EXPECT_EQ(network.open_ends(), 0u) << story();
    EXPECT_EQ(disk_->outstanding(), 0u) << story();
    target_.reset();
}

void World::start_listening() {
    std::vector<Reactor*> reactors;
    for (const auto& reactor : reactors_) reactors.push_back(reactor.get());
    tcp_ = must(device::nvme::TcpTarget::listen(*target_, port_, network, std::move(reactors), tcp_options_));
}

void World::stop_listening(std::function<void()> stopped) {
    tcp_->shutdown([this, stopped = std::move(stopped)] {
        // Not from within its own call.
        sim.at(sim.now(), [this, stopped] {
            tcp_.reset();
            stopped();
        });
    });
}

std::string World::story() const {
    return Scene::story() + "what the network did:\n" + network.history();
}

void World::expect_quiet(Duration within) {
    const auto quiet = [this] {
        return connections() == 0 && target_->controllers().empty() && disk_->outstanding() == 0 &&
               network.open_ends() == 0;
    };
    static_cast<void>(run_until(quiet, within));
    EXPECT_EQ(connections(), 0u) << story();
    EXPECT_EQ(target_->controllers().size(), 0u) << story();
    EXPECT_EQ(disk_->outstanding(), 0u) << story();
    EXPECT_EQ(network.open_ends(), 0u) << story();
}

}  // namespace mqblk::simulation
