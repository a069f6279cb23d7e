// SPDX-License-Identifier: Apache-2.0
//
// serve and what is done with it over TCP: using its disks, changing them while it runs, and refusing what is wrong.
#include "program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

namespace mqblk::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class ServeTest : public testing::Test {
  protected:
    /// Serves on a free port; `uri(n)` names namespace n of the default subsystem.
    void serve(std::vector<std::string> disks) {
        std::vector<std::string> arguments{"serve", "--listen", "127.0.0.1:0", "--control", socket_};
        arguments.insert(arguments.end(), disks.begin(), disks.end());
        server_ = std::make_unique<Running>(arguments);
        ASSERT_EQ(server_->wait_for_line("ready"), "ready") << server_->output();
        const auto listing = json::parse(run_program({"ctl", "--control", socket_, "list", "--json"}).out);
        address_ = listing["listen"][0].get<std::string>();
    }
    std::string uri(unsigned nsid, const std::string& name = "disks") const {
        return "nvme+tcp://" + address_ + "/nqn.2026-01.io.mqblk:" + name + "/" + std::to_string(nsid);
    }
    Ended ctl(std::vector<std::string> arguments) const {
        arguments.insert(arguments.begin(), {"ctl", "--control", socket_});
        return run_program(arguments);
    }

    TemporaryDirectory dir_;
    std::string socket_ = dir_.file("control");
    std::unique_ptr<Running> server_;
    std::string address_;
};

TEST_F(ServeTest, SaysHowToReachEachDisk) {
    serve({"ram://?size=8M", "data=null://?size=1G"});
    const auto& text = server_->output();
    EXPECT_THAT(text,
                HasSubstr("nqn.2026-01.io.mqblk:disks namespace 1: ram://?size=8M, 8.00MiB, blocks of 512 bytes\n"));
    EXPECT_THAT(text, HasSubstr("  mqblk bench " + uri(1) + "\n"));
    EXPECT_THAT(text, HasSubstr("  mqblk bench " + uri(1, "data") + "\n"));
    EXPECT_THAT(text, HasSubstr("  nvme connect -t tcp -a 127.0.0.1 -s "));
    EXPECT_EQ(server_->end(SIGTERM), 0);
    EXPECT_NE(::access(socket_.c_str(), F_OK), 0) << "the socket is removed";
}

TEST_F(ServeTest, DataGoesThereAndBack) {
    serve({"file://" + dir_.file("disk.img") + "?size=16M"});
    std::string data(4 << 20, '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
    write_file(dir_.file("data"), data);
    const auto copied = run_program({"copy", dir_.file("data"), uri(1), "--verify"});
    EXPECT_EQ(copied.code, 0) << copied.err;
    EXPECT_TRUE(read_file(dir_.file("disk.img")).substr(0, data.size()) == data);
    const auto read = run_program({"read", uri(1) + "?hdgst=1&ddgst=1", "--length", "4M"});
    EXPECT_EQ(read.code, 0) << read.err;
    EXPECT_TRUE(read.out == data);
    const auto bench =
        run_program({"bench", uri(1), "--rw", "randrw", "--verify", "--size", "4M", "--jobs", "2", "--json"});
    ASSERT_EQ(bench.code, 0) << bench.err;
    EXPECT_EQ(json::parse(bench.out)["jobs"][0]["verify"]["mismatches"], 0);
    const auto info = run_program({"info", uri(1), "--json"});
    ASSERT_EQ(info.code, 0) << info.err;
    EXPECT_EQ(json::parse(info.out)["identity"]["driver"], "nvme");
    EXPECT_FALSE(json::parse(info.out)["controller"].empty());
}

TEST_F(ServeTest, DiscoverAndListShowWhatThereIs) {
    serve({"ram://?size=8M", "data=null://?size=1G"});
    const auto found = run_program({"discover", address_, "--json"});
    ASSERT_EQ(found.code, 0) << found.err;
    EXPECT_EQ(json::parse(found.out)["records"].size(), 2u);
    EXPECT_THAT(run_program({"discover", address_}).out, HasSubstr("nqn.2026-01.io.mqblk:data"));
    const auto list = run_program({"list", address_});
    ASSERT_EQ(list.code, 0) << list.err;
    EXPECT_THAT(list.out, HasSubstr(uri(1)));
    EXPECT_THAT(list.out, HasSubstr(uri(1, "data")));
}

// JSON would carry another name than was given.
TEST_F(ServeTest, BytesThatAreNotUtf8AreRefused) {
    serve({"null://?size=1M"});
    const auto before = ctl({"save"}).out;
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"add", "ram://?size=1M&name=\xff"}, {"allow-host", "nqn.2000-01.a:\xff"}}) {
        const auto refused = ctl(words);
        EXPECT_EQ(refused.code, 2) << refused.err;
        EXPECT_THAT(refused.err, HasSubstr("UTF-8"));
    }
    EXPECT_EQ(ctl({"save"}).out, before);
}

TEST_F(ServeTest, NamespacesComeGoAndGrow) {
    serve({"ram://?size=8M"});
    const auto added = ctl({"add", "null://?size=64M", "--nsid", "7", "--json"});
    ASSERT_EQ(added.code, 0) << added.err;
    EXPECT_EQ(json::parse(added.out)["nsid"], 7);
    EXPECT_EQ(run_program({"read", uri(7), "--length", "4k"}).out.size(), 4096u);
    ASSERT_EQ(ctl({"resize", "1", "16M"}).code, 0);
    EXPECT_EQ(json::parse(run_program({"info", uri(1), "--json"}).out)["identity"]["bytes"], 16777216);
    ASSERT_EQ(ctl({"remove", "7"}).code, 0);
    const auto gone = run_program({"read", uri(7), "--length", "4k"});
    EXPECT_EQ(gone.code, 1);
    EXPECT_EQ(std::count(gone.err.begin(), gone.err.end(), '\n'), 1) << gone.err;
    EXPECT_THAT(ctl({"remove", "7"}).err, HasSubstr("has no namespace 7; it has 1"));
    EXPECT_EQ(ctl({"remove", "7"}).code, 1);
    const auto smaller = ctl({"resize", "1", "4M"});
    EXPECT_EQ(smaller.code, 2);
    EXPECT_THAT(smaller.err, HasSubstr("has 16M; 4M would cut off what lies beyond, for good: say so with --shrink"));
    EXPECT_EQ(json::parse(run_program({"info", uri(1), "--json"}).out)["identity"]["bytes"], 16777216);
    EXPECT_EQ(ctl({"resize", "1", "4M", "--shrink"}).code, 0);
    EXPECT_EQ(json::parse(run_program({"info", uri(1), "--json"}).out)["identity"]["bytes"], 4194304);
    EXPECT_EQ(ctl({"resize", "1", "1000"}).code, 2);
    EXPECT_EQ(ctl({"add", "ram://?size=1000"}).code, 2);
}

TEST_F(ServeTest, SaveLoadSaveIsTheIdentity) {
    serve({"ram://?size=8M", "data=null://?size=1G", "data=file://" + dir_.file("a b") + "?size=1M"});
    ASSERT_EQ(ctl({"resize", "1", "16M"}).code, 0);
    ASSERT_EQ(ctl({"allow-host", "nqn.2014-08.org.nvmexpress:uuid:1", "--nqn", "nqn.2026-01.io.mqblk:data"}).code, 0);
    ASSERT_EQ(ctl({"allow-any-host", "off", "--nqn", "nqn.2026-01.io.mqblk:data"}).code, 0);
    ASSERT_EQ(ctl({"save", dir_.file("first")}).code, 0);
    ASSERT_EQ(ctl({"load", dir_.file("first")}).code, 0);
    ASSERT_EQ(ctl({"save", dir_.file("second")}).code, 0);
    EXPECT_EQ(read_file(dir_.file("first")), read_file(dir_.file("second")));
    EXPECT_EQ(server_->end(SIGINT), 0);

    server_ = std::make_unique<Running>(std::vector<std::string>{"serve", "--listen", "127.0.0.1:0", "--control",
                                                                 socket_, "--config", dir_.file("first")});
    ASSERT_EQ(server_->wait_for_line("ready"), "ready");
    ASSERT_EQ(ctl({"save", dir_.file("third")}).code, 0);
    EXPECT_EQ(read_file(dir_.file("first")), read_file(dir_.file("third")));
    EXPECT_EQ(ctl({"load", dir_.file("missing")}).code, 1);
}

TEST_F(ServeTest, OnlyAllowedHostsConnect) {
    server_ = std::make_unique<Running>(std::vector<std::string>{"serve", "ram://?size=1M", "--listen", "127.0.0.1:0",
                                                                 "--control", socket_, "--allow-host",
                                                                 "nqn.2000-01.a:friend"});
    ASSERT_EQ(server_->wait_for_line("ready"), "ready");
    address_ = json::parse(ctl({"list", "--json"}).out)["listen"][0].get<std::string>();
    EXPECT_EQ(run_program({"info", uri(1) + "?hostnqn=nqn.2000-01.a:friend"}).code, 0);
    const auto refused = run_program({"info", uri(1) + "?hostnqn=nqn.2000-01.a:stranger"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    for (const char* command : {"list", "discover"}) {
        const auto shown = run_program({command, address_, "--hostnqn", "nqn.2000-01.a:stranger"});
        EXPECT_EQ(shown.code, command[0] == 'l' ? 1 : 0);
        EXPECT_THAT(shown.out + shown.err, HasSubstr("no subsystem to the host 'nqn.2000-01.a:stranger'; allow it"));
    }
    EXPECT_EQ(run_program({"list", address_, "--hostnqn", "nqn.2000-01.a:friend"}).code, 0);
    EXPECT_EQ(ctl({"allow-host", "nqn.2000-01.a:stranger"}).code, 0);
    EXPECT_EQ(run_program({"info", uri(1) + "?hostnqn=nqn.2000-01.a:stranger"}).code, 0);
}

TEST_F(ServeTest, AHostThatMayNoMoreEndsAtOnce) {
    serve({"ram://?size=1M"});
    ASSERT_EQ(ctl({"allow-host", "nqn.2000-01.a:other"}).code, 0);
    Running bench({"bench", uri(1) + "?hostnqn=nqn.2000-01.a:guest&reconnect_delay=100ms", "--time", "250"},
                  Running::Errors::with_output);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ASSERT_EQ(ctl({"allow-any-host", "off"}).code, 0);
    EXPECT_EQ(bench.wait(), 1) << "long before --time or ctrl_loss_tmo";
    EXPECT_THAT(bench.output(), HasSubstr("does not allow host NQN 'nqn.2000-01.a:guest'"));
}

TEST_F(ServeTest, ANullDiskShowsNobodyElsesData) {
    const std::string secret(4 << 20, 's');
    write_file(dir_.file("secret"), secret);
    serve({"file://" + dir_.file("disk") + "?size=8M", "null://?size=8M", "null://?size=8M&latency=1ms",
           "null://?size=8M&threaded=1", "null://?size=4M"});
    ASSERT_EQ(ctl({"resize", "5", "8M"}).code, 0);
    ASSERT_EQ(run_program({"write", uri(1), "-i", dir_.file("secret")}).code, 0);
    for (const char* options : {"", "?ddgst=1", "?hdgst=1&ddgst=1"}) {
        for (const unsigned nsid : {2u, 3u, 4u, 5u}) {
            SCOPED_TRACE(testing::Message() << nsid << options);
            ASSERT_TRUE(run_program({"read", uri(1) + options, "--length", "4M"}).out == secret);
            EXPECT_TRUE(run_program({"read", uri(nsid) + options}).out == std::string(8 << 20, '\0'));
        }
    }
}

TEST_F(ServeTest, ATargetWithoutDigestsIsNamed) {
    server_ = std::make_unique<Running>(std::vector<std::string>{"serve", "ram://?size=1M", "--listen", "127.0.0.1:0",
                                                                 "--control", socket_, "--no-header-digest",
                                                                 "--no-data-digest"});
    ASSERT_EQ(server_->wait_for_line("ready"), "ready");
    address_ = json::parse(ctl({"list", "--json"}).out)["listen"][0].get<std::string>();
    const auto refused = run_program({"info", uri(1) + "?hdgst=1"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("does not grant; leave out hdgst and ddgst"));
}

TEST_F(ServeTest, RefusesWhatCannotBe) {
    serve({"ram://?size=1M"});
    const auto one_line = [](const Ended& ended, int code, const std::string& part) {
        EXPECT_EQ(ended.code, code) << ended.err;
        EXPECT_THAT(ended.err, HasSubstr(part));
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
        EXPECT_EQ(ended.out, "");
    };
    one_line(run_program({"serve", "ram://?size=1M", "--listen", address_}), 1, address_);
    one_line(run_program({"serve", "ram://?size=1M", "--listen", "127.0.0.1:0", "--control", socket_}), 1,
             "a running target listens there; name another path");
    one_line(run_program({"info", "nvme+tcp://127.0.0.1:1/nqn.2000-01.a:b/1"}), 1, "127.0.0.1:1");
    one_line(run_program({"info", uri(1, "other")}), 1, "nqn.2026-01.io.mqblk:other");
    one_line(run_program({"info", uri(9)}), 1, "9");
    one_line(run_program({"discover", "127.0.0.1:1"}), 1, "127.0.0.1:1");
    one_line(run_program({"read", uri(1), "--offset", "3"}), 2, "offset 3 is not a multiple");
    one_line(run_program({"write", uri(1), "--offset", "1M"}, std::string(512, 'x')), 2, "beyond the end");
    one_line(run_program({"serve", "ram://?size=1M", "--config", dir_.file("none")}), 1, "none");
}

TEST_F(ServeTest, TheControlSocketSurvivesNonsense) {
    serve({"ram://?size=1M"});
    struct stat status{};
    ASSERT_EQ(::stat(socket_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    const auto talk = [&](const std::string& text) {
        const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, socket_.c_str(), sizeof address.sun_path - 1);
        EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
        ::shutdown(fd, SHUT_WR);
        std::string answer;
        char part[4096];
        for (ssize_t got; (got = ::recv(fd, part, sizeof part, 0)) > 0;)
            answer.append(part, static_cast<std::size_t>(got));
        ::close(fd);
        return answer;
    };
    EXPECT_THAT(talk("nonsense\n"), HasSubstr("not a JSON object"));
    EXPECT_THAT(talk("{\"command\":\"add\",\"uri\":\"ram://?size=1M\",\"sise\":1}\n"), HasSubstr("sise"));
    EXPECT_THAT(talk("{\"command\":\"list\",\"nqn\":\"x\"}\n"), HasSubstr("is not known"));
    EXPECT_THAT(talk("{\"command\":\"explode\"}\n"), HasSubstr("there is no command"));
    EXPECT_THAT(talk("{\"command\":7}\n"), HasSubstr("must be a string"));
    EXPECT_THAT(talk("{\"command\":\"add\",\"uri\":[1]}\n"), HasSubstr("must be a string"));
    EXPECT_THAT(talk("{\"command\":\"remove\",\"nsid\":-1}\n"), HasSubstr("must be a number"));
    EXPECT_THAT(talk("{\"command\":\"load\",\"config\":{\"subsystems\":7}}\n"), HasSubstr("must be a list"));
    EXPECT_THAT(talk(std::string(100000, '[') + "\n"), HasSubstr("not a JSON object"));
    EXPECT_THAT(talk("{\"command\":\"add\",\"uri\":\"x://?a=" + std::string(60000, '[') + "\"}\n"),
                HasSubstr("\"ok\":false"));
    EXPECT_EQ(talk("no end of line"), "");
    EXPECT_THAT(talk("{\"command\":\"list\"}\n{\"command\":\"hosts\"}\n"), StartsWith("{\"ok\":true"));
    EXPECT_EQ(ctl({"list"}).code, 0);
}

TEST_F(ServeTest, AStreamOfFailedIoIsNotCountedAsDone) {
    serve({"ram://?size=8M", "ram://?size=8M"});
    Running bench({"bench", uri(2), "--time", "60", "--json"});
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ASSERT_EQ(ctl({"remove", "2"}).code, 0);
    bench.wait_for_line("}");  // the report's end: it stops by itself
    const auto report = json::parse(bench.output());
    EXPECT_GT(report["jobs"][0]["read"]["errors"].get<unsigned>(), 0u);
    EXPECT_NE(report["jobs"][0]["error"], 0);
    EXPECT_EQ(bench.end(0), 1);
    EXPECT_EQ(run_program({"read", uri(1), "--length", "4k"}).code, 0) << "the other namespace is untouched";
}

}  // namespace
}  // namespace mqblk::test
