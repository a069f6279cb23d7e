// SPDX-License-Identifier: Apache-2.0
//
// The reactor of the real machine, on io_uring (Linux 6.1 or later). While there is work no system call is made on its
// behalf; an idle one sleeps in io_uring_enter until a watched descriptor, a timer or another thread wakes it.
#pragma once

#include "reactor/reactor.h"

#include <mqblk/error.h>

#include <memory>

namespace mqblk {

struct UringOptions {
    /// How long to poll before sleeping; see Reactor::set_spin. It shrinks by itself where polling does not pay. The
    /// default is zero on a machine with one processor, where polling only keeps the peer from running.
    Duration spin = default_spin();
    [[nodiscard]] static Duration default_spin() noexcept;
};

/// May be made on one thread and run on another; the first run_once() settles which. The error names what the kernel
/// refused and the remedy. `clock` and `random` outlive the reactor; `random` is used on the reactor's thread only.
[[nodiscard]] Result<std::unique_ptr<Reactor>> make_uring_reactor(const Clock& clock, Random& random,
                                                                  UringOptions options = {});

}  // namespace mqblk
