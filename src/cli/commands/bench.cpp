// SPDX-License-Identifier: Apache-2.0
//
// bench: a workload over devices, its report as text or in fio's JSON.
#include "cli/arguments.h"
#include "cli/bench/measure.h"
#include "cli/bench/report.h"
#include "cli/commands/commands.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <limits>

namespace mqblk::cli {

namespace {

class BenchCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
        constexpr auto day = std::chrono::hours(24 * 365);
        app.add_option("URI", uris_, "Devices; each has its share of --depth")->required();
        app.add_option("--rw", rw_, "randread, randwrite, read, write, randrw, rw, trim or randtrim")
            ->capture_default_str();
        app.add_option("--rwmixread", mix_, "Reads of a mixed workload, percent")
            ->check(CLI::Range(0, 100))
            ->capture_default_str();
        add_size(app, "--bs", work_.block_bytes, "Bytes of each I/O [4k]", 512, 64u << 20);
        app.add_option("--depth,--iodepth", work_.depth, "I/Os in flight for each job")
            ->check(CLI::Range(1, 65536))
            ->capture_default_str();
        app.add_option("--jobs,--numjobs", work_.jobs, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
        add_time(app, "--time,--runtime", work_.time, "How long to measure [10s, or until --size is done]",
                 std::chrono::milliseconds(1), day);
        add_size(app, "--size", work_.size_bytes, "Bytes that each job does at most", 512, most);
        add_time(app, "--ramp,--ramp_time", work_.ramp, "Run so long before measuring", Duration::zero(), day);
        add_size(app, "--offset", work_.offset_bytes, "First byte of each device to use", 0, most);
        add_size(app, "--range", work_.range_bytes, "Bytes from there to use [to the end]", 512, most);
        app.add_flag("--verify", work_.verify,
                     "Write blocks that say what they are, read them back and check them; with reads only, check what "
                     "an earlier run wrote");
        app.add_flag("--continue-on-error", work_.continue_on_error, "Go on after a failed I/O");
        add_cores(app, "--cores", work_.cores, "CPUs to pin the jobs to, in turn");
        app.add_flag("--poll", work_.poll, "Never sleep");
        app.add_option("--seed", work_.seed, "Of offsets and data")->capture_default_str();
        app.add_flag("--per-job", per_job_, "With --json: an entry for each job instead of one for all");
    }

    Result<int> run(const Invocation& invocation) override {
        if (auto ok = work_.set_mode(rw_, mix_); !ok) return std::unexpected(ok.error());
        if (work_.time.count() == 0 && work_.size_bytes == 0) work_.time = std::chrono::seconds(10);
        Context context(command_options(work_.poll));
        FreshFiles fresh(context);
        const auto devices = open_bench_devices(context, uris_);
        if (!devices) return std::unexpected(devices.error());
        const auto result = run_bench(work_, *devices, invocation);
        if (!result) return std::unexpected(result.error());
        fresh.keep();
        if (invocation.json) {
            auto jobs = nlohmann::ordered_json::array();
            if (per_job_) {
                for (std::size_t i = 0; i < result->jobs.size(); ++i) {
                    jobs.push_back(job_json(work_, *result, result->jobs[i], fmt::format("bench.{}", i)));
                }
            } else {
                jobs.push_back(job_json(work_, *result, result->total, "bench"));
            }
            print_json(report_json(std::move(jobs)));
        } else {
            write_output(bench_text(work_, *result, "bench"));
        }
        return end_bench(*result);
    }

  private:
    std::vector<std::string> uris_;
    std::string rw_ = "randread";
    unsigned mix_ = 50;
    bool per_job_ = false;
    Workload work_;
};

}  // namespace

std::unique_ptr<Command> make_bench() {
    return std::make_unique<BenchCommand>();
}

}  // namespace mqblk::cli
