// SPDX-License-Identifier: Apache-2.0
//
// The program over devices of its own: what each command does, and what it says to whoever gets it wrong.
#include "base/random.h"
#include "program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace mqblk::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

std::string random_text(std::size_t bytes, std::uint64_t seed) {
    SeededRandom random(seed);
    std::string text(bytes, '\0');
    for (auto& c : text) c = static_cast<char>(random.next());
    return text;
}

/// One sentence on stderr, nothing on stdout, the exit code.
void expect_refusal(const std::vector<std::string>& arguments, int code, const std::string& part) {
    const auto ended = run_program(arguments);
    EXPECT_EQ(ended.code, code) << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, HasSubstr(part));
    EXPECT_THAT(ended.err, StartsWith("mqblk: "));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
}

TEST(Cli, HelpVersionAndCompletion) {
    EXPECT_EQ(run_program({"--version"}).code, 0);
    EXPECT_THAT(run_program({"--version"}).out, StartsWith("mqblk "));
    EXPECT_TRUE(json::parse(run_program({"version", "--json"}).out).contains("mqblk version"));
    const auto help = run_program({"--help"});
    EXPECT_EQ(help.code, 0);
    for (const char* command : {"serve", "ctl", "discover", "list", "info", "read", "write", "copy", "verify", "flush",
                                "discard", "zero", "bench", "latency", "iops", "help", "completion"}) {
        EXPECT_THAT(help.out, HasSubstr(command));
        const auto one = run_program({command, "--help"});
        EXPECT_EQ(one.code, 0) << command;
        EXPECT_THAT(one.out, HasSubstr("mqblk " + std::string(command))) << "an example";
    }
    for (const char* shell : {"bash", "zsh", "fish"}) {
        EXPECT_THAT(run_program({"completion", shell}).out, HasSubstr("rwmixread"));
    }
    EXPECT_THAT(run_program({"help", "uris"}).out, HasSubstr("nvme+tcp://HOST[:PORT]/NQN/NSID"));
    EXPECT_EQ(json::parse(run_program({"help", "uris", "--json"}).out)["schemes"][0]["scheme"], "null");
}

TEST(Cli, RefusesWrongCommandLines) {
    expect_refusal({}, 2, "A subcommand is required");
    expect_refusal({"bnech"}, 2, "did you mean \"bench\"?");
    expect_refusal({"info"}, 2, "URI is required");
    expect_refusal({"bench", "null://", "--depht", "3"}, 2, "--depht");
    expect_refusal({"bench", "null://", "--rw", "sideways"}, 2, "--rw sideways: expected randread");
    expect_refusal({"bench", "null://", "--bs", "4q"}, 2, "--bs=4q: must be a number of bytes");
    expect_refusal({"bench", "null://", "--bs", "100"}, 2, "--bs=100: must be from 512 to 64M");
    expect_refusal({"bench", "null://", "--bs", "1000"}, 2, "--bs 1000 is not a multiple of the device's block of 512");
    expect_refusal({"bench", "null://", "--depth", "0"}, 2, "--depth");
    expect_refusal({"bench", "null://", "--cores", "100000"}, 2, "there is no CPU 100000");
    expect_refusal({"bench", "null://?size=1M", "--offset", "2M"}, 2, "use a smaller --offset");
    expect_refusal({"bench", "ram://?size=1M&ro=1", "--rw", "randwrite"}, 2, "write-protected");
    expect_refusal({"bench", "null://", "--rw", "trim", "--verify"}, 2, "--verify cannot check");
    expect_refusal({"info", "ram:/x"}, 2,
                   "expected \"://\" after the scheme (a plain file is file:///PATH) at character 4");
    expect_refusal({"info", "ram://?size=1M&colour=red"}, 2, "ram: unknown option \"colour\"; allowed: size, block");
    expect_refusal({"info", "ram://?size=1000"}, 2, "must be a multiple of the block of 512 bytes");
    expect_refusal({"info", "rma://"}, 2, "did you mean \"ram\"?");
    expect_refusal({"info", "file:///nonexistent/disk.img"}, 1, "/nonexistent/disk.img");
    expect_refusal({"read", "ram://?size=1M", "--offset", "100"}, 2,
                   "offset 100 is not a multiple of the device's block of 512 bytes; use 512");
    expect_refusal({"read", "ram://?size=1M", "--length", "700"}, 2, "use 512 or 1024");
    expect_refusal({"read", "ram://?size=1M", "--offset", "1M"}, 2, "beyond the end of the device at 1048576 bytes");
    expect_refusal({"read", "ram://?size=1M", "--offset", "512k", "--length", "1M"}, 2, "use at most 524288");
    expect_refusal({"discard", "ram://?size=1M", "--offset", "7"}, 2, "offset 7 is not a multiple");
    expect_refusal({"zero", "ram://?size=1M", "--length", "2M"}, 2, "pass the end of the device");
    expect_refusal({"serve"}, 2, "nothing to serve");
    expect_refusal({"serve", "ram://?size=1M", "--listen", "nowhere:x"}, 2, "--listen");
    expect_refusal({"ctl", "--control", "/nonexistent/socket", "list"}, 1, "/nonexistent/socket");
    expect_refusal({"ctl", "list"}, 2, "ctl needs --control SOCKET");
    expect_refusal({"bench", "null://?size=1M", "--range", "2M", "--offset", "4k"}, 2, "use --range 1044480");
    expect_refusal({"bench", "null://", "--seed", "x"}, 2, "--seed=x: must be a number");
    expect_refusal({"bench", "null://", "--time", "1y"}, 2, "--time=1y: must be a number of seconds, or one with ns,");
    expect_refusal({"ctl", "--control", "x", "remove", "x"}, 2, "NSID: Value x not in range 1 to");
    expect_refusal({"info", "/var/tmp/disk.img"}, 2, "a plain file is file:///PATH");
    expect_refusal({"info", "disk.img"}, 2, "a plain file is file:///PATH");
    expect_refusal({"info", "null://?queues=0"}, 2, "queues=0: must be a number from 1 to 1024");
    expect_refusal({"info", "nvme+tcp://127.0.0.1:1/nqn.2000-01.a:b/1?hostnqn=friend"}, 2,
                   "does not begin with 'nqn.'");
    expect_refusal({"copy", "-", "-"}, 2, "names no device");
    const std::string protected_disk = "ram://?size=1M&ro=1";
    expect_refusal({"write", protected_disk, "-i", "/dev/zero", "--length", "4k"}, 2, "write-protected; open or serve");
    expect_refusal({"copy", "null://?size=1M", protected_disk}, 2, "write-protected; open or serve");
    expect_refusal({"zero", protected_disk}, 2, "write-protected; open or serve");
    expect_refusal({"discard", protected_disk}, 2, "write-protected; open or serve");
}

TEST(Cli, RefusedWritesWriteNothing) {
    const TemporaryDirectory dir;
    const auto disk = dir.file("disk.img");
    const auto before = random_text(1 << 20, 1);
    write_file(disk, before);
    write_file(dir.file("odd"), random_text(5000, 2));
    write_file(dir.file("large"), random_text(2 << 20, 3));
    const auto uri = "file://" + disk;
    expect_refusal({"write", uri, "-i", dir.file("odd")}, 2, "add --pad");
    expect_refusal({"write", uri, "-i", dir.file("large")}, 2, "pass the end of the device at 1048576 bytes");
    expect_refusal({"write", uri, "-i", dir.file("missing")}, 1, "there is no such file");
    expect_refusal({"copy", disk, disk}, 2, "are the same");
    expect_refusal({"copy", disk, uri}, 2, "are the same");
    expect_refusal({"copy", uri, disk}, 2, "are the same");
    expect_refusal({"write", uri, "-i", disk}, 2, "are the same");
    expect_refusal({"write", uri, "--offset", "3", "-i", dir.file("large")}, 2, "offset 3 is not a multiple");
    expect_refusal({"copy", dir.file("odd"), uri}, 2, "add --pad");
    expect_refusal({"copy", dir.file("large"), uri}, 2, "use --length 1048576");
    const auto piped = run_program({"write", uri}, random_text(5000, 4));
    EXPECT_EQ(piped.code, 2);
    EXPECT_THAT(piped.err, HasSubstr("5000 bytes from standard input are not a multiple"));
    EXPECT_EQ(read_file(disk), before);
}

TEST(Cli, NothingIsLeftOfWhatWasRefused) {
    const TemporaryDirectory dir;
    write_file(dir.file("odd"), random_text(5000, 2));
    const auto fresh = dir.file("fresh"), uri = "file://" + fresh + "?size=1M";
    const std::vector<std::vector<std::string>> refused{
        {"serve", uri, "ram://", "--listen", "127.0.0.1:0"},
        {"serve", uri, "--listen", "nowhere:x"},
        {"serve", uri, "--listen", "127.0.0.1:0", "--control", dir.file("none") + "/socket"},
        {"write", uri, "-i", dir.file("odd")},
        {"write", uri, "-i", dir.file("missing")},
        {"copy", dir.file("odd"), uri},
        {"zero", uri, "--offset", "3"},
        {"discard", uri, "--length", "2M"},
        {"bench", uri, "--bs", "1000"},
        {"bench", uri, "ram://"},
        {"latency", uri, "1000"},
        {"iops", uri, "-b", "1000"},
        {"copy", "ram://?size=1M", fresh, "--length", "1000"},
        {"copy", "null://?size=1M", fresh, "--length", "2M"},
        {"read", "null://?size=1M", "--offset", "7", "-o", fresh},
        {"info", "nvme+loop:///7?ns=[" + uri + "]"},
    };
    for (const auto& arguments : refused) {
        SCOPED_TRACE(testing::PrintToString(arguments));
        EXPECT_NE(run_program(arguments).code, 0);
        EXPECT_FALSE(std::filesystem::exists(fresh));
    }
    EXPECT_EQ(run_program({"info", uri}).code, 0);
    EXPECT_TRUE(std::filesystem::exists(fresh));
    EXPECT_EQ(run_program({"write", uri, "-i", dir.file("odd")}).code, 2);
    EXPECT_TRUE(std::filesystem::exists(fresh)) << "it was there before";
}

TEST(Cli, NullIsReadAsZeroes) {
    for (const std::string options : {"", "&latency=1ms", "&threaded=1", "&zero=1", "&latency=1ms&threaded=1&zero=1"}) {
        SCOPED_TRACE(options);
        EXPECT_TRUE(run_program({"read", "null://?size=9M" + options}).out == std::string(9 << 20, '\0'));
    }
}

TEST(Cli, ATargetWithinATargetGoesQuietly) {
    const auto ended =
        run_program({"info", "nvme+loop:///1?ns=[nvme+loop:///1?ns=[nvme+loop:///1?ns=[ram://?size=1M]]]"});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.err, "");
}

TEST(Cli, WritesReadsAndVerifies) {
    const TemporaryDirectory dir;
    const auto disk = dir.file("disk.img");
    const auto uri = "file://" + disk;
    const auto data = random_text(3 << 20, 5);
    write_file(dir.file("data"), data);
    EXPECT_EQ(run_program({"write", uri + "?size=4M", "--offset", "512k", "-i", dir.file("data"), "--fua"}).code, 0);
    const auto all = read_file(disk);
    ASSERT_EQ(all.size(), 4u << 20);
    EXPECT_TRUE(all.substr(512 << 10, data.size()) == data);
    EXPECT_TRUE(all.substr(0, 512 << 10) == std::string(512 << 10, '\0'));

    const auto piped = run_program({"read", uri, "--offset", "512k", "--length", "3M"});
    EXPECT_EQ(piped.code, 0);
    EXPECT_TRUE(piped.out == data);
    const auto report =
        run_program({"read", uri, "--offset", "1M", "--length", "1M", "-o", dir.file("part"), "--json"});
    EXPECT_EQ(json::parse(report.out)["bytes"], 1 << 20);
    EXPECT_TRUE(read_file(dir.file("part")) == data.substr(512 << 10, 1 << 20));

    // Longer than all pieces in flight, and then some that must be padded.
    const auto stream = random_text((3 << 20) + 100, 6);
    EXPECT_EQ(run_program({"write", uri, "--pad"}, stream).code, 0);
    EXPECT_TRUE(read_file(disk).substr(0, stream.size() + 412) == stream + std::string(412, '\0'));

    EXPECT_EQ(run_program({"copy", uri, dir.file("copy"), "--verify"}).code, 0);
    EXPECT_TRUE(read_file(dir.file("copy")) == read_file(disk));
    EXPECT_EQ(run_program({"copy", dir.file("copy"), "file://" + dir.file("second") + "?size=8M", "--verify"}).code, 0);
    EXPECT_EQ(run_program({"verify", dir.file("copy"), "file://" + dir.file("second"), "--length", "4M"}).code, 0);
    const auto sizes = run_program({"verify", dir.file("copy"), "file://" + dir.file("second")});
    EXPECT_EQ(sizes.code, 3);
    EXPECT_THAT(sizes.err, HasSubstr("has 8388608"));

    auto changed = read_file(dir.file("copy"));
    changed[2000001] = static_cast<char>(changed[2000001] ^ 1);
    write_file(dir.file("copy"), changed);
    const auto differs = run_program({"verify", dir.file("copy"), uri});
    EXPECT_EQ(differs.code, 3);
    EXPECT_THAT(differs.err, HasSubstr("data differ: byte 2000001: "));

    EXPECT_EQ(run_program({"zero", uri, "--offset", "4k", "--length", "1M"}).code, 0);
    EXPECT_TRUE(read_file(disk).substr(4096, 1 << 20) == std::string(1 << 20, '\0'));
    EXPECT_TRUE(read_file(disk).substr(0, 4096) == stream.substr(0, 4096));
    EXPECT_EQ(run_program({"flush", uri}).out, "flushed\n");
    EXPECT_EQ(run_program({"discard", uri, "--offset", "4k", "--length", "8k"}).code, 0);
}

TEST(Cli, InfoReportsIdentityAndQueue) {
    const auto ended = run_program({"info", "ram://?size=64M&block=4096", "--json"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto report = json::parse(ended.out);
    EXPECT_EQ(report["identity"]["driver"], "ram");
    EXPECT_EQ(report["identity"]["bytes"], 67108864);
    EXPECT_EQ(report["queue"]["logical_block_size"], 4096);
    EXPECT_EQ(report["identity"]["read_only"], false);
    EXPECT_EQ(report["queue"]["rotational"], false);
    EXPECT_EQ(report["queue"]["scheduler"], "[none] mq-deadline");
    EXPECT_THAT(run_program({"info", "null://"}).out, HasSubstr("nr_requests"));
}

TEST(Cli, BenchTellsTheRateOfASlowDiskToo) {
    const auto done = run_program({"bench", "null://?latency=20ms", "--depth", "1", "--size", "400k", "--progress"});
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(done.err, testing::ContainsRegex("IOPS=[1-9]"));
}

TEST(Cli, BenchCountsWhatItDid) {
    for (const char* rw : {"randread", "randwrite", "read", "write", "randrw", "rw", "trim", "randtrim"}) {
        SCOPED_TRACE(rw);
        const auto ended =
            run_program({"bench", "ram://?size=4M", "--rw", rw, "--size", "2M", "--jobs", "2", "--json"});
        ASSERT_EQ(ended.code, 0) << ended.err;
        const auto job = json::parse(ended.out)["jobs"][0];
        const auto ios = [&](const char* direction) { return job[direction]["total_ios"].get<std::uint64_t>(); };
        EXPECT_EQ(ios("read") + ios("write") + ios("trim"), 1024u);
        EXPECT_EQ(ios("trim") != 0, std::string(rw).ends_with("trim"));
        EXPECT_EQ(job["error"], 0);
    }
}

TEST(Cli, BenchVerifiesWhatItWrote) {
    const TemporaryDirectory dir;
    const auto uri = "file://" + dir.file("disk.img");
    const auto written = run_program(
        {"bench", uri + "?size=8M", "--rw", "write", "--bs", "64k", "--size", "8M", "--depth", "4", "--verify"});
    EXPECT_EQ(written.code, 0) << written.err;
    EXPECT_THAT(written.out, HasSubstr("16384 blocks checked, 0 I/Os"));
    EXPECT_EQ(run_program({"bench", uri, "--rw", "randrw", "--size", "8M", "--jobs", "2", "--verify"}).code, 0);
    EXPECT_EQ(
        run_program({"bench", uri, "--rw", "read", "--bs", "64k", "--size", "8M", "--depth", "4", "--verify"}).code, 0);

    auto data = read_file(dir.file("disk.img"));
    data.replace(512 * 77, 512, data.substr(512 * 78, 512));
    write_file(dir.file("disk.img"), data);
    const auto damaged =
        run_program({"bench", uri, "--rw", "read", "--bs", "64k", "--size", "8M", "--depth", "4", "--verify"});
    EXPECT_EQ(damaged.code, 3);
    EXPECT_THAT(damaged.err, HasSubstr("LBA 77: misplaced: holds the block of LBA 78, expected 77"));
}

TEST(Cli, LatencyAndIopsPrintFiosLines) {
    const auto latency = run_program({"latency", "ram://?size=1M", "512", "--time", "50ms"});
    ASSERT_EQ(latency.code, 0) << latency.err;
    EXPECT_THAT(latency.out, HasSubstr("randread: bs=512, depth=1"));
    EXPECT_THAT(latency.out, HasSubstr("randwrite: bs=512, depth=1"));
    EXPECT_THAT(latency.out, HasSubstr("     lat ("));
    const auto reads = run_program({"latency", "ram://?size=1M&ro=1", "--time", "50ms", "--read-only", "--json"});
    ASSERT_EQ(reads.code, 0) << reads.err;
    EXPECT_EQ(json::parse(reads.out)["jobs"].size(), 1u);
    const auto iops = run_program({"iops", "null://", "-b", "512", "-j", "2", "-t", "50ms"});
    ASSERT_EQ(iops.code, 0) << iops.err;
    EXPECT_THAT(iops.out, MatchesRegex("   read: IOPS=[0-9.]+[kM]?, BW=[0-9.]+[KMG]?i?B/s \\([0-9.]+[kMG]?B/s\\)"
                                       "\\([0-9.]+[KMG]?i?B/[0-9]+msec\\)\n"));
    EXPECT_THAT(run_program({"iops", "null://", "-w", "-t", "50ms"}).out, StartsWith("  write: IOPS="));
}

TEST(Cli, TheFirstSignalEndsInOrder) {
    Running bench({"bench", "null://", "--time", "1000", "--ramp", "0"});
    ::usleep(300000);
    EXPECT_EQ(bench.end(SIGINT), 130);
}

}  // namespace
}  // namespace mqblk::test
