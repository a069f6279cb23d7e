// SPDX-License-Identifier: Apache-2.0
//
// The program with disks and volumes of MegaRAID controllers: served by one process to another, whose data stay when it
// has gone, modelled in its own, and refusals in one sentence.
#include "program.h"

#include <mqblk/context.h>
#include <mqblk/device.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
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

/// The disk to be plugged belongs to a controller whose firmware keeps its driver waiting for minutes.
TEST_F(CliMegaraidControl, ADiskThatDoesNotOpenDoesNotHoldTheProgramAtItsEnd) {
    const std::string silent = dir_.file("silent");
    Running other({"emulate", "megaraid", "--socket", silent, "--jbod", "ram://?size=8M", "--fault",
                   "slow-dcmd,opcode=0x02010100,by=100s"});
    ASSERT_EQ(other.wait_for_line("ready"), "ready") << other.output();
    start({"megaraid", "--jbod", "ram://?size=8M"});
    std::thread client([&] { EXPECT_NE(ctl({"plug", "megaraid+vfio-user://" + silent + "/pd/0"}).code, 0); });
    std::this_thread::sleep_for(std::chrono::seconds(1));  // should it come later, the program ends in order
    const int code = server_->end(SIGTERM);
    EXPECT_TRUE(code == 128 + SIGTERM || code == 0) << code;
    client.join();
    EXPECT_EQ(other.end(SIGTERM), 0);
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

/// A controller of two disks and a volume, in another process.
class CliMegaraidSocket : public testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(server_.wait_for_line("ready"), "ready") << server_.output(); }
    [[nodiscard]] std::string uri(const std::string& rest) const { return "megaraid+vfio-user://" + socket_ + rest; }

    const TemporaryDirectory dir_;
    const std::string socket_ = dir_.file("megaraid.sock");
    Running server_{{"emulate", "megaraid", "--socket", socket_, "--jbod", "ram://?size=8M", "--jbod", "ram://?size=4M",
                     "--ld", "6x5=ram://?size=16M"}};
};

TEST_F(CliMegaraidSocket, IsListedWithTheUrisThatOpenItsDisks) {
    for (const std::string name : {"", "/", "/ld/0"}) {
        const auto listed = run_program({"list", uri(name)});
        EXPECT_EQ(listed.code, 0) << listed.err;
        EXPECT_THAT(listed.out, HasSubstr(uri("") + ": mqblk MegaRAID model, serial MQBLK0001, firmware operational, "
                                                    "disks of their own 2, volumes 1\n"));
        for (const std::string row : {"/pd/0   8.00MiB    512", "/pd/1   4.00MiB    512", "/ld/0   16.0MiB    512"})
            EXPECT_THAT(listed.out, HasSubstr(uri(row)));
        EXPECT_THAT(listed.out, HasSubstr("RAID 6"));
    }
    const auto listed = run_program({"list", "--json", uri("?timeout=2s")});
    EXPECT_EQ(listed.code, 0) << listed.err;
    const auto report = nlohmann::json::parse(listed.out);
    EXPECT_TRUE(report["namespaces"].empty());
    const auto& controller = report["controllers"].at(0);
    EXPECT_EQ(controller["driver"], "megaraid");
    EXPECT_EQ(controller["details"]["firmware_state"], "operational");
    ASSERT_EQ(controller["disks"].size(), 3u);
    const auto& volume = controller["disks"].at(2);
    EXPECT_EQ(volume["uri"], uri("/ld/0?timeout=2s"));
    EXPECT_EQ(volume["kind"], "volume");
    EXPECT_EQ(volume["raid_level"], 6);
    EXPECT_EQ(volume["bytes"], 16u << 20);
    EXPECT_FALSE(controller["disks"].at(0).contains("raid_level"));
    for (const auto& disk : controller["disks"])
        EXPECT_EQ(run_program({"info", disk["uri"].get<std::string>()}).code, 0) << disk["uri"];
}

TEST_F(CliMegaraidSocket, IsSharedByAllThatNameItsDisks) {
    const std::string data = dir_.file("data");
    write_file(data, numbered_lines(4u << 20));
    ASSERT_EQ(run_program({"write", uri("/pd/1"), "-i", data}).code, 0);
    const auto copied = run_program({"copy", uri("/pd/1"), uri("/ld/0")});
    EXPECT_EQ(copied.code, 0) << copied.err;
    EXPECT_EQ(run_program({"verify", data, uri("/ld/0"), "--length", "4M"}).code, 0);
    const auto measured = run_program({"bench", uri("/pd/0"), uri("/pd/1"), uri("/ld/0"), "--rw", "randrw", "--depth",
                                       "12", "--jobs", "2", "--time", "200ms", "--verify"});
    EXPECT_EQ(measured.code, 0) << measured.err;
    const auto differing = run_program({"copy", uri("/pd/0"), uri("/ld/0?timeout=3s")});
    EXPECT_EQ(differing.code, 2);
    EXPECT_THAT(differing.err, HasSubstr("is open with other options (queues=0, timeout=30000ms)"));
}

TEST_F(CliMegaraidSocket, IsFreeAgainWhenTheLastDiskIsClosed) {
    Context context;
    for (unsigned round = 0; round < 3; ++round) {
        auto first = context.open(uri("/pd/0"));
        ASSERT_TRUE(first) << first.error().message();
        auto second = context.open(uri("/ld/0"));
        ASSERT_TRUE(second) << second.error().message();
        EXPECT_EQ(context.open(uri("/pd/0")).value(), *first) << "the same device for all who ask";
        first->reset();
        auto third = context.open(uri("/pd/1"));
        ASSERT_TRUE(third) << third.error().message();
    }
    const auto other = context.open(uri("/pd/0?timeout=7s"));
    EXPECT_TRUE(other) << "nobody has it open with other options any more: " << other.error().message();
}

TEST(CliMegaraid, ListingRefusesInOneSentence) {
    const std::pair<std::string, std::string> rows[] = {
        {"null://", "names a device and no controller with several"},
        {"megaraid+vfio-user://", "no absolute path of a socket"},
        {"megaraid+vfio-user:///nobody", "nobody serves a device there"},
        {"megaraid+pci://", "names no card"},
        {"megaraid+model://", "needs a disk, such as jbod=[ram://?size=64M]"},
        {"skd+model://", "is required, such as disk="},
        {"megaraid+modle://", "megaraid+model"},
    };
    for (const auto& [uri, part] : rows) {
        SCOPED_TRACE(uri);
        const auto ended = run_program({"list", uri});
        EXPECT_NE(ended.code, 0);
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
        EXPECT_THAT(ended.err, HasSubstr(part));
    }
}

TEST(CliMegaraid, ListsACardThatIsOneDisk) {
    const auto listed = run_program({"list", "--json", "skd+model://?disk=[ram://?size=64M]"});
    EXPECT_EQ(listed.code, 0) << listed.err;
    const auto report = nlohmann::json::parse(listed.out);
    const auto& card = report["controllers"].at(0);
    EXPECT_EQ(card["driver"], "skd");
    EXPECT_EQ(card["disks"].at(0)["uri"], "skd+model://?disk=[ram://?size=64M]");
    EXPECT_EQ(card["disks"].at(0)["bytes"], 64u << 20);
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
        {"megaraid+model:///pd/0?jbod=[null://]&fault=pull@2,pd=0", 1,
         "it has neither disks of their own nor volumes: make some with its management tool"},
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
