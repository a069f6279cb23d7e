// SPDX-License-Identifier: Apache-2.0
//
// SkdWorld: the S1120's driver and its model, as they are, in one simulated process: the card's registers are calls,
// its interrupts flags, its memory the driver's own; disk, time and chance come from the seed. All is in one
// reactor, since the doorbell of a card in this process is for its own. The card is the driver's: with the device it is
// gone, and the next card that is opened has the same disk.
#pragma once

#include "device/skd/card.h"
#include "driver/skd/skd.h"
#include "simulation/disk.h"
#include "simulation/scene.h"

#include <mqblk/device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::simulation {

struct SkdOptions {
    device::skd::Options card;
    driver::skd::Options driver;
    DiskOptions disk;
    bool reaches_everything = true;  ///< else data goes through the driver's own memory
};

/// What each seed varies.
[[nodiscard]] SkdOptions draw_skd_options(Random& random);

class SkdWorld final : public Scene {
  public:
    SkdWorld(std::uint64_t seed, SkdOptions);
    ~SkdWorld() override;

    /// A card with this disk, started, that does these things wrong. False, with the reason in `error`, if it did not
    /// come online.
    [[nodiscard]] bool open(std::vector<device::skd::Fault> faults = {});
    [[nodiscard]] const std::shared_ptr<Device>& device() const noexcept { return device_; }
    std::string error;
    /// Stops the card; nobody has a channel any more. The disk is at rest afterwards.
    void close();

    /// While there is a device. Whoever does something to it from outside wakes its reactor.
    [[nodiscard]] device::skd::Card& card() noexcept { return *card_; }
    void wake_card() noexcept { home_->wake(); }

    [[nodiscard]] SimulatedDisk& disk() noexcept { return disk_; }
    [[nodiscard]] Reactor& reactor() noexcept { return *home_; }
    [[nodiscard]] const SkdOptions& options() const noexcept { return options_; }

  private:
    const SkdOptions options_;
    SimulatedDisk disk_;
    std::shared_ptr<Reactor> home_;
    std::shared_ptr<Device> device_;
    device::skd::Card* card_ = nullptr;
};

}  // namespace mqblk::simulation
