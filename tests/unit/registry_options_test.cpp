// SPDX-License-Identifier: Apache-2.0
//
// Options of URIs: what is read, and the exact sentence for each mistake. No device is opened by a wrong one.
#include "registry/options.h"
#include "registry/queue_options.h"
#include "registry/schemes.h"

#include <mqblk/context.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace mqblk::registry {
namespace {

using namespace std::chrono_literals;

constexpr std::array test_options{
    OptionInfo{"size", "SIZE", "", ""},      OptionInfo{"wait", "TIME", "", ""}, OptionInfo{"count", "N", "", ""},
    OptionInfo{"on", "0|1", "", ""},         OptionInfo{"kind", "a|b", "", ""},  OptionInfo{"name", "TEXT", "", ""},
    OptionInfo{"ns", "[URI]", "", "", true},
};

TEST(Options, ReadsEachType) {
    const auto uri =
        Uri::parse("x://?size=64M&wait=20us&count=7&on&kind=b&name=n%20m&ns=[ram://?size=1k]&ns=[null://]");
    ASSERT_TRUE(uri);
    OptionReader reader(*uri, test_options);
    EXPECT_EQ(reader.size("size", 1, 0, 1u << 30), 64u << 20);
    EXPECT_EQ(reader.time("wait", 0s, 0s, 1s), 20us);
    EXPECT_EQ(reader.number("count", 0, 0, 10), 7u);
    EXPECT_TRUE(reader.flag("on", false));
    constexpr std::array<std::string_view, 2> kinds{"a", "b"};
    EXPECT_EQ(reader.choice("kind", kinds, 0), 1u);
    EXPECT_EQ(reader.text("name", ""), "n m");
    const auto namespaces = reader.uris("ns");
    ASSERT_EQ(namespaces.size(), 2u);
    EXPECT_EQ(namespaces[1]->scheme, "null");
    EXPECT_TRUE(reader.finish());
}

TEST(Options, AbsentOnesHaveTheirDefault) {
    const auto uri = Uri::parse("x://");
    OptionReader reader(*uri, test_options);
    EXPECT_EQ(reader.size("size", 5, 0, 10), 5u);
    EXPECT_EQ(reader.time("wait", 3s, 0s, 5s), 3s);
    EXPECT_TRUE(reader.flag("on", true));
    EXPECT_EQ(reader.text("name", "d"), "d");
    EXPECT_TRUE(reader.uris("ns").empty());
    EXPECT_TRUE(reader.finish());
}

TEST(Options, SaysWhatIsWrong) {
    struct Case {
        const char* uri;
        const char* message;
    };
    const Case cases[] = {
        {"x://?siez=1",
         "x: unknown option \"siez\" (did you mean \"size\"?); allowed: size, wait, count, on, kind, name, ns, and "
         "the queue's options (mqblk help uris)"},
        {"x://?zzzzzzz=1",
         "x: unknown option \"zzzzzzz\"; allowed: size, wait, count, on, kind, name, ns, and the "
         "queue's options (mqblk help uris)"},
        {"x://?size=1&size=2", "x: option \"size\" is given more than once"},
        {"x://?size", "x: option \"size\" needs a value (size=…)"},
        {"x://?size=1X",
         "x: size=1X: must be a number of bytes, with k, M, G or T for powers of 1024, such as 4096, 128k or 1G"},
        {"x://?size=2G", "x: size=2G: must be from 1k to 1G"},
        {"x://?size=[ram://]", "x: size=ram://: must be a plain value, not a URI"},
        {"x://?wait=5", "x: wait=5: must be a number with ns, us, ms, s, m or h, such as 10us or 2s"},
        {"x://?wait=2s", "x: wait=2s: must be from 0 to 1s"},
        {"x://?count=-1", "x: count=-1: must be a number from 0 to 10"},
        {"x://?count=11", "x: count=11: must be a number from 0 to 10"},
        {"x://?on=2", "x: on=2: must be 0 or 1"},
        {"x://?kind=c", "x: kind=c: must be a or b"},
        {"x://?ns=ram", "x: ns=ram: must be a URI in square brackets, such as ns=[ram://?size=64M]"},
    };
    for (const auto& c : cases) {
        const auto uri = Uri::parse(c.uri);
        ASSERT_TRUE(uri) << c.uri;
        OptionReader reader(*uri, test_options);
        reader.size("size", 1024, 1024, 1u << 30);
        reader.time("wait", 0s, 0s, 1s);
        reader.number("count", 0, 0, 10);
        reader.flag("on", false);
        constexpr std::array<std::string_view, 2> kinds{"a", "b"};
        reader.choice("kind", kinds, 0);
        [[maybe_unused]] const auto namespaces = reader.uris("ns");
        const auto finished = reader.finish();
        ASSERT_FALSE(finished) << c.uri;
        EXPECT_EQ(finished.error().message(), c.message);
        EXPECT_EQ(finished.error().code(), Errc::invalid_argument);
    }
}

TEST(Schemes, EachEntryIsWholeAndItsExampleParses) {
    for (const auto& scheme : schemes()) {
        SCOPED_TRACE(scheme.name);
        const auto uri = Uri::parse(scheme.example);
        ASSERT_TRUE(uri) << uri.error().message();
        EXPECT_EQ(uri->scheme, scheme.name);
        EXPECT_FALSE(scheme.summary.empty());
        EXPECT_NE(scheme.open, nullptr);
        const OptionReader reader(*uri, scheme.options);
        EXPECT_TRUE(reader.finish());
        for (const auto& option : scheme.options) {
            EXPECT_FALSE(option.help.empty()) << option.name;
            EXPECT_NE(describe_schemes(true).find("`" + std::string(option.name) + "`"), std::string::npos);
        }
    }
}

TEST(Schemes, TheDocumentHoldsTheTable) {
    std::ifstream file(std::filesystem::path(MQBLK_SOURCE_DIR) / "docs" / "uris.md");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(text.empty());
    EXPECT_NE(text.find(describe_schemes(true)), std::string::npos)
        << "docs/uris.md is out of date: replace its table by the output of `mqblk help uris --markdown`";
}

std::string attribute(const Device& device, std::string_view name) {
    for (const auto& [key, value] : device.attributes()) {
        if (key == name) return value;
    }
    return "(absent)";
}

TEST(QueueOptions, AreAttributesOfEveryScheme) {
    Context context;
    for (const std::string uri : {"null://?", "ram://?size=1M&", "nvme+loop:///1?ns=[null://]&"}) {
        SCOPED_TRACE(uri);
        // The scheduler's own come before it on purpose.
        const auto device = context.open(uri +
                                         "read_expire=70&nr_requests=9&scheduler=mq-deadline&max_sectors_kb=8&"
                                         "nomerges=2&io_timeout=1234&iostats=0&write_cache=write%20through&"
                                         "write_expire=71&writes_starved=3&fifo_batch=4&front_merges=0&"
                                         "prio_aging_expire=72");
        ASSERT_TRUE(device) << device.error().message();
        const std::pair<const char*, const char*> wanted[] = {{"scheduler", "none [mq-deadline]"},
                                                              {"read_expire", "70"},
                                                              {"write_expire", "71"},
                                                              {"prio_aging_expire", "72"},
                                                              {"writes_starved", "3"},
                                                              {"fifo_batch", "4"},
                                                              {"front_merges", "0"},
                                                              {"nr_requests", "9"},
                                                              {"max_sectors_kb", "8"},
                                                              {"nomerges", "2"},
                                                              {"iostats", "0"},
                                                              {"io_timeout", "1234"},
                                                              {"write_cache", "write through"}};
        for (const auto& [name, value] : wanted) EXPECT_EQ(attribute(**device, name), value) << name;
    }
}

TEST(QueueOptions, DefaultsAreWhatADeviceBeginsWith) {
    Context context;
    const auto device = context.open("null://?scheduler=mq-deadline");
    ASSERT_TRUE(device) << device.error().message();
    for (const auto& option : queue_options()) {
        SCOPED_TRACE(option.name);
        const auto value = attribute(**device, option.name);
        EXPECT_NE(value, "(absent)");
        const bool number = option.standard.find_first_not_of("0123456789") == std::string_view::npos;
        if (number) {
            EXPECT_EQ(value, option.standard);
        }
        EXPECT_NE(describe_schemes(true).find("`" + std::string(option.name) + "`"), std::string::npos);
    }
}

TEST(QueueOptions, AreRefusedWithTheirNames) {
    const std::pair<const char*, const char*> cases[] = {
        {"null://?scheduler=bfq", "null: scheduler=bfq: must be none or mq-deadline"},
        {"null://?nr_requests=1", "null: nr_requests=1: must be a number from 4 to 128"},
        {"null://?nr_requests=x", "null: nr_requests=x: must be a number from 4 to 128"},
        {"null://?depth=2&nr_requests=4", "null: nr_requests=4: must be 2"},
        {"null://?read_expire=5", "null: read_expire=5: is mq-deadline's; add scheduler=mq-deadline"},
        {"null://?schedular=none", "did you mean \"scheduler\"?"},
        {"null://?nomerges=1&nomerges=1", "null: option \"nomerges\" is given more than once"},
    };
    Context context;
    for (const auto& [uri, sentence] : cases) {
        const auto device = context.open(uri);
        ASSERT_FALSE(device) << uri;
        EXPECT_NE(device.error().message().find(sentence), std::string::npos) << device.error().message();
    }
}

TEST(Context, RefusesWhatCannotBeOpened) {
    struct Case {
        const char* uri;
        Errc code;
        const char* part;
    };
    const Case cases[] = {
        {"rm://?size=1M", Errc::invalid_argument, "no kind of device is called \"rm\" (did you mean \"ram\"?)"},
        {"ram://", Errc::invalid_argument, "option \"size\" is required, such as size=64M"},
        {"ram://?size=1000", Errc::invalid_argument, "must be a multiple of the block of 512 bytes, such as 1024"},
        {"ram://?size=4608&block=4096", Errc::invalid_argument, "multiple of the block of 4096 bytes, such as 8192"},
        {"ram://?size=1M&block=1024", Errc::invalid_argument, "block=1024: must be 512 or 4096"},
        {"ram://?size=1M&depth=0", Errc::invalid_argument, "depth=0: must be a number from 1 to 65536"},
        {"ram://host/?size=1M", Errc::invalid_argument, "\"host/\" after ram:// means nothing"},
        {"null://?latency=11s", Errc::invalid_argument, "latency=11s: must be from 0 to 10s"},
        {"file://tmp/x", Errc::invalid_argument, "\"tmp/x\" is no absolute path; write three slashes"},
        {"file:///nonexistent/dir/disk", Errc::not_found, "/nonexistent/dir/disk"},
        {"nvme+tcp://127.0.0.1", Errc::invalid_argument, "\"\" does not name a namespace"},
        {"nvme+tcp://127.0.0.1/nqn.x", Errc::invalid_argument, "does not name a namespace"},
        {"nvme+tcp://127.0.0.1/nqn.x/0", Errc::invalid_argument, "NSID=0: must be a number from 1 to 4294967294"},
        {"nvme+tcp:///nqn.x/1", Errc::invalid_argument, "no address"},
        {"nvme+tcp://127.0.0.1/nqn.x/1?hdgst=2", Errc::invalid_argument, "hdgst=2: must be 0 or 1"},
        {"nvme+loop:///1", Errc::invalid_argument, "does not name a namespace"},
        {"nvme+loop:///1?ns=[ram://]", Errc::invalid_argument, "option \"size\" is required"},
        {"nvme+loop://host/1?ns=[null://]", Errc::invalid_argument, "takes no address"},
    };
    Context context;
    for (const auto& c : cases) {
        SCOPED_TRACE(c.uri);
        const auto device = context.open(c.uri);
        ASSERT_FALSE(device);
        EXPECT_EQ(device.error().code(), c.code);
        EXPECT_THAT(device.error().message(), testing::HasSubstr(c.part));
        EXPECT_EQ(device.error().message().find('\n'), std::string::npos);
    }
}

TEST(Context, OpensWhatTheUriSays) {
    Context context;
    const auto device = context.open("ram://?size=1M&block=4096&ro=1");
    ASSERT_TRUE(device) << device.error().message();
    EXPECT_EQ((*device)->sectors(), 2048u);
    EXPECT_EQ((*device)->limits().logical_block_size, 4096u);
    EXPECT_TRUE((*device)->read_only());
    const auto null = context.open("null://");
    ASSERT_TRUE(null);
    EXPECT_EQ((*null)->sectors(), 2097152u);
}

}  // namespace
}  // namespace mqblk::registry
