// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/run.h"

#include "base/steady_clock.h"
#include "cli/bench/job.h"
#include "cli/bench/report.h"
#include "cli/numbers.h"
#include "cli/patience.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/standard_output.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>

namespace mqblk::cli {

namespace {

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

class Usage {
  public:
    Usage() { getrusage(RUSAGE_SELF, &before_); }
    void store(BenchResult& result, double thread_seconds) const {
        rusage now;
        getrusage(RUSAGE_SELF, &now);
        if (thread_seconds > 0) {
            result.user_cpu_percent = 100 * (seconds_of(now.ru_utime) - seconds_of(before_.ru_utime)) / thread_seconds;
            result.system_cpu_percent =
                100 * (seconds_of(now.ru_stime) - seconds_of(before_.ru_stime)) / thread_seconds;
        }
        const auto grown = [](long to, long from) { return static_cast<std::uint64_t>(to - from); };
        result.context_switches = grown(now.ru_nvcsw, before_.ru_nvcsw) + grown(now.ru_nivcsw, before_.ru_nivcsw);
        result.major_faults = grown(now.ru_majflt, before_.ru_majflt);
        result.minor_faults = grown(now.ru_minflt, before_.ru_minflt);
    }

  private:
    rusage before_;
};

/// The clockwork: moves the phases on and shows progress until every job has ended.
class Conduct {
  public:
    Conduct(const Workload& work, Conductor& conductor, std::vector<std::unique_ptr<Job>>& jobs, Signals& signals,
            const std::atomic<unsigned>& running)
        : work_(work), conductor_(conductor), jobs_(jobs), signals_(signals), running_(running) {}

    void run(Progress& progress) {
        tell(work_.ramp.count() > 0 ? Conductor::ramp : Conductor::measure);
        Time phase_begun = SteadyClock::read();
        Time interrupted = never;
        bool told = false;
        while (running_.load() > 0) {
            const auto phase = conductor_.phase.load();
            Duration left = std::chrono::milliseconds(250);
            const auto passed = SteadyClock::read() - phase_begun;
            if (Signals::caught() != 0 && interrupted == never) {
                interrupted = SteadyClock::read();
                if (phase < Conductor::stop) tell(Conductor::stop);
            } else if (Signals::gave_up() && phase != Conductor::abandon) {
                tell(Conductor::abandon);
            } else if (phase == Conductor::ramp) {
                left = std::min(left, work_.ramp - passed);
                if (passed >= work_.ramp) {
                    tell(Conductor::measure);
                    phase_begun = SteadyClock::read();
                }
            } else if (phase == Conductor::measure && work_.time.count() > 0) {
                left = std::min(left, work_.time - passed);
                if (passed >= work_.time) tell(Conductor::stop);
            }
            if (left > Duration::zero() && running_.load() > 0) signals_.wait(left);
            if (!told && interrupted != never && SteadyClock::read() - interrupted >= std::chrono::milliseconds(100)) {
                const auto requests = sum_of(&JobLive::in_flight);
                if (requests > 0 && running_.load() > 0) tell_what_is_awaited(requests);
                told = true;
            }
            show(progress);
        }
    }

  private:
    void tell(Conductor::Phase phase) {
        conductor_.advance(phase);
        for (auto& job : jobs_) job->wake();
    }

    template <typename Count>
    [[nodiscard]] Count sum_of(std::atomic<Count> JobLive::* member) const {
        Count sum = 0;
        for (const auto& job : jobs_) sum += (job->live().*member).load(std::memory_order_relaxed);
        return sum;
    }

    void show(Progress& progress) {
        const auto now = SteadyClock::read();
        const double seconds = std::chrono::duration<double>(now - shown_).count();
        if (seconds < 0.5) return;
        const auto ios = sum_of(&JobLive::ios);
        const double per_second = static_cast<double>(ios - ios_) / seconds;
        progress.show(fmt::format("IOPS={}, BW={}/s", count(per_second),
                                  binary_bytes(static_cast<std::uint64_t>(per_second * work_.block_bytes))));
        shown_ = now;
        ios_ = ios;
    }

    const Workload& work_;
    Conductor& conductor_;
    std::vector<std::unique_ptr<Job>>& jobs_;
    Signals& signals_;
    const std::atomic<unsigned>& running_;
    Time shown_ = SteadyClock::read();
    std::uint64_t ios_ = 0;
};

}  // namespace

int BenchResult::exit_code() const noexcept {
    if (total.mismatches != 0) return exit_differs;
    if (signal != 0) return exit_signal + signal;  // what failed while it was awaited is in the report
    return total.errors() != 0 ? exit_failed : exit_ok;
}

namespace {

/// Jobs, told to end and awaited however this ends; those that stand still are kept for good with all they use.
struct Crew {
    explicit Crew(const Workload& w, const std::vector<BenchDevice>& d) : work(w), devices(d) {}
    ~Crew() {
        conductor.advance(Conductor::stop);
        for (auto& job : jobs) job->join();
    }

    const Workload work;
    const std::vector<BenchDevice> devices;
    Conductor conductor;
    std::atomic<unsigned> running{0};
    std::vector<std::unique_ptr<Job>> jobs;
};

}  // namespace

Result<BenchResult> run_bench(const Workload& work, const std::vector<BenchDevice>& devices,
                              const Invocation& invocation) {
    if (auto ok = check_workload(work, devices); !ok) return std::unexpected(ok.error());
    Signals signals;
    auto crew = std::make_unique<Crew>(work, devices);
    crew->conductor.job_ended = [&running = crew->running, &signals] {
        running.fetch_sub(1);
        signals.wake();
    };
    for (unsigned i = 0; i < work.jobs; ++i) {
        crew->jobs.push_back(std::make_unique<Job>(crew->work, crew->devices, crew->conductor, i));
        crew->running.fetch_add(1);
        if (auto ok = crew->jobs.back()->start(); !ok) return std::unexpected(ok.error());
    }
    const Usage usage;
    {
        Progress progress(invocation, "bench:");
        Conduct(work, crew->conductor, crew->jobs, signals, crew->running).run(progress);
    }
    BenchResult result;
    const bool abandoned = crew->conductor.phase.load() == Conductor::abandon;
    for (auto& job : crew->jobs) {
        if (!abandoned) job->join();
        result.jobs.push_back(job->result());
        result.total.merge(job->result());
    }
    usage.store(result, std::chrono::duration<double>(result.total.runtime).count() * work.jobs);
    result.signal = Signals::caught();
    if (abandoned) static_cast<void>(crew.release());
    return result;
}

int end_bench(const BenchResult& result) {
    complain(failure_sentence(result.total));
    if (result.total.unanswered > 0) leave(result.exit_code());
    return result.exit_code();
}

}  // namespace mqblk::cli
