// SPDX-License-Identifier: Apache-2.0
//
// Faults: what goes wrong while a workload runs, and when, all from the world's seed. Afterwards everything is healed.
#pragma once

#include "simulation/model.h"
#include "simulation/world.h"

#include <functional>
#include <string>
#include <vector>

namespace mqblk::simulation {

struct FaultOptions {
    // Which kinds may strike.
    bool cut = false, close = false, stall = false, drop = false;  ///< a connection, at any byte
    bool refuse = false;                                           ///< the next attempts to connect
    bool down = false;                                             ///< the target's host, for a while
    bool restart = false;                                          ///< the target, in order
    bool power_cut = false;                                        ///< the target, with its disk's volatile cache
    bool conditions = false;                                       ///< latency, bandwidth and windows change
    bool disk_hang = false;                                        ///< for a while
    Duration longest_interval = std::chrono::milliseconds(100);    ///< between two strikes
    Duration longest_outage = std::chrono::seconds(3);
    Duration longest_stall = std::chrono::milliseconds(50);
    Duration longest_hang = std::chrono::seconds(1);
};

class Faults {
  public:
    /// `model` is of the world's disk.
    Faults(World&, Model& model, FaultOptions);
    ~Faults();
    Faults(const Faults&) = delete;
    Faults& operator=(const Faults&) = delete;

    void start() { schedule(); }
    /// No more of them; the host is up and the target listens within the longest outage.
    void stop();
    [[nodiscard]] bool healed() const noexcept { return outages_ == 0 && world_.listening(); }

  private:
    using Kind = fabric::Fault::Kind;
    void schedule();
    void strike_connection(Kind);
    void refuse();
    [[nodiscard]] bool may_begin_outage() const;
    void end_outage();
    void take_down();
    void restart(bool power_cut);
    void change_conditions();
    void hang_disk();
    [[nodiscard]] Duration up_to(Duration most);
    void later(Duration, std::function<void()>);

    World& world_;
    Model& model_;
    const FaultOptions options_;
    std::vector<std::function<void()>> kinds_;
    bool stopped_ = false;
    unsigned outages_ = 0;  // under way: one at most, and a time without between two
    Time next_outage_{};
    std::uint64_t made_before_refusal_ = 0, struck_to_come_ = 0;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mqblk::simulation
