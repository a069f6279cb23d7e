// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/measure.h"
#include "cli/print.h"

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

}  // namespace mqblk::cli
