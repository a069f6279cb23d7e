// SPDX-License-Identifier: Apache-2.0
//
// A served target's configuration while it runs: load is all or nothing; and requests from strangers get an answer.
#include "registry/target_control.h"
#include "registry/target_service.h"
#include "unit/file_support.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mqblk::registry {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class LoadTest : public testing::Test {
  protected:
    LoadTest() {
        auto started = TargetService::start(context_, {});
        EXPECT_TRUE(started) << (started ? "" : started.error().message());
        service_ = std::move(*started);
    }
    json call(const std::string& request) {
        const std::string text = handle_control(*service_, "nqn.2026-01.io.mqblk:disks", request);
        EXPECT_EQ(text.find('\n'), std::string::npos);
        auto answer = json::parse(text, nullptr, false);
        EXPECT_TRUE(answer.is_object() && answer.contains("ok")) << text;
        return answer;
    }
    std::string refused(const std::string& request) {
        const json answer = call(request);
        EXPECT_EQ(answer["ok"], false) << request.substr(0, 100);
        std::string why = answer.value("error", "");
        EXPECT_NE(why, "");
        EXPECT_EQ(why.find('\n'), std::string::npos) << why;
        return why;
    }
    std::string load(const std::string& subsystems) {
        const json answer = call(R"({"command":"load","config":{"version":1,"subsystems":[)" + subsystems + "]}}");
        return answer["ok"] == true ? "" : answer.value("error", "");
    }
    static std::string subsystem(const std::string& nqn, const std::string& namespaces, const std::string& more = "") {
        return fmt::format(R"({{"nqn":"{}","namespaces":[{}]{}}})", nqn, namespaces, more);
    }
    static std::string ns(unsigned nsid, const std::string& uri, const std::string& more = "") {
        return fmt::format(R"({{"nsid":{},"uri":"{}"{}}})", nsid, uri, more);
    }
    Device* device(const std::string& nqn, std::uint32_t nsid) {
        const auto found = service_->target().device(nqn, nsid);
        return found ? found->get() : nullptr;
    }

    const std::string a = "nqn.2026-01.io.mqblk:a", b = "nqn.2026-01.io.mqblk:b";
    Context context_;
    std::unique_ptr<TargetService> service_;
};

TEST_F(LoadTest, WhatFailsLeavesEverythingAsItWas) {
    ASSERT_EQ(load(subsystem(a, ns(1, "ram://?size=1M") + "," + ns(2, "null://?size=1G"),
                             R"(,"allow_any_host":false,"allowed_hosts":["nqn.2000-01.x:h"])") +
                   "," + subsystem(b, ns(7, "ram://?size=2M"))),
              "");
    const TargetConfig before = service_->save();
    ASSERT_EQ(before.subsystems.size(), 2u);
    Device* const first = device(a, 1);
    Device* const second = device(b, 7);

    const std::string fewer = subsystem(a, ns(2, "null://?size=2G"));  // without 1, another 2, without b
    const struct {
        const char* what;
        std::string last, error;
    } cases[] = {
        {"a device that cannot be opened", subsystem("nqn.2026-01.io.mqblk:z", ns(1, "file:///no/such/file")),
         "/no/such"},
        {"a scheme that is not there", subsystem("nqn.2026-01.io.mqblk:z", ns(1, "floppy://")), "floppy"},
        {"a size that is none", subsystem("nqn.2026-01.io.mqblk:z", ns(1, "ram://?size=1000")), "1000"},
        // These are found only when everything else has been changed.
        {"a UUID that is none", subsystem("nqn.2026-01.io.mqblk:z", ns(1, "ram://?size=1M", R"(,"uuid":"zz")")), "zz"},
        {"an NQN that is none", subsystem("zzz", ns(1, "ram://?size=1M")), "zzz"},
        {"a host that is none",
         subsystem("nqn.2026-01.io.mqblk:z", "", R"(,"allow_any_host":false,"allowed_hosts":["nobody"])"), "nobody"},
    };
    for (const auto& each : cases) {
        EXPECT_THAT(load(fewer + "," + each.last), HasSubstr(each.error)) << each.what;
        EXPECT_EQ(service_->save(), before) << each.what;
        EXPECT_EQ(device(a, 1), first) << each.what << ": the same disk, with its data";
        EXPECT_EQ(device(b, 7), second) << each.what;
    }
    EXPECT_EQ(load(fewer), "");
    EXPECT_EQ(service_->save().subsystems.size(), 1u);
}

TEST_F(LoadTest, ADeviceThatMovesIsHandedOver) {
    const test::ScratchDirectory directory;
    const std::string uri = "file://" + directory.file("disk") + "?size=1M";
    ASSERT_EQ(load(subsystem(a, ns(1, uri))), "");
    Device* const disk = device(a, 1);
    // The file is locked: it cannot be opened a second time.
    EXPECT_EQ(load(subsystem(b, ns(3, uri))), "");
    EXPECT_EQ(device(b, 3), disk);
    EXPECT_EQ(device(a, 1), nullptr);
    EXPECT_THAT(load(subsystem(b, ns(3, uri) + "," + ns(4, uri))), HasSubstr("in use elsewhere"));
    EXPECT_EQ(device(b, 3), disk);
}

TEST_F(LoadTest, HostileRequestsGetOneSentence) {
    const auto nested = [](std::size_t depth, const char* open, const char* close) {
        std::string text;
        for (std::size_t i = 0; i < depth; ++i) text += open;
        for (std::size_t i = 0; i < depth; ++i) text += close;
        return text;
    };
    for (const std::size_t depth : {33ul, 100'000ul, 4'000'000ul}) {
        refused(nested(depth, "[", "]"));
        refused(R"({"command":"load","config":)" + nested(depth, "[", "]") + "}");
        refused(R"({"command":"list","config":)" + nested(depth, R"({"a":)", "0").substr(0, depth * 6));
    }
    refused(R"({"command":"load","config":)" + nested(20, "[", "]") + "}");
    EXPECT_THAT(call(R"({"command":"list","x":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[["})")["error"],
                testing::HasSubstr("\"x\" is not known"))
        << "brackets in a text are no depth";
    for (const char* number : {"1e999", "-1", "1.5", "18446744073709551616", "99999999999999999999999999999", "1e-999",
                               "4294967295", "true", "null", "\"1\"", "[1]", "{}"}) {
        refused(fmt::format(R"({{"command":"remove","nsid":{}}})", number));
        refused(fmt::format(R"({{"command":"add","uri":"null://?size=1G","nsid":{}}})", number));
        if (std::string(number) != "4294967295")
            refused(fmt::format(R"({{"command":"resize","nsid":1,"bytes":{}}})", number));
        refused(fmt::format(R"({{"command":"load","config":{{"version":{}}}}})", number));
    }
    for (const char* wrong : {"7", "null", "[]", "{}", "true"}) {
        for (const char* name : {"command", "uri", "nqn", "host", "uuid"}) {
            refused(fmt::format(R"({{"command":"allow-host","{}":{}}})", name, wrong));
            refused(fmt::format(R"({{"command":"add","{}":{}}})", name, wrong));
        }
        refused(fmt::format(R"({{"command":"load","config":{{"subsystems":[{}]}}}})", wrong));
        refused(fmt::format(R"({{"command":"allow-any-host","any":{}}})", wrong[0] == 't' ? "1" : wrong));
    }
    for (const std::string bytes : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"})
        refused(R"({"command":"add","uri":"null://)" + bytes + "\"}");
    refused(R"({"command":"add","uri":"null://\u0000?size=1G\u0000"})");
    refused(R"({"command":"allow-host","host":"nqn.2000-01.a:\ud800"})");
    refused(R"({"command":"\u0000"})");
    refused("");
    refused(std::string(100, '\0'));
    EXPECT_TRUE(service_->save().subsystems.empty()) << "nothing came of any of it";
}

TEST_F(LoadTest, SmallerAndLargerAgain) {
    ASSERT_EQ(load(subsystem(a, ns(1, "ram://?size=1M"))), "");
    const auto resize = [&](std::uint64_t bytes) {
        return call(fmt::format(R"({{"command":"resize","nqn":"{}","nsid":1,"bytes":{},"shrink":true}})", a,
                                bytes))["ok"] == true;
    };
    EXPECT_THAT(call(fmt::format(R"({{"command":"resize","nqn":"{}","nsid":1,"bytes":512}})", a)).dump(),
                testing::HasSubstr("--shrink"));
    EXPECT_TRUE(resize(512 << 10));
    EXPECT_EQ(device(a, 1)->sectors(), 1024u);
    EXPECT_TRUE(resize(16 << 20));
    EXPECT_FALSE(resize((16 << 20) + 512)) << "beyond what it holds address space for";
    EXPECT_FALSE(resize(1000));
}

TEST_F(LoadTest, AnAnswerIsNoLongerThanASentence) {
    const auto why = refused(R"({"command":"add","uri":"null://?)" + std::string(500'000, 'x') + R"(=1"})");
    EXPECT_LT(why.size(), 2100u);
    EXPECT_THAT(why, testing::StartsWith("null: unknown option \"xxx"));
    EXPECT_THAT(why, HasSubstr("allowed: size"));
}

}  // namespace
}  // namespace mqblk::registry
