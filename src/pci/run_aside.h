// SPDX-License-Identifier: Apache-2.0
//
// A call that blocks for long (a reset of real hardware, or of a model elsewhere), made on a thread of its own while
// the reactor goes on.
#pragma once

#include "base/task.h"

#include <mqblk/error.h>

#include <functional>

namespace mqblk {

class Reactor;

namespace pci {

/// Ends on the reactor's thread with what `work` returned. The reactor runs until then.
[[nodiscard]] Task<Result<>> run_aside(Reactor& reactor, std::function<Result<>()> work);

}  // namespace pci
}  // namespace mqblk
