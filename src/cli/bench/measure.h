// SPDX-License-Identifier: Apache-2.0
//
// What bench, latency and iops share: devices opened by URI, a run, and the words for what went wrong.
#pragma once

#include "cli/bench/run.h"

#include <mqblk/context.h>
#include <mqblk/error.h>

#include <string>
#include <vector>

namespace mqblk::cli {

[[nodiscard]] Result<std::vector<BenchDevice>> open_bench_devices(Context&, const std::vector<std::string>& uris);

/// Writes `sentence` to stderr unless it is empty, as the program's one line.
void report_failure(const std::string& sentence);

}  // namespace mqblk::cli
