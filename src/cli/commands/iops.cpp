// SPDX-License-Identifier: Apache-2.0
//
// iops: random reads or writes for some seconds, reported on fio's one line.
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

namespace mqblk::cli {

namespace {

class IopsCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("URI", uri_, "The device")->required();
        app.add_flag("-w,--write", write_, "Random writes instead of random reads: destroys what is on the device");
        add_size(app, "-b,--bs", work_.block_bytes, "Bytes of each I/O [4k]", 512, 64u << 20);
        app.add_option("-j,--jobs", work_.jobs, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
        app.add_option("-d,--depth", work_.depth, "I/Os in flight for each job")
            ->check(CLI::Range(1, 65536))
            ->capture_default_str();
        add_time(app, "-t,--time", work_.time, "How long to measure [10s]", std::chrono::milliseconds(1),
                 std::chrono::hours(24 * 365));
        add_cores(app, "--cores", work_.cores, "CPUs to pin the jobs to, in turn");
        app.add_flag("--poll", work_.poll, "Never sleep");
    }

    Result<int> run(const Invocation& invocation) override {
        if (auto ok = work_.set_mode(write_ ? "randwrite" : "randread", 50); !ok) return std::unexpected(ok.error());
        if (work_.time.count() == 0) work_.time = std::chrono::seconds(10);
        Context context(command_options(work_.poll));
        FreshFiles fresh(context);
        const auto devices = open_bench_devices(context, {uri_});
        if (!devices) return std::unexpected(devices.error());
        const auto result = run_bench(work_, *devices, invocation);
        if (!result) return std::unexpected(result.error());
        fresh.keep();
        const auto direction = write_ ? Direction::write : Direction::read;
        if (invocation.json) {
            auto jobs = nlohmann::ordered_json::array();
            jobs.push_back(job_json(work_, *result, result->total, "iops"));
            print_json(report_json(std::move(jobs)));
        } else {
            print("{}{}\n",
                  iops_line(to_string(direction), result->total.directions[static_cast<std::size_t>(direction)],
                            result->total.runtime),
                  result->ending());
        }
        return end_bench(*result);
    }

  private:
    std::string uri_;
    bool write_ = false;
    Workload work_;
};

}  // namespace

std::unique_ptr<Command> make_iops() {
    return std::make_unique<IopsCommand>();
}

}  // namespace mqblk::cli
