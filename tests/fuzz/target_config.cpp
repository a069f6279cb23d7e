// SPDX-License-Identifier: Apache-2.0
//
// Any text is either refused with one sentence or a configuration that is written and read back as itself.
#include "registry/target_config.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using mqblk::registry::TargetConfig;
    const auto config = TargetConfig::parse(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!config) {
        if (config.error().message().empty()) std::abort();
        return 0;
    }
    const auto again = TargetConfig::parse(config->to_json());
    if (!again || *again != *config) std::abort();
    return 0;
}
