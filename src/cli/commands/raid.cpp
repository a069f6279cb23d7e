// SPDX-License-Identifier: Apache-2.0
//
// raid: makes arrays, says how they are, and looks after them while nobody else uses them: rebuilding and scrubbing
// with progress. An array that is served is rebuilt by whoever serves it.
#include "driver/raid/raid.h"
#include "base/steady_clock.h"
#include "base/units.h"
#include "cli/commands/commands.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "registry/uri.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace mqblk::cli {

namespace {

using driver::raid::Report;

nlohmann::ordered_json running_json(const Report::Running& of) {
    return {{"running", of.running},
            {"stripes_done", of.done},
            {"stripes", of.all},
            {"blocks_repaired", of.repaired},
            {"stripes_failed", of.failed}};
}

nlohmann::ordered_json report_json(const Report& report, std::uint64_t bytes) {
    nlohmann::ordered_json json{{"level", report.level},   {"state", report.state},    {"uuid", report.uuid},
                                {"bytes", bytes},          {"data", report.data},      {"chunk", report.chunk},
                                {"events", report.events}, {"journal", report.journal}};
    auto members = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < report.members.size(); ++i)
        members.push_back({{"member", i}, {"state", report.members[i].state}, {"device", report.members[i].name}});
    json["members"] = std::move(members);
    json["rebuild"] = running_json(report.rebuild);
    json["scrub"] = running_json(report.scrub);
    return json;
}

void print_report(const Report& report, std::uint64_t bytes) {
    print("RAID-{} {}: {}, {}, {} of data in chunks of {}\n", report.level, report.uuid, report.state,
          human_size(bytes), report.data, format_size(report.chunk));
    for (std::size_t i = 0; i < report.members.size(); ++i)
        print("  member {:>2}  {:<10}  {}\n", i, report.members[i].state, report.members[i].name);
    if (report.rebuild.running) print("  rebuilding: {} of {} stripes\n", report.rebuild.done, report.rebuild.all);
}

class RaidCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.require_subcommand(0, 1);
        app.fallthrough();
        const auto add = [&](std::size_t which, const char* name, const char* what) {
            actions_[which] = app.add_subcommand(name, what);
            actions_[which]->add_option("URI", uri_, "The array: raid6://?member=[…]&… or raid0://…")->required();
        };
        add(create, "create", "Make an array; what its members hold is lost");
        add(status, "status", "Say how an array and its members are");
        add(rebuild, "rebuild", "Open an array and wait until it is rebuilt");
        add(replace, "replace", "Rebuild a missing member onto a new device");
        add(scrub, "scrub", "Check all stripes and repair silent damage");
        actions_[create]->add_flag("--force", force_, "Overwrite members that hold an array");
        actions_[replace]->add_flag("--force", force_, "Overwrite a device that holds an array");
        actions_[replace]
            ->add_option("PLACE", place_, "Which member of the URI is the new one, from 0")
            ->required()
            ->check(CLI::Range(0, 33));
    }

    Result<int> run(const Invocation& invocation) override {
        for (std::size_t which = 0; which < actions_.size(); ++which)
            if (actions_[which]->parsed()) return carry_out(invocation, which);
        return fail(Errc::invalid_argument,
                    "raid: say what to do; there are create, status, rebuild, replace and scrub");
    }

  private:
    enum Action : std::size_t { create, status, rebuild, replace, scrub };

    Result<int> carry_out(const Invocation& invocation, std::size_t which) {
        auto uri = registry::Uri::parse(uri_);
        if (!uri) return std::unexpected(uri.error());
        if (uri->scheme != "raid6" && uri->scheme != "raid0")
            return fail(Errc::invalid_argument,
                        fmt::format("raid: {} is no array; give a raid6:// or raid0:// URI", uri_));
        if (which == create) uri->set("create", "1");
        if (which == replace) uri->options.push_back({"replace", std::to_string(place_), true, {}});
        if (force_) uri->set("force", "1");
        Session session;
        auto device = session.context().open(uri->to_string());
        if (!device) return std::unexpected(device.error());
        session.keep_files();
        if (which == create || which == status) return show(invocation, **device, exit_ok);
        if (which == scrub) return carry_out_scrub(invocation, **device);
        return carry_out_rebuild(invocation, **device);
    }

    static Result<int> show(const Invocation& invocation, Device& device, int code) {
        const auto report = driver::raid::report(device);
        if (!report) return std::unexpected(report.error());
        const std::uint64_t bytes = device.sectors() * sector_bytes;
        if (invocation.json) {
            print_json(report_json(*report, bytes));
        } else {
            print_report(*report, bytes);
        }
        return code;
    }

    /// Shows how far it is until `done` or a signal; false: a signal came.
    template <class Running, class Done>
    static bool wait_for(const Invocation& invocation, Device& device, std::string_view title, Running running,
                         Done done) {
        Signals signals;
        Progress progress(invocation, title);
        for (;;) {
            const auto report = driver::raid::report(device);
            if (!report || done(*report)) return true;
            if (Signals::caught() != 0) return false;
            const Report::Running& now = running(*report);
            const std::uint64_t stripe = std::uint64_t{report->data} * report->chunk;
            progress.update(now.done * stripe, now.all * stripe);
            signals.wait(std::chrono::milliseconds(100));
        }
    }

    static Result<int> carry_out_rebuild(const Invocation& invocation, Device& device) {
        const auto at_work = [](const Report& report) {
            return report.state == "rebuilding" && report.rebuild.failed == 0;
        };
        const bool ended = wait_for(
            invocation, device,
            "rebuild:", [](const Report& report) -> const Report::Running& { return report.rebuild; },
            [&](const Report& report) { return !at_work(report); });
        if (!ended) return exit_signal + Signals::caught();
        const auto report = driver::raid::report(device);
        if (report && report->rebuild.failed != 0)
            return fail(Errc::io,
                        "raid: a stripe cannot be rebuilt, as other members cannot be read there; the lines "
                        "above name it");
        if (report && report->state != "optimal") {
            static_cast<void>(show(invocation, device, exit_failed));
            return fail(Errc::io,
                        "raid: members are missing still; name a new device in the place of one and use `mqblk "
                        "raid replace`");
        }
        return show(invocation, device, exit_ok);
    }

    static Result<int> carry_out_scrub(const Invocation& invocation, Device& device) {
        if (auto begun = driver::raid::scrub(device); !begun) return std::unexpected(begun.error());
        const bool ended = wait_for(
            invocation, device, "scrub:", [](const Report& report) -> const Report::Running& { return report.scrub; },
            [](const Report& report) { return !report.scrub.running; });
        if (!ended) return exit_signal + Signals::caught();
        const auto report = driver::raid::report(device);
        if (!report) return std::unexpected(report.error());
        if (report->scrub.done != report->scrub.all)
            return fail(Errc::io, "raid: the scrub ended early, as a member failed; the lines above name it");
        const int code = report->scrub.failed != 0 ? exit_differs : exit_ok;
        if (invocation.json) return show(invocation, device, code);
        print("scrub: {} stripes checked, {} blocks of 512 bytes repaired, {} stripes beyond repair\n",
              report->scrub.done, report->scrub.repaired, report->scrub.failed);
        return code;
    }

    std::string uri_;
    unsigned place_ = 0;
    bool force_ = false;
    std::array<CLI::App*, 5> actions_{};
};

}  // namespace

std::unique_ptr<Command> make_raid() {
    return std::make_unique<RaidCommand>();
}

}  // namespace mqblk::cli
