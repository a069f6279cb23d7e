// SPDX-License-Identifier: Apache-2.0
//
// Seeds: a scenario runs for many of them, and each failure prints the one command that replays it. MQBLK_SEED=N runs
// that seed alone, and says what happens; MQBLK_SEEDS=N runs that many instead of the usual number.
#pragma once

#include <cstdint>
#include <functional>

namespace mqblk::simulation {

/// Fewer under sanitizers, which cost tenfold.
[[nodiscard]] unsigned scaled(unsigned count);

/// Runs `scenario` for seeds 1 … scaled(usual), inside a test. Stops after a few failing seeds.
void for_each_seed(unsigned usual, const std::function<void(std::uint64_t seed)>& scenario);

/// A single seed was asked for.
[[nodiscard]] bool replaying();

}  // namespace mqblk::simulation
