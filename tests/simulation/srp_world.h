// SPDX-License-Identifier: Apache-2.0
//
// SrpWorld: the SRP initiator and the SRP target, as they are, in one simulated process, each in its own reactors, over
// RDMA whose messages take their time or never arrive. Disk, time and chance come from the seed.
#pragma once

#include "device/srp/target.h"
#include "driver/srp/srp.h"
#include "fabric/rdma/in_process.h"
#include "simulation/disk.h"
#include "simulation/scene.h"

#include <mqblk/device.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace mqblk::simulation {

/// The way between the two. Of a connection that something of is lost, nothing arrives any more, as of a queue pair
/// that has gone on without its peer.
class SrpCourier final : public fabric::rdma::Courier {
  public:
    SrpCourier(SimulatedWorld& sim, Random& random, Duration longest_delay)
        : sim_(sim), random_(random), longest_delay_(longest_delay) {}
    void carry(std::uint64_t connection, unsigned from_side, std::function<void()> arrive) override;
    [[nodiscard]] Duration retry_time() const noexcept override { return std::chrono::seconds(2); }

    /// All connections that there are; what is on its way is lost.
    void cut();
    /// While set, nothing new arrives either.
    void set_down(bool down) { down_ = down; }

  private:
    [[nodiscard]] bool is_dead(std::uint64_t connection) const {
        return connection < dead_below_ || dead_.contains(connection);
    }
    SimulatedWorld& sim_;
    Random& random_;
    const Duration longest_delay_;
    std::map<std::pair<std::uint64_t, unsigned>, Time> last_;
    std::uint64_t dead_below_ = 0, seen_ = 0;
    std::set<std::uint64_t> dead_;
    bool down_ = false;
};

struct SrpOptions {
    driver::srp::Options driver;
    device::srp::TargetOptions target;
    fabric::rdma::Limits limits;
    DiskOptions disk;
    Duration longest_delay{};  ///< of a message
};

/// What each seed varies.
[[nodiscard]] SrpOptions draw_srp_options(Random& random);

class SrpWorld final : public Scene {
  public:
    SrpWorld(std::uint64_t seed, SrpOptions);
    ~SrpWorld() override;

    /// False, with the reason in `error`.
    [[nodiscard]] bool open();
    std::string error;
    /// Nobody has a channel any more.
    void close();

    [[nodiscard]] const std::shared_ptr<Device>& device() const noexcept { return device_; }
    [[nodiscard]] driver::srp::Initiator& initiator() noexcept { return *initiator_; }
    [[nodiscard]] SimulatedDisk& disk() noexcept { return disk_; }
    [[nodiscard]] SrpCourier& courier() noexcept { return courier_; }
    /// Of those that use the device.
    [[nodiscard]] Reactor& reactor(unsigned index) noexcept { return *near_[index]; }
    [[nodiscard]] const SrpOptions& options() const noexcept { return options_; }

    unsigned refused_per_mille = 0;  ///< registrations

  private:
    const SrpOptions options_;
    SimulatedDisk disk_;
    std::unique_ptr<Reactor> far_;
    std::array<std::unique_ptr<Reactor>, 3> near_;
    SrpCourier courier_;
    fabric::rdma::InProcessNetwork network_;
    std::unique_ptr<device::srp::Target> target_;
    std::shared_ptr<driver::srp::Initiator> initiator_;
    std::shared_ptr<Device> device_;
};

}  // namespace mqblk::simulation
