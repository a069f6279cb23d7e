// SPDX-License-Identifier: Apache-2.0
//
// latency: random reads, then random writes, one at a time.
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

#include <array>

namespace mqblk::cli {

namespace {

class LatencyCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("URI", uri_, "The device")->required();
        add_size(app, "BS", work_.block_bytes, "Bytes of each I/O [4k]", 512, 64u << 20);
        app.add_flag("--read-only", read_only_,
                     "Random reads only; without it random writes follow, which destroy "
                     "what is on the device");
        add_time(app, "-t,--time", work_.time, "How long to measure, each of the two [5s]",
                 std::chrono::milliseconds(1), std::chrono::hours(24 * 365));
        add_cores(app, "--cores", work_.cores, "CPU to pin the thread to");
        app.add_flag("--poll", work_.poll, "Never sleep");
    }

    Result<int> run(const Invocation& invocation) override {
        work_.depth = 1;
        if (work_.time.count() == 0) work_.time = std::chrono::seconds(5);
        Context context(command_options(work_.poll));
        FreshFiles fresh(context);
        const auto devices = open_bench_devices(context, {uri_});
        if (!devices) return std::unexpected(devices.error());
        auto jobs = nlohmann::ordered_json::array();
        int code = exit_ok;
        for (const auto direction : {Direction::read, Direction::write}) {
            const std::string mode = direction == Direction::read ? "randread" : "randwrite";
            if (auto ok = work_.set_mode(mode, 50); !ok) return std::unexpected(ok.error());
            const auto result = run_bench(work_, *devices, invocation);
            if (!result) return std::unexpected(result.error());
            fresh.keep();
            if (invocation.json) {
                jobs.push_back(job_json(work_, *result, result->total, mode));
            } else {
                print_text(mode, *result, result->total.directions[static_cast<std::size_t>(direction)]);
            }
            const bool last = result->exit_code() != exit_ok || read_only_ || direction == Direction::write;
            if (last && invocation.json) print_json(report_json(std::move(jobs)));
            code = end_bench(*result);
            if (last) break;
        }
        return code;
    }

  private:
    void print_text(const std::string& mode, const BenchResult& result, const DirectionResult& direction) const {
        print("{}: bs={}, depth=1, {} I/Os in {} ms{}\n{}\n", mode, work_.block_bytes, direction.ios,
              std::chrono::round<std::chrono::milliseconds>(result.total.runtime).count(), result.ending(),
              latency_line(direction.latency));
        write_output(percentile_lines(direction.latency));
        flush_output();
    }

    std::string uri_;
    bool read_only_ = false;
    Workload work_;
};

}  // namespace

std::unique_ptr<Command> make_latency() {
    return std::make_unique<LatencyCommand>();
}

}  // namespace mqblk::cli
