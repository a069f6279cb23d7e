// SPDX-License-Identifier: Apache-2.0
//
// Workload: random operations on one device from one reactor, each checked: it ends exactly once, within its bound,
// with a status that is allowed; what it read is what the model allows; and nobody touches its memory afterwards.
#pragma once

#include "driver/nvme/host.h"
#include "simulation/model.h"
#include "simulation/scene.h"

#include <mqblk/device.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mqblk::simulation {

struct WorkloadOptions {
    unsigned depth = 6;         ///< operations at once
    unsigned operations = 200;  ///< in all
    std::uint64_t most_bytes = 256u << 10;
    std::size_t piece_unit = 4;  ///< pieces of an operation's memory are multiples of this, in bytes
    unsigned most_pieces = 5;
    bool scattered = false;                                  ///< the pieces lie apart
    Duration longest_pause = std::chrono::milliseconds(20);  ///< between the end of one and the next
    unsigned read_weight = 45, write_weight = 40, zero_weight = 5, discard_weight = 5, flush_weight = 5;
    std::set<Status> allowed;  ///< besides ok
    Duration bound{};          ///< from submission to completion
};

/// The longest that an operation of this host may take: each of its retries can need two time-outs, and each recovery
/// the whole of the loss time.
[[nodiscard]] Duration longest_operation(const driver::nvme::HostOptions&);

class Workload {
  public:
    Workload(Scene&, std::string name, std::shared_ptr<Device>, Reactor&, Model&, WorkloadOptions);
    ~Workload();  ///< ends what is outstanding
    Workload(const Workload&) = delete;
    Workload& operator=(const Workload&) = delete;

    void start();
    void stop() noexcept { to_begin_ = 0; }  ///< begins no further operation
    [[nodiscard]] bool finished() const noexcept { return to_begin_ == 0 && outstanding_ == 0; }
    [[nodiscard]] unsigned outstanding() const noexcept { return outstanding_; }
    [[nodiscard]] unsigned succeeded() const noexcept { return succeeded_; }
    [[nodiscard]] unsigned failed() const noexcept { return failed_; }
    /// What has not ended, since when.
    [[nodiscard]] std::string pending() const;

  private:
    struct Slot;
    void begin(Slot&);
    void choose(Slot&);
    [[nodiscard]] bool lock_range(Slot&);
    void lay_out(Slot&);
    void scatter(Slot&);
    void ended(Slot&) noexcept;
    void succeed(Slot&);
    void check_memory(Slot&);
    void schedule(Slot&);

    Scene& scene_;
    const std::string name_;
    std::shared_ptr<Device> device_;
    Reactor& reactor_;
    Model& model_;
    const WorkloadOptions options_;
    std::unique_ptr<Channel> channel_;
    std::vector<std::unique_ptr<Slot>> slots_;
    unsigned to_begin_, outstanding_ = 0, succeeded_ = 0, failed_ = 0;
    std::uint64_t begun_ = 0;
};

/// One operation; its status, or nothing if it has not ended within `bound` (it is ended then).
[[nodiscard]] std::optional<Status> submit_and_wait(Scene&, Device&, Reactor&, Bio&, Duration bound);

/// Reads the whole of what the model knows and checks it. False if an operation failed.
[[nodiscard]] bool verify(Scene&, Device&, Reactor&, Model&);

}  // namespace mqblk::simulation
