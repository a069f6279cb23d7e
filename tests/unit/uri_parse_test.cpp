// SPDX-License-Identifier: Apache-2.0
//
// URIs: what they mean, that printing and parsing are inverse, and where each malformed one is said to be wrong.
#include "base/random.h"
#include "registry/uri.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mqblk::registry {
namespace {

TEST(Uri, PartsOfEachForm) {
    struct Case {
        const char* text;
        const char* scheme;
        const char* address;
        const char* path;
        std::vector<std::pair<std::string, std::string>> options;
    };
    const Case cases[] = {
        {"null://", "null", "", "", {}},
        {"null://?size=1G", "null", "", "", {{"size", "1G"}}},
        {"file:///var/tmp/a.img", "file", "", "/var/tmp/a.img", {}},
        {"file:///with%20space/100%25", "file", "", "/with space/100%", {}},
        {"file:///a[1].img?ro", "file", "", "/a[1].img", {{"ro", ""}}},
        {"file://relative/x", "file", "relative", "/x", {}},
        {"nvme+tcp://127.0.0.1:4420/nqn.2026-01.io.mqblk:disks/1?hdgst=1&ddgst=0",
         "nvme+tcp",
         "127.0.0.1:4420",
         "/nqn.2026-01.io.mqblk:disks/1",
         {{"hdgst", "1"}, {"ddgst", "0"}}},
        {"nvme+tcp://[::1]:4420/n/1", "nvme+tcp", "[::1]:4420", "/n/1", {}},
        {"x://?a=1&b=2&a=3", "x", "", "", {{"a", "1"}, {"b", "2"}, {"a", "3"}}},
        {"x://?a=", "x", "", "", {{"a", ""}}},
        {"x://?a=b=c?d", "x", "", "", {{"a", "b=c?d"}}},
        {"x://?", "x", "", "", {}},
        {"x://?a=1&", "x", "", "", {{"a", "1"}}},
        {"x://?v=%5Bno%5D%26", "x", "", "", {{"v", "[no]&"}}},
    };
    for (const auto& c : cases) {
        SCOPED_TRACE(c.text);
        const auto uri = Uri::parse(c.text);
        ASSERT_TRUE(uri) << uri.error().message();
        EXPECT_EQ(uri->scheme, c.scheme);
        EXPECT_EQ(uri->address, c.address);
        EXPECT_EQ(uri->path, c.path);
        ASSERT_EQ(uri->options.size(), c.options.size());
        for (std::size_t i = 0; i < c.options.size(); ++i) {
            EXPECT_EQ(uri->options[i].name, c.options[i].first);
            EXPECT_EQ(uri->options[i].value, c.options[i].second);
        }
    }
}

TEST(Uri, NestsInSquareBrackets) {
    const auto uri = Uri::parse(
        "raid6://?member=[file:///d0?size=1G]&member=[nvme+tcp://[::1]:4420/nqn:x/1]&chunk=128k&"
        "member=[fault://?below=[ram://?size=1M&block=512]&seed=7]");
    ASSERT_TRUE(uri) << uri.error().message();
    ASSERT_EQ(uri->options.size(), 4u);
    EXPECT_EQ(uri->options[0].nested.at(0).path, "/d0");
    EXPECT_EQ(uri->options[0].nested.at(0).options.at(0).value, "1G");
    EXPECT_EQ(uri->options[1].nested.at(0).address, "[::1]:4420");
    EXPECT_EQ(uri->options[2].value, "128k");
    const auto& fault = uri->options[3].nested.at(0);
    EXPECT_EQ(fault.options.at(0).nested.at(0).find("block")->value, "512");
    EXPECT_EQ(fault.find("seed")->value, "7");
}

TEST(Uri, SaysWhatIsWrongAndWhere) {
    struct Case {
        std::string text;
        const char* message;
    };
    const Case cases[] = {
        {"",
         "URI \"\": expected a scheme such as \"ram\" (lower-case letters; a plain file is file:///PATH) at character "
         "1"},
        {"RAM://",
         "URI \"RAM://\": expected a scheme such as \"ram\" (lower-case letters; a plain file is file:///PATH) at "
         "character 1"},
        {"ram", "URI \"ram\": expected \"://\" after the scheme (a plain file is file:///PATH) at character 4"},
        {"ram:/x", "URI \"ram:/x\": expected \"://\" after the scheme (a plain file is file:///PATH) at character 4"},
        {"nvme+://x",
         "URI \"nvme+://x\": expected a transport such as \"tcp\" (lower-case letters) "
         "at character 6"},
        {"x://?=1",
         "URI \"x://?=1\": expected an option as name=value (lower-case letters, digits, \"_\", \"-\", "
         "\".\") at character 6"},
        {"x://?Size=1",
         "URI \"x://?Size=1\": expected an option as name=value (lower-case letters, digits, \"_\", "
         "\"-\", \".\") at character 6"},
        {"x://?a=[ram://", "URI \"x://?a=[ram://\": this \"[\" has no matching \"]\" at character 8"},
        {"x://?a=[ram://]b", "URI \"x://?a=[ram://]b\": expected \"&\" or the end after \"]\" at character 16"},
        {"x://?a=[ram:]",
         "URI \"x://?a=[ram:]\": expected \"://\" after the scheme (a plain file is file:///PATH) at character 12"},
        {"x://?a=[y://?b=[]]",
         "URI \"x://?a=[y://?b=[]]\": expected a scheme such as \"ram\" (lower-case letters; a plain file is "
         "file:///PATH) at character 17"},
        {"x://?a=b]", "URI \"x://?a=b]\": a \"]\" within a value must be written %5D at character 9"},
        {"x://?a=b[c]", "URI \"x://?a=b[c]\": a \"[\" within a value must be written %5B at character 9"},
        {"x:///%4",
         "URI \"x:///%4\": expected two hexadecimal digits after \"%\" (write %25 for itself) at character 6"},
        {"x:///%zz",
         "URI \"x:///%zz\": expected two hexadecimal digits after \"%\" (write %25 for itself) at character 6"},
        {"x:///a%00", "URI \"x:///a%00\": a zero byte (%00) is not allowed at character 7"},
        {"x:///a\nb", "URI \"x:///a\\x0ab\": a control character must be written as %XX at character 7"},
    };
    for (const auto& c : cases) {
        const auto uri = Uri::parse(c.text);
        ASSERT_FALSE(uri) << c.text;
        EXPECT_EQ(uri.error().code(), Errc::invalid_argument);
        EXPECT_EQ(uri.error().message(), c.message);
    }
}

TEST(Uri, DepthAndLengthAreBounded) {
    std::string text = "ram://";
    for (unsigned i = 1; i < Uri::max_depth; ++i) text = "x://?a=[" + text + "]";
    EXPECT_TRUE(Uri::parse(text));
    const auto deeper = Uri::parse("x://?a=[" + text + "]");
    ASSERT_FALSE(deeper);
    EXPECT_THAT(deeper.error().message(), testing::HasSubstr("nested more than 16 deep"));
    EXPECT_FALSE(Uri::parse("x://?a=" + std::string(1000000, '[')));
    const auto longest = Uri::parse("file:///" + std::string(Uri::max_length, 'a'));
    ASSERT_FALSE(longest);
    EXPECT_LT(longest.error().message().size(), 400u);
}

Uri random_uri(SeededRandom& random, unsigned depth) {
    const auto text = [&](std::size_t most) {
        std::string result;
        for (auto n = random.below(most + 1); n > 0; --n) result += static_cast<char>(1 + random.below(255));
        return result;
    };
    Uri uri;
    uri.scheme = random.below(2) ? "ram" : "nvme+tcp";
    uri.address = random.below(4) == 0 ? "[::1]:" + text(4) : text(8);
    std::erase(uri.address, '/');
    if (random.below(2)) uri.path = "/" + text(12);
    for (auto n = random.below(4); n > 0; --n) {
        Uri::Option option;
        option.name = std::string(1, static_cast<char>('a' + random.below(26)));
        option.has_value = random.below(5) != 0;
        if (option.has_value && depth > 0 && random.below(2)) {
            option.nested.push_back(random_uri(random, depth - 1));
            option.value = option.nested.front().to_string();
        } else if (option.has_value) {
            option.value = text(10);
        }
        uri.options.push_back(std::move(option));
    }
    return uri;
}

void expect_same(const Uri& a, const Uri& b) {
    EXPECT_EQ(a.scheme, b.scheme);
    EXPECT_EQ(a.address, b.address);
    EXPECT_EQ(a.path, b.path);
    ASSERT_EQ(a.options.size(), b.options.size());
    for (std::size_t i = 0; i < a.options.size(); ++i) {
        EXPECT_EQ(a.options[i].name, b.options[i].name);
        EXPECT_EQ(a.options[i].value, b.options[i].value);
        EXPECT_EQ(a.options[i].has_value, b.options[i].has_value);
        ASSERT_EQ(a.options[i].nested.size(), b.options[i].nested.size());
        if (!a.options[i].nested.empty()) expect_same(a.options[i].nested[0], b.options[i].nested[0]);
    }
}

TEST(Uri, PrintedAndParsedIsTheSame) {
    constexpr std::uint64_t seed = 20260114;
    SeededRandom random(seed);
    for (int i = 0; i < 3000; ++i) {
        const Uri uri = random_uri(random, 4);
        const auto text = uri.to_string();
        SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i) + ": " + text);
        const auto parsed = Uri::parse(text);
        ASSERT_TRUE(parsed) << parsed.error().message();
        expect_same(uri, *parsed);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(Uri, SetReplacesOrAdds) {
    auto uri = *Uri::parse("ram://?size=64M&block=512");
    uri.set("size", "128M");
    EXPECT_EQ(uri.to_string(), "ram://?size=128M&block=512");
    uri.set("ro", "1");
    EXPECT_EQ(uri.to_string(), "ram://?size=128M&block=512&ro=1");
}

}  // namespace
}  // namespace mqblk::registry
