// SPDX-License-Identifier: Apache-2.0
//
// A Function behind a vfio-user socket: a model in another process (protocol 0.1 as published with libvfio-user and
// QEMU). Memory that lies in memory files is shared with the model; mappable areas of BARs are mapped; register
// writes are queued in shared memory, where the server is this project's; all else is a message and its answer. The
// server is not trusted: what it says is checked, and a breach loses the function.
#pragma once

#include "base/clock.h"
#include "pci/function.h"

#include <mqblk/error.h>

#include <chrono>
#include <memory>
#include <string>

namespace mqblk::pci {

struct VfioUserClientOptions {
    Duration connect_timeout = std::chrono::seconds(5);
    Duration answer_timeout = std::chrono::seconds(5);  ///< a server that takes longer has lost its function
    bool map_areas = true;
    bool posted_writes = true;  ///< queue register writes in shared memory where the server offers it
};

/// Blocks until the function is ready to use. The error names the socket, the reason and the remedy.
[[nodiscard]] Result<std::unique_ptr<Function>> open_vfio_user(std::string socket_path,
                                                               VfioUserClientOptions options = {});

}  // namespace mqblk::pci
