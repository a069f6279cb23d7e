// SPDX-License-Identifier: Apache-2.0
//
// A disk that takes its time: any device, as slow as a real one. Each request waits for the disk's arm and head (seek
// and bandwidth, which all queues share, one request after another) and then for its latency (which overlap); then it
// goes to the device below. Reactor timers; no thread sleeps.
#pragma once

#include "base/clock.h"
#include "block/disk_options.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk::driver::delay {

struct Options {
    static constexpr Duration longest = std::chrono::seconds(10);

    Duration latency{};                  ///< of each request
    Duration seek{};                     ///< more, where a read or write does not begin at the end of the one before
    std::uint64_t bytes_per_second = 0;  ///< of all reads and writes together; 0: no limit
    unsigned queues = 0, depth = 128;    ///< as block::DiskOptions has them
    std::string name = "delay";
};

/// The device below stays open as long as this one.
[[nodiscard]] Result<std::shared_ptr<Device>> open(std::shared_ptr<Device> below, const Options&);

}  // namespace mqblk::driver::delay
