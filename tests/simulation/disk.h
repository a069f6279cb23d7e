// SPDX-License-Identifier: Apache-2.0
//
// SimulatedDisk: a disk in virtual time: requests take as long as the seed says and end in any order, writes sit in a
// volatile cache until a flush or FUA, discards may or may not zero, and now and then a request fails. Each block is
// written as a whole or not at all. Queues, requests and time-outs are the real block layer's.
#pragma once

#include "base/clock.h"
#include "base/random.h"

#include <mqblk/device.h>

#include <cstdint>
#include <memory>

namespace mqblk::simulation {

struct DiskOptions {
    std::uint64_t bytes = 1u << 20;
    unsigned block_bytes = 512;
    unsigned queues = 4, depth = 64;
    bool write_cache = true;
    bool fua = false;
    Duration least_latency = std::chrono::microseconds(10), most_latency = std::chrono::microseconds(200);
    unsigned slow_per_mille = 5;  ///< requests that take up to `slow_latency`
    Duration slow_latency = std::chrono::milliseconds(20);
    unsigned errors_per_mille = 0;  ///< requests that fail; writes among them may have been carried out in part
};

class SimulatedDisk {
  public:
    /// `random` outlives the disk.
    SimulatedDisk(Random& random, const DiskOptions&);
    ~SimulatedDisk();

    [[nodiscard]] const std::shared_ptr<Device>& device() const noexcept { return device_; }
    void let_go() { device_.reset(); }  ///< this handle's share of the device

    void resize(std::uint64_t bytes);  ///< to as much as it had at first, at most
    /// The power fails and comes back: of what is cached each block is lost or not. Requests end with errors.
    void power_cut();
    /// While set, requests stay where they are.
    void hang(bool);
    void set_errors(unsigned per_mille);
    /// While set, nothing reaches it: requests end as if the path to it were lost.
    void refuse(bool);
    /// What it holds there becomes something else, unnoticed.
    void damage(std::uint64_t offset, std::size_t bytes);

    [[nodiscard]] unsigned outstanding() const noexcept;  ///< requests that queues hold

    struct Media;

  private:
    std::shared_ptr<Media> media_;  // shared with the driver, which the block layer keeps
    std::shared_ptr<Device> device_;
};

}  // namespace mqblk::simulation
