// SPDX-License-Identifier: Apache-2.0
//
// An Interrupt that comes by an eventfd, as VFIO and vfio-user deliver them. Its counter remembers what came while
// nobody waited.
#pragma once

#include "pci/function.h"
#include "pci/unix_socket.h"

#include <mqblk/error.h>

#include <functional>
#include <memory>
#include <string>

namespace mqblk::pci {

/// Non-blocking, counter 0.
[[nodiscard]] Result<OwnedFd> make_eventfd();

/// `fd` outlives it. `unmask` is called at each arming (for the pin, which is masked by its delivery); it may be empty.
[[nodiscard]] Result<std::unique_ptr<Interrupt>> make_eventfd_interrupt(int fd, Reactor& reactor,
                                                                        std::function<void()> raised,
                                                                        std::function<void()> unmask);

}  // namespace mqblk::pci
