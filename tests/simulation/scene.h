// SPDX-License-Identifier: Apache-2.0
//
// Scene: what every simulated session has, whatever device it is about: virtual time and chance from one seed, a trace
// (the hash of what ended when and how), and the story of what was done, for a seed that fails.
#pragma once

#include "base/random.h"
#include "reactor/simulated.h"

#include <cstdint>
#include <functional>
#include <string>

namespace mqblk::simulation {

class Scene {
  public:
    explicit Scene(std::uint64_t seed) : sim(seed), random(seed ^ 0x5851f42d4c957f2du) {}
    virtual ~Scene() = default;
    Scene(const Scene&) = delete;
    Scene& operator=(const Scene&) = delete;

    SimulatedWorld sim;
    SeededRandom random;  ///< the scenario's

    [[nodiscard]] bool run_until(const std::function<bool()>& done, Duration bound) {
        return sim.run_until(done, bound);
    }

    /// Goes into the trace, and, when a seed is replayed, to the screen.
    void note(const std::string& line);
    [[nodiscard]] std::uint64_t trace() const noexcept { return trace_; }
    void tell(const std::string& line);  ///< into the story
    [[nodiscard]] virtual std::string story() const { return "what was done:\n" + story_; }

  private:
    std::uint64_t trace_ = 0xcbf29ce484222325u;
    std::string story_;
};

}  // namespace mqblk::simulation
