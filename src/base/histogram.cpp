// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <algorithm>
#include <cmath>

namespace mqblk {

void Histogram::merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < buckets; ++i) {
        const std::uint64_t count = other.counts_[i].load(relaxed);
        if (count != 0) bump(counts_[i], count);
    }
    bump(sum_, other.sum_.load(relaxed));
    squares_.store(squares_.load(relaxed) + other.squares_.load(relaxed), relaxed);
    max_.store(std::max(max_.load(relaxed), other.max_.load(relaxed)), relaxed);
    const std::uint64_t theirs = other.min_plus_1_.load(relaxed);
    const std::uint64_t ours = min_plus_1_.load(relaxed);
    if (theirs != 0 && (ours == 0 || theirs < ours)) min_plus_1_.store(theirs, relaxed);
}

void Histogram::clear() noexcept {
    for (auto& count : counts_) count.store(0, relaxed);
    sum_.store(0, relaxed);
    squares_.store(0, relaxed);
    max_.store(0, relaxed);
    min_plus_1_.store(0, relaxed);
}

std::uint64_t Histogram::count() const noexcept {
    std::uint64_t total = 0;
    for (const auto& count : counts_) total += count.load(relaxed);
    return total;
}

std::uint64_t Histogram::min() const noexcept {
    const std::uint64_t value = min_plus_1_.load(relaxed);
    return value == 0 ? 0 : value - 1;
}

double Histogram::mean() const noexcept {
    const std::uint64_t total = count();
    return total == 0 ? 0 : static_cast<double>(sum()) / static_cast<double>(total);
}

double Histogram::stdev() const noexcept {
    const std::uint64_t total = count();
    if (total == 0) return 0;
    const double average = static_cast<double>(sum()) / static_cast<double>(total);
    const double variance = squares_.load(relaxed) / static_cast<double>(total) - average * average;
    return variance > 0 ? std::sqrt(variance) : 0;
}

std::uint64_t Histogram::percentile(double percent) const noexcept {
    const std::uint64_t total = count();
    if (total == 0) return 0;
    const double wanted = std::ceil(std::clamp(percent, 0.0, 100.0) / 100.0 * static_cast<double>(total));
    const std::uint64_t rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
        seen += counts_[i].load(relaxed);
        if (seen >= rank) return std::clamp(value_of(i), min(), max());
    }
    return max();
}

}  // namespace mqblk
