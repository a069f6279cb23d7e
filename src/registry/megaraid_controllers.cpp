// SPDX-License-Identifier: Apache-2.0
#include "registry/megaraid_controllers.h"

#include <fmt/format.h>

namespace mqblk::registry {

Result<std::shared_ptr<MegaraidControllers::Adapter>> MegaraidControllers::get(const std::string& way,
                                                                               const std::string& options,
                                                                               const Open& open) {
    std::shared_ptr<Entry> entry;
    {
        const std::lock_guard lock(mutex_);
        auto& place = entries_[way];
        if (place == nullptr) place = std::make_shared<Entry>();
        entry = place;
    }
    const std::lock_guard lock(entry->mutex);
    if (auto adapter = entry->trace.again(); adapter != nullptr) {
        if (options == entry->options) return adapter;
        return fail(Errc::invalid_argument,
                    fmt::format("{}: its controller is open with other options ({}); give all URIs that name disks of "
                                "one controller the same",
                                way, entry->options));
    }
    auto adapter = open();
    if (!adapter) return adapter;
    entry->options = options;
    entry->trace = (*adapter)->trace();
    return adapter;
}

}  // namespace mqblk::registry
