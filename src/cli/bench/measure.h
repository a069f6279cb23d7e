// SPDX-License-Identifier: Apache-2.0
//
// What bench, latency and iops share: devices opened by URI, and a run.
#pragma once

#include "cli/bench/run.h"

#include <mqblk/context.h>
#include <mqblk/error.h>

#include <string>
#include <vector>

namespace mqblk::cli {

[[nodiscard]] Result<std::vector<BenchDevice>> open_bench_devices(Context&, const std::vector<std::string>& uris);

}  // namespace mqblk::cli
