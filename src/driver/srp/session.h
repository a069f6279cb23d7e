// SPDX-License-Identifier: Apache-2.0
//
// What all channels to one target share: where it is, what was asked for, its LUNs, and what was learned of it.
#pragma once

#include "driver/srp/options.h"
#include "fabric/rdma/queue_pair.h"

#include <mqblk/device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::driver::srp {

/// A logical unit. Constant once it was scanned.
struct Unit {
    unsigned lun = 0;
    std::uint64_t blocks = 0;
    std::uint32_t block_bytes = 512;
    std::uint32_t physical_bytes = 512;
    unsigned block_shift = 0;  ///< of blocks over sectors
    bool write_cache = true, fua = false, read_only = false, rotational = false;
    std::uint32_t max_transfer_blocks = 0;    ///< 0: not stated
    std::uint32_t max_unmap_blocks = 0;       ///< 0: no UNMAP
    std::uint32_t max_write_same_blocks = 0;  ///< 0: no WRITE SAME
    std::uint32_t unmap_granularity_blocks = 1;
    std::string vendor, product, revision, serial;
};

struct Session {
    static constexpr unsigned reserved_tags = 1;  ///< of a channel, for task management

    Options options;
    fabric::rdma::Network* network = nullptr;
    fabric::Address address;
    std::shared_ptr<void> holds;  ///< what the network needs, let go of last
    unsigned channels = 1;        ///< that the target allows
    std::vector<std::unique_ptr<Unit>> units;
    /// The target does not fetch tables that do not fit a command.
    std::atomic<bool> no_external{false};
    /// It has fetched one: what goes wrong later has another reason.
    std::atomic<bool> external_works{false};

    struct {
        std::atomic<std::uint64_t> commands{0}, external{0}, pieces{0}, aborts{0}, reconnects{0}, requeued{0},
            fallbacks{0};
    } counters;

    [[nodiscard]] unsigned depth() const noexcept { return options.queue_size + reserved_tags; }
};

}  // namespace mqblk::driver::srp
