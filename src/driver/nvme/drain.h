// SPDX-License-Identifier: Apache-2.0
//
// Drain: a connection that was given up and closed on this side, read and forgotten until the target closes it too.
// A target does that when it has done with what it was sent there, so that nothing of it can have an effect afterwards;
// and after a TermReq a host has to wait for it. Owned by whoever wants to know; its reactor's thread. NVM Express TCP
// Transport Specification 1.0, section 3.5.
#pragma once

#include "fabric/connection.h"
#include "reactor/reactor.h"

#include <functional>
#include <memory>

namespace mqblk::driver::nvme {

/// What is left of a queue pair that is given up.
struct Parting {
    std::unique_ptr<fabric::Connection> connection;  ///< half-closed; null: it is closed already
    bool over = false;                               ///< and by the target: nothing sent there can act any more
};

class Drain {
  public:
    /// `over` runs once, from a pass of the reactor, when the target has closed the connection or reset it. After
    /// `bound` the connection is closed all the same, and `over` never runs.
    Drain(Reactor&, std::unique_ptr<fabric::Connection>, Duration bound, std::function<void()> over);
    Drain(const Drain&) = delete;
    Drain& operator=(const Drain&) = delete;

    /// The end of a connection that proves the above.
    [[nodiscard]] static bool ended_by_peer(int error_number) noexcept;

  private:
    void read();

    std::unique_ptr<fabric::Connection> connection_;
    std::function<void()> over_;
    Timer timer_;
};

}  // namespace mqblk::driver::nvme
