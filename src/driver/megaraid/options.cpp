// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/options.h"

#include <fmt/format.h>

namespace mqblk::driver::megaraid {

Result<> check_options(const Options& options) {
    if (options.queues > Options::most_queues)
        return fail(Errc::invalid_argument, fmt::format("megaraid: queues={}: must be from 1 to {}, or 0 for one for "
                                                        "each CPU",
                                                        options.queues, Options::most_queues));
    if (options.timeout <= Duration::zero())
        return fail(Errc::invalid_argument, "megaraid: timeout: must be longer than 0, such as 30s");
    return {};
}

}  // namespace mqblk::driver::megaraid
