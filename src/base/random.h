// SPDX-License-Identifier: Apache-2.0
//
// Randomness as an interface, so that one seed replays a whole session.
#pragma once

#include <cstdint>

namespace mqblk {

class Random {
  public:
    virtual ~Random() = default;
    virtual std::uint64_t next() noexcept = 0;
    /// Uniform in [0, bound); bound > 0.
    std::uint64_t below(std::uint64_t bound) noexcept {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
    }
};

/// xoshiro256** by Blackman and Vigna (public domain algorithm), seeded by splitmix64. One thread.
class SeededRandom final : public Random {
  public:
    explicit SeededRandom(std::uint64_t seed) noexcept {
        for (auto& word : state_) {
            seed += 0x9e3779b97f4a7c15u;
            std::uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
            word = z ^ (z >> 31);
        }
    }
    std::uint64_t next() noexcept override {
        const auto rotate = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
        const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
        const std::uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate(state_[3], 45);
        return result;
    }

  private:
    std::uint64_t state_[4];
};

}  // namespace mqblk
