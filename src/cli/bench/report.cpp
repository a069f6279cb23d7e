// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/report.h"

#include "cli/numbers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

namespace mqblk::cli {

namespace {

using nlohmann::ordered_json;

constexpr std::array percents{1.0,  5.0,  10.0, 20.0, 30.0, 40.0, 50.0,  60.0, 70.0,
                              80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99};

std::uint64_t milliseconds_of(Duration time) {
    return static_cast<std::uint64_t>(std::chrono::round<std::chrono::milliseconds>(time).count());
}

double per_second(std::uint64_t amount, Duration time) {
    const double seconds = std::chrono::duration<double>(time).count();
    return seconds > 0 ? static_cast<double>(amount) / seconds : 0;
}

struct LatencyUnit {
    std::string_view name;
    std::uint64_t ns;
};

/// The unit in which the mean has at least one digit before the point, and small values still differ.
LatencyUnit latency_unit(const Histogram& histogram) {
    if (histogram.mean() >= 10e6) return {"msec", 1000000};
    if (histogram.mean() >= 10e3) return {"usec", 1000};
    return {"nsec", 1};
}

ordered_json latency_json(const Histogram& histogram, bool percentiles) {
    ordered_json json{{"min", histogram.min()},
                      {"max", histogram.max()},
                      {"mean", histogram.mean()},
                      {"stddev", histogram.stdev()},
                      {"N", histogram.count()}};
    if (percentiles && histogram.count() != 0) {
        auto& table = json["percentile"] = ordered_json::object();
        for (const double percent : percents) {
            table[fmt::format("{:.6f}", percent)] = histogram.percentile(percent);
        }
    }
    return json;
}

ordered_json direction_json(const DirectionResult& result, Duration runtime) {
    const auto bandwidth = static_cast<std::uint64_t>(per_second(result.bytes, runtime));
    const bool active = result.ios != 0;
    return {{"io_bytes", result.bytes},
            {"io_kbytes", result.bytes / 1024},
            {"bw_bytes", bandwidth},
            {"bw", bandwidth / 1024},
            {"iops", per_second(result.ios, runtime)},
            {"runtime", active ? milliseconds_of(runtime) : 0},
            {"total_ios", result.ios},
            {"short_ios", 0},
            {"drop_ios", 0},
            {"errors", result.errors},
            {"slat_ns", latency_json(Histogram(), false)},
            {"clat_ns", latency_json(result.latency, true)},
            {"lat_ns", latency_json(result.latency, false)}};
}

}  // namespace

std::string iops_line(std::string_view name, const DirectionResult& result, Duration runtime) {
    const auto bandwidth = static_cast<std::uint64_t>(per_second(result.bytes, runtime));
    return fmt::format("{:>7}: IOPS={}, BW={}/s ({}/s)({}/{}msec)", name, count(per_second(result.ios, runtime)),
                       binary_bytes(bandwidth), decimal_bytes(bandwidth), binary_bytes(result.bytes),
                       milliseconds_of(runtime));
}

std::string latency_line(const Histogram& histogram) {
    const auto unit = latency_unit(histogram);
    const auto scale = static_cast<double>(unit.ns);
    return fmt::format("     lat ({}): min={}, max={}, avg={:.2f}, stdev={:.2f}", unit.name, histogram.min() / unit.ns,
                       histogram.max() / unit.ns, histogram.mean() / scale, histogram.stdev() / scale);
}

std::string percentile_lines(const Histogram& histogram) {
    const auto unit = latency_unit(histogram);
    const auto width = std::to_string(histogram.max() / unit.ns).size();
    std::string text = fmt::format("    lat percentiles ({}):", unit.name);
    for (std::size_t i = 0; i < percents.size(); ++i) {
        text += i % 4 == 0 ? "\n     | " : " ";
        text += fmt::format("{:5.2f}th=[{:>{}}]{}", percents[i], histogram.percentile(percents[i]) / unit.ns, width,
                            i + 1 == percents.size() ? "\n" : ",");
    }
    return text;
}

std::string bench_text(const Workload& work, const BenchResult& result, std::string_view name) {
    const auto& total = result.total;
    std::string text = fmt::format("{}: rw={}, bs={}, depth={}, jobs={}: err={}{}\n", name, work.rw, work.block_bytes,
                                   work.depth, work.jobs, total.first_error, result.ending());
    for (std::size_t i = 0; i < direction_count; ++i) {
        const auto& direction = total.directions[i];
        if (direction.ios == 0) continue;
        text += iops_line(to_string(static_cast<Direction>(i)), direction, total.runtime) + "\n";
        text += latency_line(direction.latency) + "\n" + percentile_lines(direction.latency);
    }
    text +=
        fmt::format("  cpu          : usr={:.2f}%, sys={:.2f}%, ctx={}, majf={}, minf={}\n", result.user_cpu_percent,
                    result.system_cpu_percent, result.context_switches, result.major_faults, result.minor_faults);
    if (work.verify) {
        text += fmt::format("  verify       : {} blocks checked, {} I/Os with data that differ\n",
                            total.blocks_verified, total.mismatches);
    }
    if (total.errors() != 0) text += fmt::format("  errors       : {} I/Os failed\n", total.errors());
    return text;
}

ordered_json job_json(const Workload& work, const BenchResult& result, const JobResult& job, std::string_view name) {
    ordered_json options{{"rw", work.rw},
                         {"bs", std::to_string(work.block_bytes)},
                         {"iodepth", std::to_string(work.depth)},
                         {"numjobs", std::to_string(work.jobs)}};
    if (work.time.count() > 0) options["runtime"] = fmt::format("{}ms", milliseconds_of(work.time));
    if (work.size_bytes > 0) options["size"] = std::to_string(work.size_bytes);
    ordered_json json{{"jobname", name},
                      {"groupid", 0},
                      {"error", job.first_error},
                      {"eta", 0},
                      {"elapsed", (milliseconds_of(job.runtime) + 999) / 1000},
                      {"job options", options}};
    for (std::size_t i = 0; i < direction_count; ++i) {
        json[std::string(to_string(static_cast<Direction>(i)))] = direction_json(job.directions[i], job.runtime);
    }
    json["job_runtime"] = milliseconds_of(job.runtime);
    json["usr_cpu"] = result.user_cpu_percent;
    json["sys_cpu"] = result.system_cpu_percent;
    json["ctx"] = result.context_switches;
    json["majf"] = result.major_faults;
    json["minf"] = result.minor_faults;
    json["total_err"] = job.errors();
    json["first_error"] = job.first_error;
    json["interrupted"] = result.signal != 0;
    if (job.unanswered != 0) json["unanswered"] = job.unanswered;
    if (work.verify) json["verify"] = {{"blocks", job.blocks_verified}, {"mismatches", job.mismatches}};
    return json;
}

ordered_json report_json(ordered_json jobs) {
    const auto now = std::chrono::system_clock::now();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[64];
    std::strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &parts);
    return {{"fio version", "mqblk-" MQBLK_VERSION},
            {"timestamp", ms / 1000},
            {"timestamp_ms", ms},
            {"time", text},
            {"jobs", std::move(jobs)}};
}

std::string BenchResult::ending() const {
    if (signal == 0) return {};
    std::string text = ", interrupted";
    if (total.unanswered != 0) text += fmt::format("; {} I/Os were given up unanswered", total.unanswered);
    const auto nothing = [](const DirectionResult& direction) { return direction.ios == 0; };
    if (std::all_of(total.directions.begin(), total.directions.end(), nothing)) text += "; nothing was measured";
    return text;
}

std::string failure_sentence(const JobResult& result) {
    if (result.mismatches != 0) {
        return fmt::format("{} of the I/Os read data that differ; the first: {}", result.mismatches,
                           result.first_mismatch);
    }
    if (result.errors() != 0) {
        return fmt::format("{} I/O{} failed; the first: {}", result.errors(), result.errors() == 1 ? "" : "s",
                           result.first_error_text);
    }
    return {};
}

}  // namespace mqblk::cli
