// SPDX-License-Identifier: Apache-2.0
//
// Where a job's I/O goes on one device: its part of the device in units of the I/O size, the next offset, and under
// --verify what each unit should hold. No unit is ever in flight twice while it is verified, so that what is read has
// one right answer.
#pragma once

#include "base/random.h"
#include "cli/bench/workload.h"

#include <cstdint>
#include <vector>

namespace mqblk::cli {

class Place {
  public:
    /// Job `job` of `work` on a device of `device_bytes`.
    Place(const Workload& work, std::uint64_t device_bytes, unsigned job);

    /// The unit for the next I/O.
    [[nodiscard]] std::uint64_t next(SeededRandom& random) noexcept {
        std::uint64_t unit;
        do {
            unit = random_ ? scale(random.next(), units_) : advance();
        } while (!record_.empty() && (record_[unit] & busy) != 0);
        return unit;
    }

    [[nodiscard]] std::uint64_t byte_of(std::uint64_t unit) const noexcept { return first_byte_ + unit * unit_bytes_; }
    [[nodiscard]] std::uint64_t units() const noexcept { return units_; }

    // Under --verify only.

    /// Marks a unit in flight; for a write, the returned generation is what it will hold.
    std::uint32_t begin(std::uint64_t unit, bool write) noexcept {
        const std::uint32_t generation = record_[unit] & ~busy;
        record_[unit] |= busy;
        return write ? (generation + 1 < busy ? generation + 1 : 1) : generation;
    }
    /// Ends it: the unit now holds `generation`; 0 for unknown.
    void end(std::uint64_t unit, std::uint32_t generation) noexcept { record_[unit] = generation; }
    /// 0: never written, or unknown after a failed write.
    [[nodiscard]] std::uint32_t generation(std::uint64_t unit) const noexcept { return record_[unit] & ~busy; }

  private:
    static constexpr std::uint32_t busy = 1u << 31;
    static std::uint64_t scale(std::uint64_t random, std::uint64_t bound) noexcept {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(random) * bound) >> 64);
    }
    std::uint64_t advance() noexcept {
        const auto unit = position_;
        position_ = unit + 1 == units_ ? 0 : unit + 1;
        return unit;
    }

    std::uint64_t unit_bytes_, first_byte_, units_, position_ = 0;
    bool random_;
    std::vector<std::uint32_t> record_;
};

}  // namespace mqblk::cli
