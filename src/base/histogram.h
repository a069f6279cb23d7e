// SPDX-License-Identifier: Apache-2.0
//
// Histogram: a distribution of durations in nanoseconds, log-linear: 64 buckets per power of two, so that any value
// read back is within 0.8% of the one added. One thread adds; any thread may read meanwhile and sees each counter as
// it was at some moment. All bytes zero is the empty histogram: it can live in memory that is only mapped, not touched.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mqblk {

class Histogram {
  public:
    static constexpr unsigned sub_bits = 6;
    static constexpr unsigned value_bits = 42;  ///< 73 minutes; longer ones count as that
    static constexpr std::uint64_t max_value = (1ull << value_bits) - 1;
    static constexpr std::size_t buckets = std::size_t{value_bits - sub_bits + 1} << sub_bits;

    Histogram() noexcept = default;
    Histogram(const Histogram& other) noexcept { merge(other); }
    Histogram& operator=(const Histogram& other) noexcept {
        if (this != &other) {
            clear();
            merge(other);
        }
        return *this;
    }

    /// The owning thread only.
    void add(std::uint64_t nanoseconds) noexcept {
        const std::uint64_t value = nanoseconds > max_value ? max_value : nanoseconds;
        bump(counts_[bucket_of(value)], 1);
        bump(sum_, value);
        const double real = static_cast<double>(static_cast<std::int64_t>(value));
        squares_.store(squares_.load(relaxed) + real * real, relaxed);
        if (value > max_.load(relaxed)) max_.store(value, relaxed);
        if (value + 1 <= min_plus_1_.load(relaxed) - 1) min_plus_1_.store(value + 1, relaxed);
    }

    /// Adds everything in `other` to this one; the thread that owns this one.
    void merge(const Histogram& other) noexcept;
    void clear() noexcept;

    [[nodiscard]] bool empty() const noexcept { return min_plus_1_.load(relaxed) == 0; }
    [[nodiscard]] std::uint64_t count() const noexcept;
    [[nodiscard]] std::uint64_t min() const noexcept;  ///< 0 when empty
    [[nodiscard]] std::uint64_t max() const noexcept { return max_.load(relaxed); }
    [[nodiscard]] std::uint64_t sum() const noexcept { return sum_.load(relaxed); }
    [[nodiscard]] double mean() const noexcept;   ///< exact; 0 when empty
    [[nodiscard]] double stdev() const noexcept;  ///< of the population; 0 when empty
    /// The smallest recorded value that at least `percent` (0 … 100) of all values do not exceed; 0 when empty.
    [[nodiscard]] std::uint64_t percentile(double percent) const noexcept;

    static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
        if (value < (1u << sub_bits)) return value;
        const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - sub_bits - 1;
        return (std::size_t{shift + 1} << sub_bits) + ((value >> shift) & ((1u << sub_bits) - 1));
    }
    /// The middle of a bucket.
    static constexpr std::uint64_t value_of(std::size_t bucket) noexcept {
        const std::size_t octave = bucket >> sub_bits;
        if (octave == 0) return bucket;
        const unsigned shift = static_cast<unsigned>(octave - 1);
        const std::uint64_t base = ((1ull << sub_bits) + (bucket & ((1u << sub_bits) - 1))) << shift;
        return base + ((1ull << shift) >> 1);
    }

  private:
    static constexpr auto relaxed = std::memory_order_relaxed;
    static void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by) noexcept {
        counter.store(counter.load(relaxed) + by, relaxed);
    }

    std::atomic<std::uint64_t> sum_{0};
    std::atomic<double> squares_{0};
    std::atomic<std::uint64_t> max_{0};
    std::atomic<std::uint64_t> min_plus_1_{0};  // 0: nothing added yet; wraps to the top in add()'s comparison
    std::array<std::atomic<std::uint64_t>, buckets> counts_{};
};

}  // namespace mqblk
