// SPDX-License-Identifier: Apache-2.0
//
// How the main thread waits for I/O that may never be answered: the first signal stops what is not begun, and if the
// rest does not end at once, says how much is awaited; the second gives it up. What was given up is still in flight, so
// its memory and channel must outlive the process: report, then leave() (standard_output.h).
#pragma once

#include "base/clock.h"
#include "reactor/reactor.h"

namespace mqblk::cli {

class Patience {
  public:
    explicit Patience(Reactor& reactor) : reactor_(reactor) {}

    /// A pass of the reactor, which sleeps until something happens, but looks for signals now and then. `requests` are
    /// in flight. False: give them up.
    [[nodiscard]] bool wait(unsigned requests);

  private:
    Reactor& reactor_;
    Time noticed_ = never;  ///< the first signal
    bool told_ = false;
};

/// "waiting for 3 requests …": to standard error, once by each user.
void tell_what_is_awaited(unsigned requests);

}  // namespace mqblk::cli
