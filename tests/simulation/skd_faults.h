// SPDX-License-Identifier: Apache-2.0
//
// SkdFaults: what the card does wrong while a workload runs, and when, all from the world's seed.
#pragma once

#include "simulation/skd_world.h"

#include <functional>
#include <memory>
#include <vector>

namespace mqblk::simulation {

struct SkdFaultOptions {
    // Which kinds may strike.
    bool errors = false;       ///< medium errors and check conditions of every kind
    bool completions = false;  ///< lost, late, with a wrong tag, told twice
    bool busy = false;         ///< busy, erasing, sanitizing
    bool crashes = false;      ///< the firmware: fault, offline, booting, resetting by itself
    bool answers = false;      ///< of the mailbox, that get lost
    bool gone = false;         ///< out of its slot, once
    bool disk_hang = false;    ///< for a while: a reset has to wait for it
    Duration longest_interval = std::chrono::milliseconds(10);  ///< before a command is struck
    Duration longest_peace = std::chrono::milliseconds(60);     ///< before the whole card or its disk is
    Duration longest_state = std::chrono::seconds(5);
    Duration longest_delay = std::chrono::seconds(20);  ///< of a completion: longer than the driver waits
};

/// What a card may do wrong while it is started: a few things, at any of the driver's first commands and messages.
[[nodiscard]] std::vector<device::skd::Fault> draw_start_faults(Random& random);

class SkdFaults {
  public:
    SkdFaults(SkdWorld&, SkdFaultOptions);
    ~SkdFaults();
    SkdFaults(const SkdFaults&) = delete;
    SkdFaults& operator=(const SkdFaults&) = delete;

    void start() { schedule(); }
    /// No more of them, and none to come.
    void stop();
    [[nodiscard]] bool healed() const noexcept { return hanging_ == 0; }
    /// The card was pulled out: this driver does not take it back.
    [[nodiscard]] bool lost_card() const noexcept { return lost_card_; }

  private:
    void schedule();
    void inject(device::skd::Fault fault);
    void enter(wire::skd::DriveState state);
    void scsi_error();
    void completion();
    void pull_out();
    void hang_disk();
    [[nodiscard]] Duration up_to(Duration most);
    void later(Duration, std::function<void()>);

    SkdWorld& world_;
    const SkdFaultOptions options_;
    struct Kind {
        Duration longest_wait;
        std::function<void()> strike;
    };
    std::vector<Kind> kinds_;
    bool stopped_ = false;
    bool lost_card_ = false;
    unsigned hanging_ = 0;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mqblk::simulation
