// SPDX-License-Identifier: Apache-2.0
//
// The operating system's TCP as a Network: connections over IPv4 and IPv6, by number or by name. Sending and receiving
// are direct system calls on non-blocking sockets.
#pragma once

#include "fabric/connection.h"

#include <memory>

namespace mqblk::fabric {

/// Thread-safe: each thread connects and listens in its own reactor.
[[nodiscard]] std::unique_ptr<Network> make_tcp_network();

}  // namespace mqblk::fabric
