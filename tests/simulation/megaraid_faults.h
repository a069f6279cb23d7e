// SPDX-License-Identifier: Apache-2.0
//
// MegaraidFaults: what the controller does wrong while a workload runs, and when, all from the world's seed.
#pragma once

#include "simulation/megaraid_world.h"

#include <functional>
#include <memory>
#include <vector>

namespace mqblk::simulation {

struct MegaraidFaultOptions {
    // Which kinds may strike.
    bool errors = false;       ///< medium errors, check conditions of every kind, failed I/O
    bool completions = false;  ///< lost, late, told twice at once or later
    bool slow = false;         ///< one disk that answers late for a while
    bool aborts = false;       ///< answered wrongly, with nothing done
    bool crashes = false;      ///< the firmware: at once or at the k-th command, with fewer commands afterwards
    bool relentless = false;   ///< … also on the way back from the last fault
    bool management = false;   ///< DCMDs that take up to minutes, or are refused
    bool changes = false;      ///< disks that are pulled and put in again, volumes that go offline, new disks
    bool disk_hang = false;    ///< for a while: aborts and resets have to wait for it
    bool dies = false;         ///< for good, once
    Duration longest_interval = std::chrono::milliseconds(10);  ///< before a command is struck
    Duration longest_peace = std::chrono::milliseconds(60);     ///< before the whole controller or a disk is
    Duration longest_delay = std::chrono::seconds(60);          ///< of a completion: longer than the driver waits
};

/// What a controller may do wrong while it is started: a few things, at any of the driver's first commands.
[[nodiscard]] std::vector<device::megaraid::Fault> draw_megaraid_start_faults(Random& random);

class MegaraidFaults {
  public:
    MegaraidFaults(MegaraidWorld&, MegaraidFaultOptions);
    ~MegaraidFaults();
    MegaraidFaults(const MegaraidFaults&) = delete;
    MegaraidFaults& operator=(const MegaraidFaults&) = delete;

    void start() { schedule(); }
    /// No more of them, and none to come.
    void stop();
    /// Disks are where they were, and work.
    [[nodiscard]] bool healed() const noexcept { return away_ == 0; }
    /// The controller will not come back to this driver.
    [[nodiscard]] bool dead() const noexcept { return dead_; }

  private:
    void schedule();
    void inject(device::megaraid::Fault fault, const char* what);
    void error();
    void completion();
    void slow_disk();
    void wrong_abort();
    void crash();
    void management();
    void change();
    void pull_disk(unsigned id);
    void take_volume_offline(unsigned id);
    void hang_disk();
    void die();
    [[nodiscard]] device::megaraid::Fault anywhere(device::megaraid::FaultKind kind);
    [[nodiscard]] Duration up_to(Duration most);
    void later(Duration, std::function<void()>);
    void back_later(Duration, std::function<void()>);

    MegaraidWorld& world_;
    const MegaraidFaultOptions options_;
    struct Kind {
        Duration longest_wait;
        std::function<void()> strike;
    };
    std::vector<Kind> kinds_;
    bool stopped_ = false;
    bool dead_ = false;
    unsigned away_ = 0;  ///< disks and volumes that are not there or hang
    unsigned added_ = 0;
    unsigned idle_strikes_ = 0;  ///< in which nothing was asked of the controller
    std::uint64_t last_taken_ = 0;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mqblk::simulation
