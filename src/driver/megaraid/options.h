// SPDX-License-Identifier: Apache-2.0
//
// What can be set for a MegaRAID controller's driver, and the bounds of all that it waits for.
#pragma once

#include "base/clock.h"

#include <mqblk/error.h>

#include <chrono>
#include <string>

namespace mqblk::driver::megaraid {

struct Options {
    static constexpr unsigned most_queues = 127;

    unsigned queues = 0;                          ///< hardware queues; 0: one for each CPU. The firmware may have fewer
    Duration timeout = std::chrono::seconds(30);  ///< after which a request is late and its recovery begins
    std::string name = "megaraid";                ///< of the controller's disks, for people

    // Bounds, as Linux's driver has them; shorter ones are for tests.
    Duration state_bound = std::chrono::seconds(180);  ///< of one firmware state on the way to ready
    Duration ready_bound = std::chrono::minutes(10);   ///< of all of them together
    Duration init_bound = std::chrono::seconds(60);    ///< of IOC INIT
    Duration dcmd_bound = std::chrono::seconds(180);   ///< of a management command
    Duration scsi_bound = std::chrono::seconds(10);    ///< of asking a disk about itself
    Duration task_bound = std::chrono::seconds(50);    ///< of an abort or target reset
    Duration ended_bound = std::chrono::seconds(1);    ///< of an aborted command's own end, after the abort's
    Duration cancel_bound = std::chrono::seconds(1);   ///< of commands that nobody wants any more
    Duration reset_settle{};                           ///< during a controller reset its registers are left alone
    unsigned reset_tries = 3;                          ///< of one recovery, before the controller is given up
};

/// The error names the option, its value and its range.
[[nodiscard]] Result<> check_options(const Options&);

}  // namespace mqblk::driver::megaraid
