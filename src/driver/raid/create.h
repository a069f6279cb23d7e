// SPDX-License-Identifier: Apache-2.0
//
// A new array: all checks first, then zeroes in all its chunks, so that P and Q fit, then the superblocks.
#pragma once

#include "driver/raid/assemble.h"

#include <memory>
#include <vector>

namespace mqblk::driver::raid {

/// `io` has the members by their place in the options, which is their number; `found` says what they hold now.
[[nodiscard]] Task<Result<Assembled>> create_array(const Options& options, std::unique_ptr<MemberIo> io,
                                                   std::vector<Found> found);

}  // namespace mqblk::driver::raid
