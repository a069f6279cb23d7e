// SPDX-License-Identifier: Apache-2.0
//
// MegaraidWorld: the MegaRAID driver and the controller's model, as they are, in one simulated process: registers are
// calls, interrupts flags, memory the driver's own; disks, time and chance come from the seed. The control path and the
// model share a reactor; channels have others, each with a hardware queue of its own, and meet in the last queue, which
// lives in the first reactor. The controller is the driver's: when that is closed it is gone, and the next one that is
// opened has the same disks.
#pragma once

#include "device/megaraid/controller.h"
#include "driver/megaraid/megaraid.h"
#include "simulation/disk.h"
#include "simulation/model.h"
#include "simulation/scene.h"

#include <mqblk/device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::simulation {

struct MegaraidOptions {
    device::megaraid::Options card;
    driver::megaraid::Options driver;
    DiskOptions disk;
    unsigned jbods = 1;
    std::vector<std::string> volumes;  ///< shapes: "5x3"
    bool reaches_everything = true;    ///< else data goes through the driver's own memory
};

/// What each seed varies.
[[nodiscard]] MegaraidOptions draw_megaraid_options(Random& random);

/// Whatever happens to a request, it has ended by then.
[[nodiscard]] Duration longest_megaraid_operation(const MegaraidOptions&);

/// A disk or volume: what is behind it, and what it must hold.
struct MegaraidUnit {
    driver::megaraid::Kind kind;
    unsigned id;
    std::unique_ptr<SimulatedDisk> disk;
    std::unique_ptr<Model> model;
    [[nodiscard]] std::string name() const { return std::string(to_string(kind)) + std::to_string(id); }
};

class MegaraidWorld final : public Scene {
  public:
    MegaraidWorld(std::uint64_t seed, MegaraidOptions);
    ~MegaraidWorld() override;

    /// A controller with these disks, started, that does these things wrong. False, with the reason in `error`, if it
    /// did not become operational.
    [[nodiscard]] bool open(std::vector<device::megaraid::Fault> faults = {});
    std::string error;
    /// Stops the controller; nobody has a channel or device any more. The disks are at rest afterwards.
    void close();

    /// While one is open.
    [[nodiscard]] device::megaraid::Controller& card() noexcept { return *card_; }
    [[nodiscard]] driver::megaraid::Adapter& adapter() noexcept { return *adapter_; }
    /// Whoever does something to it from outside wakes its reactor.
    void wake_card() noexcept { control_->wake(); }
    /// What a disk or volume is now; null if it is not there.
    [[nodiscard]] std::shared_ptr<Device> device(const MegaraidUnit& unit);
    /// A disk of its own is added under load.
    void add_disk();

    [[nodiscard]] std::vector<MegaraidUnit>& units() noexcept { return units_; }
    /// For channels, which are to be opened in this order: the last is where the shared queue lives.
    [[nodiscard]] Reactor& io(std::size_t index);
    [[nodiscard]] const MegaraidOptions& options() const noexcept { return options_; }

  private:
    void add_unit(driver::megaraid::Kind kind, unsigned id);

    const MegaraidOptions options_;
    std::vector<MegaraidUnit> units_;
    std::unique_ptr<Reactor> control_;
    std::vector<std::unique_ptr<Reactor>> io_;
    std::shared_ptr<driver::megaraid::Adapter> adapter_;
    device::megaraid::Controller* card_ = nullptr;
};

}  // namespace mqblk::simulation
