// SPDX-License-Identifier: Apache-2.0
//
// A target's configuration as text: what is written is read back, and what is wrong is refused with its place.
#include "registry/target_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mqblk::registry {
namespace {

TargetConfig sample() {
    return {{{"nqn.2026-01.io.mqblk:a", "S1", "mqblk", true, {}, {{1, "ram://?size=64M", "u1", "n1"}}},
             {"nqn.2026-01.io.mqblk:b",
              "S2",
              "other",
              false,
              {"nqn.host:1", "nqn.host:2"},
              {{3, "null://?size=1G", "u3", "n3"}, {9, "file:///a%20b", "u9", "n9"}}}}};
}

TEST(TargetConfig, WrittenAndReadIsTheSame) {
    const auto text = sample().to_json();
    const auto parsed = TargetConfig::parse(text);
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(*parsed, sample());
    EXPECT_EQ(parsed->to_json(), text);
}

TEST(TargetConfig, OrderDoesNotMatter) {
    const auto parsed = TargetConfig::parse(
        R"({"subsystems":[{"nqn":"b","namespaces":[{"nsid":2,"uri":"x"},{"nsid":1,"uri":"y"}]},{"nqn":"a"}]})");
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(parsed->subsystems[0].nqn, "a");
    EXPECT_EQ(parsed->subsystems[1].namespaces[0].nsid, 1u);
}

TEST(TargetConfig, RefusesWhatIsWrong) {
    struct Case {
        std::string text;
        const char* message;
    };
    const Case cases[] = {
        {"", "configuration: text: is not JSON"},
        {"[1]", "configuration: top: must be an object"},
        {"{\"version\":2}", "configuration: top: \"version\" must be 1"},
        {"{\"x\":2,\"subsystems\":[]}", "configuration: top: \"x\" is not known"},
        {"{}", "configuration: top: \"subsystems\" is missing"},
        {"{\"version\":1}", "configuration: top: \"subsystems\" is missing"},
        {"{\"subsystems\":{}}", "configuration: top: \"subsystems\" must be a list"},
        {"{\"subsystems\":[1]}", "configuration: subsystems[0]: must be an object"},
        {"{\"subsystems\":[{}]}", "configuration: subsystems[0]: \"nqn\" is missing"},
        {"{\"subsystems\":[{\"nqn\":\"\"}]}", "configuration: subsystems[0]: \"nqn\" must not be empty"},
        {"{\"subsystems\":[{\"nqn\":5}]}", "configuration: subsystems[0]: \"nqn\" must be a string"},
        {"{\"subsystems\":[{\"nqn\":\"a\"},{\"nqn\":\"a\"}]}", "configuration: subsystems: a is given twice"},
        {"{\"subsystems\":[{\"nqn\":\"" + std::string(224, 'n') + "\"}]}",
         "configuration: subsystems[0]: \"nqn\" is longer than 223 bytes"},
        {R"({"subsystems":[{"nqn":"a","namespaces":[{"uri":"x"}]}]})",
         "configuration: subsystems[0].namespaces[0]: \"nsid\" is missing"},
        {R"({"subsystems":[{"nqn":"a","namespaces":[{"nsid":1}]}]})",
         "configuration: subsystems[0].namespaces[0]: \"uri\" is missing"},
        {R"({"subsystems":[{"nqn":"a","namespaces":[{"nsid":-1,"uri":"x"}]}]})",
         "configuration: subsystems[0].namespaces[0]: \"nsid\" must be a number from 1 to 4294967294"},
        {R"({"subsystems":[{"nqn":"a","namespaces":[{"nsid":1,"uri":"x"},{"nsid":1,"uri":"y"}]}]})",
         "configuration: subsystems[0]: namespace 1 is given twice"},
        {R"({"subsystems":[{"nqn":"a","namespaces":[
            {"nsid":1,"uri":"x","uuid":"3d5e2ab4-2f0c-4f1e-9a45-0c3a1e0f4a11"},
            {"nsid":2,"uri":"y","uuid":"3D5E2AB4-2F0C-4F1E-9A45-0C3A1E0F4A11"}]}]})",
         "configuration: subsystems[0]: two namespaces have the identifier 3d5e2ab42f0c4f1e9a450c3a1e0f4a11"},
        {R"({"subsystems":[{"nqn":"a","serial":"a\u0000b"}]})",
         "configuration: subsystems[0]: \"serial\" must be printable ASCII characters"},
        {R"({"subsystems":[{"nqn":"a","model":"caf\u00e9"}]})",
         "configuration: subsystems[0]: \"model\" must be printable ASCII characters"},
        {R"({"subsystems":[{"nqn":"a","allowed_hosts":[1]}]})",
         "configuration: subsystems[0]: \"allowed_hosts\" must be NQNs of at most 223 bytes"},
    };
    for (const auto& c : cases) {
        const auto parsed = TargetConfig::parse(c.text);
        ASSERT_FALSE(parsed) << c.text;
        EXPECT_EQ(parsed.error().message(), c.message);
    }
    EXPECT_FALSE(TargetConfig::parse(std::string(1000000, '[')));
}

}  // namespace
}  // namespace mqblk::registry
