// SPDX-License-Identifier: Apache-2.0
//
// The program with disks and volumes of MegaRAID controllers: served by one process to another, whose data stay when it
// has gone, modelled in its own, and refusals in one sentence.
#include "program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::test {
namespace {

using testing::HasSubstr;

std::string numbered_lines(std::size_t bytes) {
    std::string text;
    for (unsigned i = 0; text.size() < bytes; ++i) text += std::to_string(i * 2654435761u) + "\n";
    text.resize(bytes);
    return text;
}

TEST(CliMegaraid, DataGoToADiskAndAVolumeOfAnotherProcess) {
    const TemporaryDirectory dir;
    const std::string socket = dir.file("megaraid.sock"), data = dir.file("data");
    write_file(data, numbered_lines(3u << 20));
    Running server({"emulate", "megaraid", "--socket", socket, "--jbod", "ram://?size=8M", "--ld", "6x5=ram://?size=8M",
                    "--fault", "lost@200", "--fault", "firmware-fault@400"});
    ASSERT_EQ(server.wait_for_line("ready"), "ready") << server.output();
    for (const std::string unit : {"pd/0", "ld/0"}) {
        const std::string uri = "megaraid+vfio-user://" + socket + "/" + unit + "?timeout=500ms";
        const auto info = run_program({"info", uri});
        EXPECT_EQ(info.code, 0) << info.err;
        EXPECT_THAT(info.out, HasSubstr("megaraid.sock/" + unit));
        EXPECT_THAT(info.out, HasSubstr("mqblk MegaRAID model"));
        const auto written = run_program({"write", uri, "-i", data});
        EXPECT_EQ(written.code, 0) << written.err;
        const auto verified = run_program({"verify", data, uri, "--length", "3M"});
        EXPECT_EQ(verified.code, 0) << verified.err;
    }
    EXPECT_EQ(server.end(SIGTERM), 0);
}

class CliMegaraidControl : public testing::Test {
  protected:
    void start(const std::vector<std::string>& model) {
        std::vector<std::string> words{"emulate", "--socket", dir_.file("sock"), "--control", control_};
        words.insert(words.end(), model.begin(), model.end());
        server_.emplace(words);
        ASSERT_EQ(server_->wait_for_line("ready"), "ready") << server_->output();
    }
    Ended ctl(std::vector<std::string> words) const {
        words.insert(words.begin(), {"ctl", "--control", control_});
        return run_program(words);
    }
    nlohmann::json list() const { return nlohmann::json::parse(ctl({"list", "--json"}).out); }
    void expect_refusal(const std::vector<std::string>& words, int code, const std::string& part) const {
        const auto ended = ctl(words);
        EXPECT_EQ(ended.code, code) << ended.err;
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
        EXPECT_THAT(ended.err, HasSubstr(part));
    }
    std::string uri(const std::string& unit) const { return "megaraid+vfio-user://" + dir_.file("sock") + "/" + unit; }

    const TemporaryDirectory dir_;
    const std::string control_ = dir_.file("ctl");
    std::optional<Running> server_;
};

TEST_F(CliMegaraidControl, DisksComeAndGo) {
    start({"megaraid", "--jbod", "ram://?size=8M", "--ld", "1=ram://?size=8M"});
    EXPECT_THAT(ctl({"plug", "ram://?size=4M"}).out, HasSubstr("pd/3: ram://?size=4M"))
        << "behind the disk and the volume's two";
    EXPECT_EQ(run_program({"bench", uri("pd/3"), "--rw", "randrw", "--verify", "--size", "1M"}).code, 0);
    EXPECT_EQ(ctl({"pull", "pd/3"}).code, 0);
    EXPECT_EQ(ctl({"pull", "ld/0"}).code, 0);
    EXPECT_THAT(run_program({"info", uri("pd/3")}).err, HasSubstr("there are pd/0"));
    EXPECT_EQ(ctl({"plug", "ld/0"}).code, 0);
    EXPECT_EQ(run_program({"info", uri("ld/0")}).code, 0);
    const auto listed = list();
    EXPECT_EQ(listed["model"], "megaraid");
    ASSERT_EQ(listed["units"].size(), 3u);
    EXPECT_EQ(listed["units"][2]["unit"], "pd/3");
    EXPECT_EQ(listed["units"][2]["bytes"], 4u << 20);
    EXPECT_EQ(listed["units"][2]["present"], false);
    EXPECT_GT(listed["counters"]["fast_path"], 0u);
    EXPECT_THAT(ctl({"list"}).out, HasSubstr("blocks of 512 bytes, pulled out"));
    EXPECT_EQ(server_->end(SIGTERM), 0);
}

TEST_F(CliMegaraidControl, FaultsAreGivenAtWork) {
    start({"megaraid", "--jbod", "ram://?size=8M"});
    EXPECT_EQ(ctl({"fault", "medium-error,pd=0,lba=64"}).code, 0);
    const auto read = run_program({"read", uri("pd/0"), "--length", "1M", "-o", dir_.file("back")});
    EXPECT_EQ(read.code, 1);
    EXPECT_THAT(read.err, HasSubstr("medium error"));
    EXPECT_EQ(server_->end(SIGTERM), 0);
}

TEST_F(CliMegaraidControl, RefusesInOneSentence) {
    start({"megaraid", "--jbod", "ram://?size=8M"});
    expect_refusal({"pull", "pd/7"}, 1, "there is no disk or volume pd/7; there are pd/0");
    expect_refusal({"plug", "pd/0"}, 2, "pd/0 is there already");
    expect_refusal({"plug", "nosuch://"}, 2, "nosuch");
    expect_refusal({"fault", "lost,ld=3"}, 2, "there are pd=0");
    expect_refusal({"fault", "explode"}, 2, "there are medium-error");
    expect_refusal({"save"}, 2, "there is no command \"save\"; there are list, plug, pull, fault");
    EXPECT_EQ(server_->end(SIGTERM), 0);
}

TEST_F(CliMegaraidControl, AnS1120TakesFaultsToo) {
    start({"skd", "ram://?size=8M"});
    EXPECT_EQ(ctl({"fault", "medium-error,lba=64"}).code, 0);
    const auto read = run_program({"read", "skd+vfio-user://" + dir_.file("sock"), "-o", dir_.file("back")});
    EXPECT_THAT(read.err, HasSubstr("medium error"));
    expect_refusal({"list"}, 2, "there is no command \"list\"; there are fault");
    EXPECT_EQ(server_->end(SIGTERM), 0);
}

TEST(CliMegaraid, RefusesInOneSentence) {
    struct Row {
        std::string uri;
        int code;
        std::string part;
    };
    const Row rows[] = {
        {"megaraid+model:///pd/0", 2, "needs a disk, such as jbod=[ram://?size=64M]"},
        {"megaraid+model:///pd/1?jbod=[null://]", 1, "has no pd/1; there are pd/0"},
        {"megaraid+model:///disk?jbod=[null://]", 2, "names no disk or volume"},
        {"megaraid+model:///ld/0?ld=[null://]&raid=1x3", 2, "1 of 2"},
        {"megaraid+model:///ld/0?ld=[null://]&raid=0&raid=1", 2, "given more often than ld"},
        {"megaraid+model:///ld/0?ld=[null://?block=4096]", 2, "use a disk with block=512"},
        {"megaraid+model://host/pd/0?jbod=[null://]", 2, "takes no address"},
        {"megaraid+vfio-user:///nobody/pd/0", 1, "nobody serves a device there"},
        {"megaraid+vfio-user:///pd/0", 2, "no absolute path of a socket"},
        {"megaraid+pci:///pd/0", 2, "names no card"},
        {"megaraid+pci://ffff:ff:1f.7/pd/0", 1, "no PCI card at ffff:ff:1f.7"},
        {"megaraid+model:///pd/0?jbod=[null://]&fault=firmware-fault@2,for-good=1", 1,
         "the firmware fails when it is to tell what it is"},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.uri);
        const auto ended = run_program({"info", row.uri});
        EXPECT_EQ(ended.code, row.code);
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
        EXPECT_THAT(ended.err, HasSubstr(row.part));
    }
}

}  // namespace
}  // namespace mqblk::test
