// SPDX-License-Identifier: Apache-2.0
//
// Where seeds come from, and the line that replays one.
#include "simulation/seeds.h"

#include "base/log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace mqblk::simulation {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

constexpr unsigned most_failures = 3;

std::optional<std::uint64_t> number_from(const char* variable) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) return std::nullopt;
    return std::strtoull(text, nullptr, 10);
}

std::string replay_command(std::uint64_t seed) {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    return fmt::format("MQBLK_SEED={} {} --gtest_filter={}.{}", seed, program.string(), test->test_suite_name(),
                       test->name());
}

bool failed() {
    return testing::UnitTest::GetInstance()->current_test_info()->result()->Failed();
}

unsigned failures() {
    return static_cast<unsigned>(testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count());
}

}  // namespace

bool replaying() {
    return number_from("MQBLK_SEED").has_value();
}

unsigned scaled(unsigned count) {
    return sanitized ? std::max(1u, count / 8) : count;
}

void for_each_seed(unsigned usual, const std::function<void(std::uint64_t seed)>& scenario) {
    const auto only = number_from("MQBLK_SEED");
    const std::uint64_t last = only.value_or(number_from("MQBLK_SEEDS").value_or(scaled(usual)));
    if (!only) set_log_level(LogLevel::off);  // connections are lost by the thousand
    unsigned failed_seeds = 0;
    for (std::uint64_t seed = only.value_or(1); seed <= last && failed_seeds < most_failures; ++seed) {
        const unsigned before = failures();
        {
            SCOPED_TRACE(fmt::format("to replay: {}", replay_command(seed)));
            scenario(seed);
        }
        if (failed() && failures() > before) ++failed_seeds;
    }
    set_log_level(LogLevel::warning);
}

}  // namespace mqblk::simulation
