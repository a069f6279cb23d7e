// SPDX-License-Identifier: Apache-2.0
#include "driver/srp/options.h"

#include <fmt/format.h>

namespace mqblk::driver::srp {

Result<> check_options(const Options& options) {
    const auto check = [](const char* name, std::uint64_t value, std::uint64_t low, std::uint64_t high) -> Result<> {
        if (value >= low && value <= high) return {};
        return fail(Errc::invalid_argument, fmt::format("srp: {}={}: must be from {} to {}", name, value, low, high));
    };
    for (const auto& checked :
         {check("cmd_sg_entries", options.cmd_sg_entries, 1, wire::srp::max_descriptors_in_unit),
          check("indirect_sg_entries", options.indirect_sg_entries, 1, Options::most_indirect_sg_entries),
          check("max_sect", options.max_sect, 8, 1u << 16), check("queue_size", options.queue_size, 1, 4096),
          check("ch_count", options.ch_count, 0, 256), check("tl_retry_count", options.tl_retry_count, 2, 7),
          check("max_imm_data", options.max_imm_data, 0, 65536)})
        if (!checked) return checked;
    if (options.reconnect_delay <= Duration::zero() || options.dev_loss_tmo < options.fast_io_fail_tmo)
        return fail(Errc::invalid_argument,
                    "srp: reconnect_delay must be longer than 0, and dev_loss_tmo not shorter than fast_io_fail_tmo");
    return {};
}

}  // namespace mqblk::driver::srp
