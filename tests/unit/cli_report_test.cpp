// SPDX-License-Identifier: Apache-2.0
//
// Reports in fio's words: numbers, lines, and the shape of the JSON that scripts made for fio read.
#include "cli/bench/report.h"
#include "cli/names.h"
#include "cli/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mqblk::cli {
namespace {

TEST(Numbers, AsFioWritesThem) {
    EXPECT_EQ(count(0), "0");
    EXPECT_EQ(count(186.2), "186");
    EXPECT_EQ(count(9876), "9876");
    EXPECT_EQ(count(12345), "12.3k");
    EXPECT_EQ(count(101234), "101k");
    EXPECT_EQ(count(1234567), "1235k");
    EXPECT_EQ(count(15.25e6), "15.2M");
    EXPECT_EQ(binary_bytes(512), "512B");
    EXPECT_EQ(binary_bytes(64u << 20), "64.0MiB");
    EXPECT_EQ(binary_bytes(51799654), "49.4MiB");
    EXPECT_EQ(decimal_bytes(51799654), "51.8MB");
    EXPECT_EQ(binary_bytes(3102736384ull), "2959MiB");
    EXPECT_EQ(binary_bytes(10107u << 10), "9.87MiB");
    EXPECT_EQ(decimal_bytes(9876000), "9876kB");
}

DirectionResult sample_direction() {
    DirectionResult direction;
    direction.ios = 6060000;
    direction.bytes = direction.ios * 512;
    for (const std::uint64_t us : {18, 91, 91, 91, 164, 297}) direction.latency.add(us * 1000);
    return direction;
}

TEST(Report, IopsLineIsFios) {
    EXPECT_EQ(iops_line("read", sample_direction(), std::chrono::milliseconds(60002)),
              "   read: IOPS=101k, BW=49.3MiB/s (51.7MB/s)(2959MiB/60002msec)");
    EXPECT_EQ(iops_line("write", DirectionResult(), Duration::zero()), "  write: IOPS=0, BW=0B/s (0B/s)(0B/0msec)");
}

TEST(Report, LatencyLineIsFios) {
    EXPECT_EQ(latency_line(sample_direction().latency), "     lat (usec): min=18, max=297, avg=125.33, stdev=87.58");
    Histogram fast;
    fast.add(120);
    EXPECT_THAT(latency_line(fast), testing::StartsWith("     lat (nsec): min=120, max=120, avg=120.00"));
    EXPECT_THAT(percentile_lines(fast), testing::HasSubstr("99.99th=[120]\n"));
}

TEST(Report, JsonHasFiosNames) {
    Workload work;
    work.time = std::chrono::seconds(1);
    BenchResult result;
    result.total.directions[0] = sample_direction();
    result.total.runtime = std::chrono::seconds(1);
    auto jobs = nlohmann::ordered_json::array();
    jobs.push_back(job_json(work, result, result.total, "bench"));
    const auto json = report_json(std::move(jobs));
    EXPECT_TRUE(json.contains("fio version"));
    const auto& job = json["jobs"][0];
    EXPECT_EQ(job["jobname"], "bench");
    EXPECT_EQ(job["error"], 0);
    for (const char* direction : {"read", "write", "trim"}) {
        for (const char* name :
             {"io_bytes", "bw_bytes", "iops", "runtime", "total_ios", "slat_ns", "clat_ns", "lat_ns"}) {
            EXPECT_TRUE(job[direction].contains(name)) << direction << " " << name;
        }
    }
    const auto& read = job["read"];
    EXPECT_DOUBLE_EQ(read["iops"].get<double>(), 6060000);
    EXPECT_EQ(read["io_bytes"], 6060000ull * 512);
    EXPECT_EQ(read["runtime"], 1000);
    EXPECT_EQ(read["lat_ns"]["min"], 18000);
    EXPECT_EQ(read["lat_ns"]["max"], 297000);
    EXPECT_TRUE(read["lat_ns"]["mean"].is_number());
    EXPECT_TRUE(read["lat_ns"]["stddev"].is_number());
    EXPECT_NEAR(read["clat_ns"]["percentile"]["50.000000"].get<double>(), 91000, 800);
    EXPECT_EQ(job["write"]["total_ios"], 0);
}

TEST(Report, FailuresAreASentence) {
    JobResult result;
    EXPECT_EQ(failure_sentence(result), "");
    result.directions[1].errors = 1;
    result.first_error_text = "ram://: write of 4096 bytes at byte 0 failed: I/O error";
    EXPECT_EQ(failure_sentence(result),
              "1 I/O failed; the first: ram://: write of 4096 bytes at byte 0 failed: I/O error");
}

TEST(Names, SubsystemOfADisk) {
    EXPECT_EQ(split_name("ram://?size=1M", "nqn.d").nqn, "nqn.d");
    EXPECT_EQ(split_name("ram://?size=1M", "nqn.d").uri, "ram://?size=1M");
    EXPECT_EQ(split_name("data=ram://?size=1M", "nqn.d").nqn, "nqn.2026-01.io.mqblk:data");
    EXPECT_EQ(split_name("data=ram://?size=1M", "nqn.d").uri, "ram://?size=1M");
    EXPECT_EQ(split_name("nqn.2000-01.a:b=null://", "nqn.d").nqn, "nqn.2000-01.a:b");
    EXPECT_EQ(namespace_uri({"::1", 4420}, "nqn.2000-01.a:b", 7), "nvme+tcp://[::1]:4420/nqn.2000-01.a:b/7");
}

}  // namespace
}  // namespace mqblk::cli
