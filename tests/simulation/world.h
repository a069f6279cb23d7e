// SPDX-License-Identifier: Apache-2.0
//
// World: the real target, the real hosts and the real block layer on simulated reactors, network, time and disks, all
// from one seed.
#pragma once

#include "device/nvme/target.h"
#include "device/nvme/tcp_target.h"
#include "driver/nvme/host.h"
#include "fabric/simulated.h"
#include "simulation/disk.h"
#include "simulation/scene.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mqblk::simulation {

inline constexpr std::string_view subsystem_nqn = "nqn.2026-01.org.example:simulated";

struct WorldOptions {
    unsigned target_reactors = 1;
    device::nvme::Target::Options target;
    device::nvme::TcpTarget::Options tcp;
    fabric::NetworkConditions network;
    DiskOptions disk;  ///< of namespace 1
};

/// The figures of a host that recovers quickly: for tests, whose waits are virtual, but whose bounds shall be short.
[[nodiscard]] driver::nvme::HostOptions quick_host();

class World;

/// The network as hosts see it: it remembers when they tried to connect.
class Dialling final : public fabric::Network {
  public:
    explicit Dialling(SimulatedWorld& sim, fabric::Network& network) : sim_(sim), network_(network) {}
    Task<Result<std::unique_ptr<fabric::Connection>>> connect(Reactor& reactor, fabric::Address address,
                                                              Duration timeout) override {
        attempts.push_back(sim_.now());
        return network_.connect(reactor, std::move(address), timeout);
    }
    Result<std::unique_ptr<fabric::Listener>> listen(Reactor& reactor, const fabric::Address& address,
                                                     std::function<void(Token)> accepted) override {
        return network_.listen(reactor, address, std::move(accepted));
    }
    std::vector<Time> attempts;

  private:
    SimulatedWorld& sim_;
    fabric::Network& network_;
};

/// A host with a connected controller: its control reactor, and reactors for I/O.
class HostSide {
  public:
    HostSide(World&, driver::nvme::HostOptions, unsigned io_reactors);
    ~HostSide();  ///< disconnect() first

    /// False, with the reason in `error`, if it did not connect within its bounds.
    [[nodiscard]] bool connect();
    /// False if it has not ended within its bounds.
    [[nodiscard]] bool disconnect();
    void forget_host() { host_.reset(); }  ///< before its controller

    [[nodiscard]] Reactor& io(std::size_t index) { return *io_[index % io_.size()]; }
    [[nodiscard]] driver::nvme::Controller& controller() { return *controller_; }
    [[nodiscard]] const driver::nvme::HostOptions& options() const noexcept { return options_; }
    std::string error;

  private:
    World& world_;
    const driver::nvme::HostOptions options_;
    std::unique_ptr<Reactor> control_;
    std::vector<std::unique_ptr<Reactor>> io_;
    std::unique_ptr<driver::nvme::Host> host_;
    std::shared_ptr<driver::nvme::Controller> controller_;
};

class World final : public Scene {
  public:
    World(std::uint64_t seed, WorldOptions);
    ~World() override;

    fabric::SimulatedNetwork network;
    Dialling dialling{sim, network};
    const fabric::Address address{"192.0.2.1", 4420};

    [[nodiscard]] device::nvme::Target& target() { return *target_; }
    [[nodiscard]] SimulatedDisk& disk() { return *disk_; }
    [[nodiscard]] bool listening() const noexcept { return tcp_ != nullptr; }
    [[nodiscard]] unsigned connections() const noexcept { return tcp_ ? tcp_->connections() : 0; }

    /// The listener and its connections; the target with its namespaces stays.
    void start_listening();
    /// `stopped` runs when the last connection is gone.
    void stop_listening(std::function<void()> stopped);
    /// While it does not listen: another target with the same namespace.
    void replace_target(const device::nvme::Target::Options&);
    /// Runs a task of the control path in `reactor`. Nothing if it has not ended within `bound`.
    template <class T>
    [[nodiscard]] std::optional<T> await(Reactor& reactor, std::function<Task<T>()> make, Duration bound) {
        const auto result = std::make_shared<std::optional<T>>();
        reactor.post([make, result] { spawn(make(), [result](T value) { result->emplace(std::move(value)); }); });
        static_cast<void>(run_until([&] { return result->has_value(); }, bound));
        return std::move(*result);
    }

    /// And what the network did.
    [[nodiscard]] std::string story() const override;

    /// Expectations, with gtest: nothing of the target's, the network's or the disk's is in use any more; with `within`
    /// to let what is on its way arrive.
    void expect_quiet(Duration within);

  private:
    friend class HostSide;
    std::vector<std::unique_ptr<Reactor>> reactors_;
    device::nvme::TcpTarget::Options tcp_options_;
    std::unique_ptr<SimulatedDisk> disk_;
    std::unique_ptr<device::nvme::Target> target_;
    unsigned port_ = 0;
    std::unique_ptr<device::nvme::TcpTarget> tcp_;
};

}  // namespace mqblk::simulation
