// SPDX-License-Identifier: Apache-2.0
//
// A real reactor with what it needs, for tests.
#pragma once

#include "base/steady_clock.h"
#include "reactor/uring_reactor.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

namespace mqblk::test {

inline std::unique_ptr<Reactor> uring_reactor(Duration spin = std::chrono::microseconds(50)) {
    static const SteadyClock clock;
    static thread_local SeededRandom random(1);
    auto made = make_uring_reactor(clock, random, {.spin = spin});
    if (!made) throw std::runtime_error(made.error().message());
    return std::move(*made);
}

/// Runs until `done()`; false if that takes longer than any healthy machine needs.
template <class Done>
[[nodiscard]] bool run_until(Reactor& reactor, Done done) {
    const Time limit = reactor.now() + std::chrono::seconds(60);
    while (!done()) {
        if (reactor.now() >= limit) return false;
        reactor.run_once(Reactor::Sleep::yes, limit);
    }
    return true;
}

}  // namespace mqblk::test
