// SPDX-License-Identifier: Apache-2.0
//
// The null disk: accepts everything, keeps nothing. It measures what is above it. As with Linux's null_blk a read
// leaves the caller's memory as it is, unless zeroes are asked for; memory lent through DirectAccess is all zeroes.
#pragma once

#include "base/clock.h"
#include "block/disk_options.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk::driver::null {

enum class CompletionMode : std::uint8_t {
    inline_,  ///< at once, or by the reactor's time where there is a latency
    thread,   ///< on a thread of each queue's own, which passes the request back
};

struct Options {
    static constexpr Duration max_latency = std::chrono::seconds(10);

    std::uint64_t bytes = 0;
    block::DiskOptions disk;
    Duration latency{};  ///< from queueing to completion, 0 … max_latency
    CompletionMode completion = CompletionMode::inline_;
    bool zero = false;  ///< reads fill the memory with zeroes
    std::string name = "null";
};

[[nodiscard]] Result<std::shared_ptr<Device>> open(const Options&);

}  // namespace mqblk::driver::null
