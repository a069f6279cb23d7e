// SPDX-License-Identifier: Apache-2.0
//
// One job of a measurement: a thread with its reactor, one channel per device, and a fixed set of I/Os kept in flight.
// The loop reads the clock once per completion pass and allocates nothing. Its result may be read after join().
#pragma once

#include "cli/bench/workload.h"

#include <mqblk/error.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace mqblk::cli {

/// What all jobs are told, by the thread that conducts them.
struct Conductor {
    enum Phase : int { wait, ramp, measure, stop, abandon };
    std::atomic<int> phase{wait};
    std::function<void()> job_ended;  ///< from a job's thread, once for each job

    void advance(Phase to) {
        phase.store(to);
        phase.notify_all();
    }
};

/// What a job says of itself while it runs; any thread may read it.
struct alignas(64) JobLive {
    std::atomic<std::uint64_t> ios{0};   ///< that succeeded, also before the measurement and in reading back
    std::atomic<unsigned> in_flight{0};  ///< once the phase is `stop`: I/Os that have not ended yet
};

class Job {
  public:
    Job(const Workload&, const std::vector<BenchDevice>&, Conductor&, unsigned index);
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    /// Starts the thread and waits until it has opened its channels. It begins when the conductor leaves `wait`. Once
    /// it is told to abandon what is in flight, its thread stands still for good: leave the process.
    [[nodiscard]] Result<> start();
    /// The phase changed: look at it now.
    void wake() noexcept;
    void join();
    [[nodiscard]] const JobLive& live() const noexcept;
    [[nodiscard]] const JobResult& result() const noexcept;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace mqblk::cli
