// SPDX-License-Identifier: Apache-2.0
//
// Transfers from pipes and character devices, which tell their length only by ending, at lengths around a piece of the
// pipeline (512 KiB) and all of its pieces (8 MiB); and what interrupts a transfer.
#include "base/random.h"
#include "program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <string>

namespace mqblk::test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string random_bytes(std::size_t bytes) {
    SeededRandom random(7);
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
        const auto word = random.next();
        std::copy_n(reinterpret_cast<const char*>(&word), 8, text.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return text;
}

class StreamTest : public testing::Test {
  protected:
    TemporaryDirectory dir_;
    std::string disk_ = dir_.file("disk"), uri_ = "file://" + disk_ + "?size=32M";
};

TEST_F(StreamTest, ALengthIsTakenFromAPipe) {
    const auto data = random_bytes(20 << 20);
    for (const std::size_t bytes :
         {512u, 512u << 10, 1u << 20, (1u << 20) + 512, 8u << 20, (8u << 20) + 512, 20u << 20}) {
        SCOPED_TRACE(bytes);
        const auto length = std::to_string(bytes);
        const auto written = run_program({"write", uri_, "--length", length}, data);
        EXPECT_EQ(written.code, 0) << written.err;
        EXPECT_TRUE(read_file(disk_).substr(0, bytes) == data.substr(0, bytes));
        const auto copied = run_program({"copy", "-", dir_.file("copy"), "--length", length}, data);
        EXPECT_EQ(copied.code, 0) << copied.err;
        EXPECT_TRUE(read_file(dir_.file("copy")) == data.substr(0, bytes));
    }
    for (const char* length : {"512", "1M", "9M"}) {
        const auto zeroes = run_program({"write", uri_, "-i", "/dev/zero", "--length", length});
        EXPECT_EQ(zeroes.code, 0) << zeroes.err;
    }
    EXPECT_EQ(read_file(disk_).substr(0, 9 << 20), std::string(9 << 20, '\0'));
}

TEST_F(StreamTest, AnInputThatEndsEarlyIsAnError) {
    write_file(disk_, std::string(32 << 20, 'x'));
    for (const char* command : {"write", "copy"}) {
        const bool copy = std::string(command) == "copy";
        const auto run = [&](const char* length, const std::string& data) {
            return copy ? run_program({"copy", "-", uri_, "--length", length}, data)
                        : run_program({"write", uri_, "--length", length}, data);
        };
        const auto brief = run("16M", random_bytes(1 << 20));
        EXPECT_EQ(brief.code, 2);
        EXPECT_THAT(brief.err, HasSubstr("standard input ended after 1048576 of 16777216 bytes"));
        EXPECT_TRUE(read_file(disk_) == std::string(32 << 20, 'x')) << "nothing was written";
        EXPECT_EQ(run("1M", "").code, 2);
    }
    const auto later = run_program({"write", uri_, "--length", "20M"}, random_bytes(12 << 20));
    EXPECT_EQ(later.code, 1);
    EXPECT_THAT(later.err, HasSubstr("standard input ended after 12582912 of 20971520 bytes"));
}

TEST_F(StreamTest, ProgressOfAPipeNamesNoShare) {
    const auto piped = run_program({"write", uri_, "--progress"}, random_bytes(24 << 20));
    EXPECT_EQ(piped.code, 0);
    EXPECT_THAT(piped.err, HasSubstr("write: "));
    EXPECT_THAT(piped.err, Not(HasSubstr("%")));
    const auto known = run_program({"copy", uri_, dir_.file("copy"), "--progress"});
    EXPECT_THAT(known.err, HasSubstr("%, "));
    for (const char* command : {"zero", "discard"}) {
        EXPECT_THAT(run_program({command, uri_, "--progress"}).err, HasSubstr(std::string(command) + ": ")) << command;
    }
}

/// Every command that moves or changes data, on a disk that answers after ten seconds.
TEST_F(StreamTest, ASecondSignalGivesUpAndReports) {
    const std::string late = "null://?size=64M&latency=10s";
    const std::vector<std::vector<std::string>> commands{
        {"read", late, "-o", dir_.file("out")},
        {"write", late, "-i", "/dev/zero", "--length", "16M"},
        {"copy", late, "ram://?size=64M"},
        {"verify", late, "null://?size=64M"},
        {"zero", late},
        {"discard", late},
        {"bench", late, "--time", "100"},
        {"iops", late, "-t", "100"},
        {"latency", late, "-t", "100"},
    };
    for (auto arguments : commands) {
        SCOPED_TRACE(testing::PrintToString(arguments));
        Running program(arguments, Running::Errors::with_output);
        ::usleep(300000);
        program.tell(SIGINT);
        EXPECT_THAT(program.wait_for_line("mqblk: interrupted; waiting for "), HasSubstr("Ctrl-C again gives up"));
        program.tell(SIGINT);
        EXPECT_EQ(program.wait(), 130);
        EXPECT_THAT(program.output(), HasSubstr("interrupted; ")) << "a report";
        EXPECT_THAT(program.output(), HasSubstr("given up unanswered"));
    }
}

/// Interrupted when its time was over and it only waited.
TEST_F(StreamTest, ASignalAfterTheTimeIsOverIsHeard) {
    Running bench({"bench", "null://?size=64M&latency=10s", "--time", "100ms"}, Running::Errors::with_output);
    ::usleep(600000);
    bench.tell(SIGINT);
    EXPECT_THAT(bench.wait_for_line("mqblk: interrupted; waiting for "), HasSubstr("Ctrl-C again gives up"));
    EXPECT_EQ(bench.end(SIGINT), 130);
}

/// Whatever waits for a device to open, and even where a shell had it ignore Ctrl-C.
TEST_F(StreamTest, ASignalEndsTheOpeningOfADevice) {
    for (const char* const fault : {"busy", "no-answer,type=1"}) {
        struct sigaction ignore{}, before{};
        ignore.sa_handler = SIG_IGN;
        ::sigaction(SIGINT, &ignore, &before);
        Running info({"info", "skd+model://?disk=[ram://?size=8M]&fault=" + std::string(fault)});
        ::sigaction(SIGINT, &before, nullptr);
        ::usleep(600000);
        EXPECT_EQ(info.end(SIGINT), 130) << fault;
    }
}

TEST_F(StreamTest, InterruptedMeasurementsSaySo) {
    const auto interrupt = [](std::vector<std::string> arguments) {
        Running program(arguments);
        ::usleep(400000);
        program.tell(SIGINT);
        EXPECT_EQ(program.wait(), 130);
        return program.output();
    };
    EXPECT_THAT(interrupt({"bench", "null://", "--time", "100"}), HasSubstr(": err=0, interrupted\n"));
    EXPECT_THAT(interrupt({"iops", "null://", "-t", "100"}), HasSubstr("msec), interrupted\n"));
    EXPECT_THAT(interrupt({"latency", "null://", "-t", "100"}), HasSubstr(" ms, interrupted\n"));
    for (const char* command : {"bench", "iops", "latency"}) {
        const auto report = nlohmann::json::parse(interrupt({command, "null://", "--time", "100", "--json"}));
        EXPECT_EQ(report["jobs"][0]["interrupted"], true) << command;
        EXPECT_GT(report["jobs"][0]["read"]["total_ios"], 0);
    }
    const auto ramp = interrupt({"bench", "null://", "--time", "100", "--ramp", "100"});
    EXPECT_THAT(ramp, HasSubstr("interrupted; nothing was measured"));
    EXPECT_THAT(ramp, Not(HasSubstr("IOPS")));
    const auto whole = nlohmann::json::parse(run_program({"bench", "null://", "--size", "1M", "--json"}).out);
    EXPECT_EQ(whole["jobs"][0]["interrupted"], false);
}

}  // namespace
}  // namespace mqblk::test
