// SPDX-License-Identifier: Apache-2.0
//
// Scanning: which namespaces a controller has and what they are. NVMe 1.4, sections 5.15.2.3 (active list), 5.14.1.4
// (changed namespaces).
#pragma once

#include "base/task.h"
#include "driver/nvme/namespace_table.h"
#include "driver/nvme/session.h"

#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <set>

namespace mqblk::driver::nvme {

/// Namespaces beyond this many are not looked at: no list that a target sends takes all memory.
inline constexpr std::size_t most_namespaces = 65536;

/// The log of changed namespaces: reading it lets the next event come. Empty with `everything` set where the log
/// overflowed or cannot be read.
struct ChangedNamespaces {
    std::set<std::uint32_t> which;
    bool everything = false;
};
[[nodiscard]] Task<Result<ChangedNamespaces>> read_changed_namespaces(const Session&);

/// Brings `table` up to date: those in `changed`, all of them where it says so, new ones and gone ones. `stop` is asked
/// between commands. A namespace that cannot be used is left out and logged; errors are those of the connection.
[[nodiscard]] Task<Result<>> scan_namespaces(const Session&, const ControllerFacts&, const ChangedNamespaces& changed,
                                             NamespaceTable& table, std::function<bool()> stop);

}  // namespace mqblk::driver::nvme
