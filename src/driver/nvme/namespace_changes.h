// SPDX-License-Identifier: Apache-2.0
//
// What became of a controller's namespaces between two scans, in words for a log line of bounded length.
#pragma once

#include "driver/nvme/namespace_facts.h"

#include <cstdint>
#include <map>
#include <string>

namespace mqblk::driver::nvme {

using NamespaceMap = std::map<std::uint32_t, NamespaceFacts>;

/// Such as "2 is gone, 4 has 20971520 bytes now, 7 is new"; empty where nothing changed that a user of a disk sees.
[[nodiscard]] std::string describe_changes(const NamespaceMap& before, const NamespaceMap& after);

}  // namespace mqblk::driver::nvme
