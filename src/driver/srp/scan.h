// SPDX-License-Identifier: Apache-2.0
//
// Finds out what a target has: logs in, counts the channels that it allows, asks for its LUNs and each of them about
// itself, and logs out.
#pragma once

#include "base/task.h"
#include "driver/srp/session.h"

#include <mqblk/error.h>

namespace mqblk {
class Reactor;
}

namespace mqblk::driver::srp {

/// Fills in session.channels (as many as were asked for, at most) and session.units. Bounded by the options. The error
/// names the target and the reason. Session and reactor outlive it.
[[nodiscard]] Task<Result<>> scan(Session& session, Reactor& reactor, unsigned channels);

}  // namespace mqblk::driver::srp
