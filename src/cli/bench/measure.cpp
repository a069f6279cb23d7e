// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/measure.h"

#include <fmt/format.h>

#include <cstdio>

namespace mqblk::cli {

Result<std::vector<BenchDevice>> open_bench_devices(Context& context, const std::vector<std::string>& uris) {
    std::vector<BenchDevice> devices;
    for (const auto& uri : uris) {
        auto device = context.open(uri);
        if (!device) return std::unexpected(device.error());
        devices.push_back({uri, std::move(*device)});
    }
    return devices;
}

void report_failure(const std::string& sentence) {
    if (sentence.empty()) return;
    std::fflush(stdout);
    fmt::print(stderr, "mqblk: {}\n", sentence);
}

}  // namespace mqblk::cli
