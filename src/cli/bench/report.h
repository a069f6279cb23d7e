// SPDX-License-Identifier: Apache-2.0
//
// Results as fio reports them: the same lines, and JSON under the same names, so that scripts made for fio read both.
// Latency runs from submission to completion; it is given as both lat and clat, and slat is zero.
#pragma once

#include "cli/bench/run.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mqblk::cli {

/// "   read: IOPS=101k, BW=49.4MiB/s (51.8MB/s)(2959MiB/60002msec)"
[[nodiscard]] std::string iops_line(std::string_view name, const DirectionResult&, Duration runtime);
/// "     lat (usec): min=18, max=297, avg=91.02, stdev=13.16"
[[nodiscard]] std::string latency_line(const Histogram&);
/// "    lat percentiles (usec):" and the table below it, each line with its end.
[[nodiscard]] std::string percentile_lines(const Histogram&);

/// The report of `bench`: for each direction that did anything the lines above, then errors and verification.
[[nodiscard]] std::string bench_text(const Workload&, const BenchResult&, std::string_view name);

/// One element of `jobs`.
[[nodiscard]] nlohmann::ordered_json job_json(const Workload&, const BenchResult&, const JobResult&,
                                              std::string_view name);
/// The whole document around `jobs`.
[[nodiscard]] nlohmann::ordered_json report_json(nlohmann::ordered_json jobs);

/// One sentence on failed I/O or data that differ; empty if there were none.
[[nodiscard]] std::string failure_sentence(const JobResult&);

}  // namespace mqblk::cli
