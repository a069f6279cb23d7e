// SPDX-License-Identifier: Apache-2.0
//
// A RAID-6 array of simulated disks, its users and what happens to it: disks that go, come back as they were or are
// replaced, that cannot read now and then, that hold wrong data unnoticed, and the power that fails at any moment. A
// Model of plain blocks says what the array ought to hold.
#pragma once

#include "driver/raid/raid.h"
#include "simulation/disk.h"
#include "simulation/model.h"
#include "simulation/scene.h"
#include "simulation/workload.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mqblk::simulation {

class RaidWorld final : public Scene {
  public:
    explicit RaidWorld(std::uint64_t seed);
    ~RaidWorld() override;

    [[nodiscard]] bool create();
    /// Uses it for a while, with mishaps; ends it in order, or by a power cut. False: a check failed.
    [[nodiscard]] bool live();
    /// Starts it again with the disks there are, and checks all of it.
    [[nodiscard]] bool restart();
    /// Waits until everything is rebuilt, damages data in silence, and has it repaired.
    [[nodiscard]] bool scrub();
    void close();

    [[nodiscard]] unsigned crashes() const noexcept { return crashes_; }
    [[nodiscard]] unsigned rebuilds() const noexcept { return rebuilds_; }

  private:
    struct Slot {
        std::unique_ptr<SimulatedDisk> disk, former;
        bool lost = false;
    };
    [[nodiscard]] std::unique_ptr<SimulatedDisk> make_disk();
    [[nodiscard]] std::optional<std::string> open(bool create, bool lost_too, bool former);
    void start_workloads(bool crash_comes);
    [[nodiscard]] unsigned unavailable() const;
    void mishap();
    void lose_one();
    void replace_one();
    void cut_power();

    DiskOptions disk_options_;
    unsigned data_;
    std::uint32_t chunk_;
    bool journal_always_;
    std::vector<Slot> slots_;
    std::vector<std::unique_ptr<SimulatedDisk>> graveyard_;
    std::unique_ptr<Reactor> home_;
    std::vector<std::unique_ptr<Reactor>> users_;
    std::unique_ptr<Model> model_;
    std::shared_ptr<Device> device_;
    std::vector<std::unique_ptr<Workload>> workloads_;
    std::set<unsigned> flaky_;
    bool crashed_ = false, journaled_ = false;
    unsigned crashes_ = 0, rebuilds_ = 0;
};

}  // namespace mqblk::simulation
