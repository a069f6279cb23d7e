// SPDX-License-Identifier: Apache-2.0
//
// Text of strangers on a terminal.
#include "base/printable.h"

#include "base/random.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace mqblk {
namespace {

TEST(Printable, EscapesWhatIsNotForTerminals) {
    struct Case {
        std::string text, expected;
    };
    for (const auto& [text, expected] : {
             Case{"", ""},
             Case{"nqn.2026-01.io.mqblk:disks \\ \"x\"", "nqn.2026-01.io.mqblk:disks \\ \"x\""},
             Case{"\x1b[2J\n\r\t\x7f", "\\x1b[2J\\x0a\\x0d\\x09\\x7f"},
             Case{std::string("a\0b", 3), "a\\x00b"},
             Case{"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x92\xbe",
                  "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x92\xbe"},
             Case{"\xc2\x9b"
                  "31m",
                  "\\xc2\\x9b31m"},
             Case{"\xe2\x80\xae", "\\xe2\\x80\\xae"},
             Case{"\xff\xfe", "\\xff\\xfe"},
             Case{"\xc3", "\\xc3"},
             Case{"\xc3(", "\\xc3("},
             Case{"\xc0\xaf", "\\xc0\\xaf"},
             Case{"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},
             Case{"\xed\xa0\x80", "\\xed\\xa0\\x80"},
             Case{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
             Case{"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
         })
        EXPECT_EQ(printable(text), expected);
}

TEST(Printable, MakesAnyBytesJson) {
    SeededRandom random(1);
    for (int i = 0; i < 2000; ++i) {
        std::string text(random.below(40), '\0');
        for (char& c : text) c = static_cast<char>(random.below(3) == 0 ? 0xc0 + random.below(64) : random.below(256));
        const std::string clean = printable(text);
        EXPECT_NO_THROW(static_cast<void>(nlohmann::json(clean).dump()));
        EXPECT_TRUE(std::ranges::none_of(clean, [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
        EXPECT_EQ(printable(clean), clean);
    }
}

TEST(Printable, AbridgesWhatIsTooLong) {
    EXPECT_EQ(abridged("abcdef", 6), "abcdef");
    EXPECT_EQ(abridged("abcdefg", 6), "abc […] efg");
    EXPECT_EQ(abridged("", 0), "");
    EXPECT_EQ(abridged("a", 0), " […] ");
}

}  // namespace
}  // namespace mqblk
