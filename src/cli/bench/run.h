// SPDX-License-Identifier: Apache-2.0
//
// Conducts the jobs of one measurement: all open, then all begin; ramp, measure, stop; by time, size, error or signal.
#pragma once

#include "cli/bench/workload.h"
#include "cli/command.h"

#include <mqblk/error.h>

#include <string>
#include <vector>

namespace mqblk::cli {

struct BenchResult {
    std::vector<JobResult> jobs;
    JobResult total;                                      ///< all jobs together
    double user_cpu_percent = 0, system_cpu_percent = 0;  ///< of the time of all jobs
    std::uint64_t context_switches = 0, major_faults = 0, minor_faults = 0;
    int signal = 0;  ///< what ended it early, or 0
    /// "", "interrupted", or that and how much was given up: for the end of a line.
    [[nodiscard]] std::string ending() const;

    /// What the command ends with: differences, then failures, then a signal, then ok.
    [[nodiscard]] int exit_code() const noexcept;
};

/// Blocks until all jobs have ended. The error is one of preparation; failed I/O is in the result.
[[nodiscard]] Result<BenchResult> run_bench(const Workload&, const std::vector<BenchDevice>&, const Invocation&);

/// After the report: says what failed and returns the exit code. Where I/O was given up by a second signal it ends the
/// process instead, as that I/O may still use what would be taken down.
[[nodiscard]] int end_bench(const BenchResult&);

}  // namespace mqblk::cli
