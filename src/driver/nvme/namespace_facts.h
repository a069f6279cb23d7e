// SPDX-License-Identifier: Apache-2.0
//
// What Identify Namespace and the descriptor list say, turned into a disk's size, limits and identity. Pure functions
// over pages that a target sent. NVMe 1.4, sections 5.15.2.1 and 5.15.2.4.
#pragma once

#include "driver/nvme/controller_facts.h"
#include "wire/nvme_identify.h"

#include <mqblk/error.h>
#include <mqblk/limits.h>

#include <cstdint>
#include <span>
#include <string>

namespace mqblk::driver::nvme {

struct NamespaceIds {
    std::string uuid, nguid, eui64;  ///< lower-case text; empty where the namespace has none
    bool operator==(const NamespaceIds&) const = default;
};

struct NamespaceFacts {
    std::uint32_t nsid = 0;
    std::uint64_t sectors = 0;     ///< of 512 bytes
    std::uint8_t block_shift = 9;  ///< log2 of the block's bytes
    bool read_only = false;
    QueueLimits limits;
    NamespaceIds ids;

    /// The same disk, perhaps of another size. Without ids on either side only the block size can tell.
    [[nodiscard]] bool same_disk(const NamespaceFacts& other) const {
        return block_shift == other.block_shift && ids == other.ids;
    }
};

/// An error says why the namespace cannot be used; not_found: it is not active. `descriptors` may be empty (a
/// controller older than 1.3).
[[nodiscard]] Result<NamespaceFacts> read_namespace(std::uint32_t nsid, const wire::nvme::IdentifyNamespace&,
                                                    std::span<const std::uint8_t> descriptors, const ControllerFacts&);

}  // namespace mqblk::driver::nvme
