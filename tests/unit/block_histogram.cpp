// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace mqblk {
namespace {

TEST(BlockHistogram, EmptyIsAllZero) {
    const auto histogram = std::make_unique<Histogram>();
    EXPECT_EQ(histogram->count(), 0u);
    EXPECT_EQ(histogram->min(), 0u);
    EXPECT_EQ(histogram->percentile(50), 0u);
    EXPECT_EQ(histogram->stdev(), 0);
}

TEST(BlockHistogram, EveryBucketIsWithinOnePercent) {
    for (std::uint64_t value = 1; value < Histogram::max_value; value += value / 97 + 1) {
        const auto back = static_cast<double>(Histogram::value_of(Histogram::bucket_of(value)));
        EXPECT_LE(std::abs(back - static_cast<double>(value)), 0.01 * static_cast<double>(value)) << value;
    }
    EXPECT_EQ(Histogram::bucket_of(Histogram::max_value), Histogram::buckets - 1);
}

TEST(BlockHistogram, AgreesWithTheSortedValues) {
    constexpr std::uint64_t seed = 42;
    SeededRandom random(seed);
    const auto one = std::make_unique<Histogram>();
    const auto two = std::make_unique<Histogram>();
    std::vector<std::uint64_t> values;
    double sum = 0;
    for (int i = 0; i < 20000; ++i) {
        const std::uint64_t value = random.next() >> (24 + random.below(36));
        values.push_back(value);
        sum += static_cast<double>(value);
        (i % 2 == 0 ? *one : *two).add(value);
    }
    one->merge(*two);
    std::ranges::sort(values);
    EXPECT_EQ(one->count(), values.size());
    EXPECT_EQ(one->min(), values.front());
    EXPECT_EQ(one->max(), values.back());
    const double mean = sum / static_cast<double>(values.size());
    EXPECT_NEAR(one->mean(), mean, mean * 1e-9);
    double squares = 0;
    for (const std::uint64_t value : values) squares += std::pow(static_cast<double>(value) - mean, 2);
    const double stdev = std::sqrt(squares / static_cast<double>(values.size()));
    EXPECT_NEAR(one->stdev(), stdev, stdev * 1e-6);
    for (const double percent : {0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
        const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(percent / 100 * 20000.0)));
        const auto exact = static_cast<double>(values[rank - 1]);
        EXPECT_NEAR(static_cast<double>(one->percentile(percent)), exact, exact * 0.01)
            << "seed " << seed << " p" << percent;
    }
}

TEST(BlockHistogram, LongerThanTheLongestCountsAsThat) {
    const auto histogram = std::make_unique<Histogram>();
    histogram->add(~0ull);
    EXPECT_EQ(histogram->max(), Histogram::max_value);
    EXPECT_EQ(histogram->count(), 1u);
}

}  // namespace
}  // namespace mqblk
