// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include "base/log.h"

#include <gtest/gtest.h>

#include <limits>

namespace mqblk {
namespace {

using namespace std::chrono_literals;

TEST(Units, SizesInPowersOf1024) {
    struct Case {
        const char* text;
        std::uint64_t bytes;
    };
    const Case cases[] = {
        {"0", 0},
        {"1", 1},
        {"4096", 4096},
        {"4k", 4096},
        {"4K", 4096},
        {"4KiB", 4096},
        {"128k", 131072},
        {"3M", 3145728},
        {"3MiB", 3145728},
        {"1G", 1073741824},
        {"1GiB", 1073741824},
        {"2T", 2199023255552},
        {"2TiB", 2199023255552},
        {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()},
        {"16777215T", 16777215ull << 40},
    };
    for (const Case& c : cases) {
        const auto parsed = parse_size("size", c.text);
        ASSERT_TRUE(parsed) << parsed.error().message();
        EXPECT_EQ(*parsed, c.bytes) << c.text;
        EXPECT_EQ(*parse_size("size", format_size(c.bytes)), c.bytes) << format_size(c.bytes);
    }
    EXPECT_EQ(format_size(1536), "1536");
    EXPECT_EQ(format_size(3 << 19), "1536k");
    EXPECT_EQ(format_size(1ull << 30), "1G");
    EXPECT_EQ(format_size(0), "0");
}

TEST(Units, SizesForPeople) {
    EXPECT_EQ(human_size(0), "0B");
    EXPECT_EQ(human_size(512), "512B");
    EXPECT_EQ(human_size(1023), "1023B");
    EXPECT_EQ(human_size(1024), "1.00KiB");
    EXPECT_EQ(human_size(8 << 20), "8.00MiB");
    EXPECT_EQ(human_size(64 << 20), "64.0MiB");
    EXPECT_EQ(human_size(640 << 20), "640MiB");
    EXPECT_EQ(human_size((1ull << 30) - 1), "1.00GiB");
    EXPECT_EQ(human_size(1ull << 30), "1.00GiB");
    EXPECT_EQ(human_size(3ull << 40), "3.00TiB");
    EXPECT_EQ(human_size(~0ull), "16.0EiB");
}

TEST(Units, TimesWithTheirUnit) {
    struct Case {
        const char* text;
        Duration time;
    };
    const Case cases[] = {
        {"0", 0ns},   {"5ns", 5ns}, {"10us", 10us}, {"1500ms", 1500ms},
        {"30s", 30s}, {"2m", 2min}, {"0s", 0s},     {"3h", 3h},
    };
    for (const Case& c : cases) {
        const auto parsed = parse_duration("latency", c.text);
        ASSERT_TRUE(parsed) << parsed.error().message();
        EXPECT_EQ(*parsed, c.time) << c.text;
        EXPECT_EQ(*parse_duration("latency", format_duration(c.time)), c.time);
    }
    EXPECT_EQ(format_duration(1500ms), "1500ms");
    EXPECT_EQ(format_duration(60s), "1m");
    EXPECT_EQ(format_duration(24h), "24h");
    EXPECT_EQ(format_duration(-3us), "-3us");
}

TEST(Units, ErrorsNameOptionValueAndRemedy) {
    for (const char* text : {"1X", "", "k", "-1", "+1", " 1", "1 ", "1.5G", "0x10", "1kk", "1Kib", "G1", "1GB"}) {
        const auto parsed = parse_size("size", text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(parsed.error().code(), Errc::invalid_argument);
        EXPECT_EQ(parsed.error().message(),
                  std::string("size=") + text +
                      ": must be a number of bytes, with k, M, G or T for powers of 1024, such as 4096, 128k or 1G");
    }
    for (const char* text : {"18446744073709551616", "99999999999999999999999", "16777216T", "17179869184G"}) {
        const auto parsed = parse_size("size", text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(parsed.error().message(), std::string("size=") + text + ": the number is too large");
    }
    for (const char* text : {"5", "10", "1d", "us", "-1us", "1.5s", "1 s"}) {
        const auto parsed = parse_duration("latency", text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(parsed.error().message(),
                  std::string("latency=") + text + ": must be a number with ns, us, ms, s, m or h, such as 10us or 2s");
    }
    EXPECT_FALSE(parse_duration("latency", "153722868m"));
    EXPECT_TRUE(parse_duration("latency", "153722867m"));
}

TEST(Units, NumbersWithinBounds) {
    EXPECT_EQ(*parse_number("queues", "7", 1, 8), 7u);
    for (const char* text : {"0", "9", "8x", "", "1k"}) {
        const auto parsed = parse_number("queues", text, 1, 8);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(parsed.error().message(), std::string("queues=") + text + ": must be a number from 1 to 8");
    }
}

TEST(Log, LevelsHoldLinesBack) {
    EXPECT_EQ(*parse_log_level("debug"), LogLevel::debug);
    EXPECT_FALSE(parse_log_level("loud"));
    testing::internal::CaptureStderr();
    log_info("not shown");
    log_warning("shown once");
    set_log_level(LogLevel::off);
    log_error("not shown either");
    set_log_level(LogLevel::warning);
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("warning: shown once\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("not shown"), std::string::npos) << text;
}

TEST(Log, OneLinePerReason) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < 1000; ++i) log_limited("test: reason one", "first kind");
    log_limited("test: reason two", "second kind");
    for (int i = 0; i < 5000; ++i) log_limited("test: made up " + std::to_string(i), "many kinds");
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(text.find("first kind"), text.rfind("first kind"));
    EXPECT_NE(text.find("second kind"), std::string::npos);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 300) << "reasons that a peer makes up are bounded";
}

}  // namespace
}  // namespace mqblk
