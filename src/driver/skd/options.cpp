// SPDX-License-Identifier: Apache-2.0
#include "driver/skd/options.h"

#include <fmt/format.h>

namespace mqblk::driver::skd {

const char* to_string(IsrType type) noexcept {
    switch (type) {
        case IsrType::legacy:
            return "legacy";
        case IsrType::msi:
            return "MSI";
        case IsrType::msix:
            return "MSI-X";
    }
    return "unknown";
}

Result<> check_options(const Options& options) {
    const auto check = [](const char* name, unsigned value, unsigned most) -> Result<> {
        if (value >= 1 && value <= most) return {};
        return fail(Errc::invalid_argument, fmt::format("skd: {}={}: must be from 1 to {}", name, value, most));
    };
    if (auto ok = check("max_queue_depth", options.max_queue_depth, Options::most_queue_depth); !ok) return ok;
    if (auto ok = check("max_req_per_msg", options.max_req_per_msg, wire::skd::max_requests_per_message); !ok)
        return ok;
    if (auto ok = check("sgs_per_request", options.sgs_per_request, Options::most_sgs_per_request); !ok) return ok;
    if (options.timeout <= Duration::zero())
        return fail(Errc::invalid_argument, "skd: timeout: must be longer than 0, such as 8s");
    return {};
}

}  // namespace mqblk::driver::skd
