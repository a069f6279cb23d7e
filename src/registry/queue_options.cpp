// SPDX-License-Identifier: Apache-2.0
#include "registry/queue_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace mqblk::registry {

namespace {

constexpr std::string_view scheduler_name = "scheduler";

constexpr std::array queue_table{
    OptionInfo{scheduler_name, "none|mq-deadline", "none", "in which order requests go to the driver"},
    OptionInfo{"nr_requests", "N", "depth", "requests that may wait for or be with the driver, 4 to depth"},
    OptionInfo{"max_sectors_kb", "N", "what the device takes",
               "largest request in KiB, 4 to what the device takes; larger ones are split"},
    OptionInfo{"nomerges", "0|1|2", "0", "1: merge only with the last request; 2: never"},
    OptionInfo{"io_timeout", "N", "timeout= of NVMe and skd; 30000", "milliseconds before a request is late"},
    OptionInfo{"iostats", "0|1", "1", "keep statistics"},
    OptionInfo{"write_cache", "write back|write through", "as the device has it", "write through: no flushes are sent"},
    OptionInfo{"read_expire", "N", "500", "mq-deadline: milliseconds after which a read goes first"},
    OptionInfo{"write_expire", "N", "5000", "mq-deadline: milliseconds after which a write goes first"},
    OptionInfo{"writes_starved", "N", "2", "mq-deadline: batches of reads before one of writes"},
    OptionInfo{"fifo_batch", "N", "16", "mq-deadline: requests in a batch"},
    OptionInfo{"front_merges", "0|1", "1", "mq-deadline: merge also in front of a request"},
    OptionInfo{"prio_aging_expire", "N", "10000", "mq-deadline: milliseconds before a lower priority has its turn"},
};

bool is_queue_option(const Uri::Option& option) {
    return std::ranges::find(queue_table, option.name, &OptionInfo::name) != queue_table.end();
}

}  // namespace

std::span<const OptionInfo> queue_options() noexcept {
    return queue_table;
}

Result<std::vector<Uri::Option>> take_queue_options(Uri& uri) {
    std::vector<Uri::Option> taken;
    for (auto& option : uri.options) {
        if (!is_queue_option(option)) continue;
        if (std::ranges::find(taken, option.name, &Uri::Option::name) != taken.end()) {
            return fail(Errc::invalid_argument,
                        fmt::format("{}: option \"{}\" is given more than once", uri.scheme, option.name));
        }
        taken.push_back(option);
    }
    std::erase_if(uri.options, is_queue_option);
    const auto scheduler = std::ranges::find(taken, scheduler_name, &Uri::Option::name);
    if (scheduler != taken.end()) std::rotate(taken.begin(), scheduler, scheduler + 1);
    return taken;
}

Result<> set_queue_options(Device& device, std::string_view scheme, const std::vector<Uri::Option>& options) {
    for (const auto& [name, value, has_value, nested] : options) {
        const auto set = device.set_attribute(name, value);
        if (set) continue;
        // An option that only the other scheduler has: in a URI the remedy is another option.
        if (set.error().code() == Errc::not_found)
            return fail(Errc::invalid_argument,
                        fmt::format("{}: {}={}: is mq-deadline's; add scheduler=mq-deadline", scheme, name, value));
        return std::unexpected(set.error().in(scheme));
    }
    return {};
}

}  // namespace mqblk::registry
