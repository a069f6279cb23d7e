// SPDX-License-Identifier: Apache-2.0
//
// NamespaceTable: the namespaces of a controller by identifier, and the disks that were opened on them. A scan tells it
// what there is; it tells the disks what became of them: gone, resized, write-protected, or, when the identifiers show
// another disk under the same number, replaced. Disks are made when they are asked for. Any thread.
#pragma once

#include "base/xarray.h"
#include "block/queue.h"
#include "driver/nvme/io_map.h"
#include "driver/nvme/namespace_changes.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::driver::nvme {

class NamespaceTable {
  public:
    NamespaceTable() = default;
    ~NamespaceTable();
    NamespaceTable(const NamespaceTable&) = delete;
    NamespaceTable& operator=(const NamespaceTable&) = delete;

    [[nodiscard]] std::vector<std::uint32_t> list() const;
    [[nodiscard]] bool contains(std::uint32_t nsid) const;
    [[nodiscard]] NamespaceMap facts() const;

    /// The open disk of a namespace, or a new one on `queues()`. Errors name what there is.
    [[nodiscard]] Result<std::shared_ptr<Device>> open(std::uint32_t nsid, const std::string& controller,
                                                       const ControllerFacts&,
                                                       const std::function<std::shared_ptr<block::QueueSet>()>& queues);

    /// What a scan found under this identifier.
    void update(const NamespaceFacts&);
    /// Everything but these identifiers is gone.
    void keep_only(const std::set<std::uint32_t>& active);
    void remove(std::uint32_t nsid);

  private:
    struct Entry {
        NamespaceFacts facts;
        std::weak_ptr<Device> disk;
        std::unique_ptr<NamespaceIo> io;
    };
    void retire(Entry&) noexcept;
    [[nodiscard]] std::shared_ptr<Device> take_out(std::uint32_t nsid);

    mutable std::mutex mutex_;                           ///< I/O never comes here: a disk knows its namespace
    XArray<Entry> entries_;                              ///< owns what it holds
    std::vector<std::unique_ptr<NamespaceIo>> retired_;  ///< of removed disks that may still have requests
};

}  // namespace mqblk::driver::nvme
