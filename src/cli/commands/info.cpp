// SPDX-License-Identifier: Apache-2.0
//
// info: identity, queue attributes under Linux's names, the driver's details and those of an NVMe controller.
#include "base/units.h"
#include "block/driver.h"
#include "block/queue.h"
#include "cli/commands/commands.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"
#include "registry/services.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mqblk::cli {

namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

/// Names whose values are text whatever they look like, and those that are 0 or 1 for false or true.
constexpr std::array<std::string_view, 9> texts{"name",  "model", "serial",        "firmware", "uuid",
                                                "nguid", "eui64", "subsystem_nqn", "host_nqn"};
constexpr std::array<std::string_view, 7> switches{"read_only", "add_random", "dax",       "fua",
                                                   "io_poll",   "iostats",    "rotational"};

Lines identity_lines(const Device& device) {
    const auto identity = device.identity();
    const auto bytes = device.sectors() * sector_bytes;
    Lines lines{{"name", identity.name},
                {"driver", identity.driver},
                {"bytes", std::to_string(bytes)},
                {"size", human_size(bytes)},
                {"read_only", device.read_only() ? "1" : "0"}};
    const std::pair<const char*, const std::string&> optional[] = {
        {"model", identity.model}, {"serial", identity.serial}, {"firmware", identity.firmware},
        {"uuid", identity.uuid},   {"nguid", identity.nguid},   {"eui64", identity.eui64}};
    for (const auto& [name, value] : optional) {
        if (!value.empty()) lines.emplace_back(name, value);
    }
    return lines;
}

void print_section(std::string_view title, const Lines& lines) {
    if (lines.empty()) return;
    print("{}\n", title);
    for (const auto& [name, value] : lines) print("  {:<28} {}\n", name, value);
}

/// Numbers as numbers, yes and no as true and false.
nlohmann::ordered_json typed(const std::string& name, const std::string& value) {
    if (std::find(texts.begin(), texts.end(), name) != texts.end()) return value;
    if (value == "yes" || value == "no") return value == "yes";
    std::uint64_t number = 0;
    const auto* const end = value.data() + value.size();
    const auto [at, problem] = std::from_chars(value.data(), end, number);
    if (problem != std::errc{} || at != end || value.empty()) return value;
    if (std::find(switches.begin(), switches.end(), name) != switches.end()) return number != 0;
    return number;
}

nlohmann::ordered_json as_json(const Lines& lines) {
    auto json = nlohmann::ordered_json::object();
    for (const auto& [name, value] : lines) json[name] = typed(name, value);
    return json;
}

class InfoCommand final : public Command {
  public:
    void declare(CLI::App& app) override { app.add_option("URI", uri_, "The device")->required(); }

    Result<int> run(const Invocation& invocation) override {
        Session session;
        const auto device = session.context().open(uri_);
        if (!device) return std::unexpected(device.error());
        session.keep_files();
        const auto controller = session.context().services().controller_of(**device);
        const Lines identity = identity_lines(**device);
        const Lines queue = (*device)->attributes();
        // A controller's details hold what its disks repeat.
        const Lines details = controller ? Lines{} : block::disk_of((*device)->core()).details;
        const Lines controller_details = controller ? controller->details() : Lines{};
        if (invocation.json) {
            nlohmann::ordered_json report{{"uri", uri_}, {"identity", as_json(identity)}, {"queue", as_json(queue)}};
            if (!details.empty()) report["details"] = as_json(details);
            if (controller) report["controller"] = as_json(controller_details);
            print_json(report);
            return exit_ok;
        }
        print_section(uri_, identity);
        print_section("queue", queue);
        print_section("details", details);
        print_section("controller", controller_details);
        return exit_ok;
    }

  private:
    std::string uri_;
};

}  // namespace

std::unique_ptr<Command> make_info() {
    return std::make_unique<InfoCommand>();
}

}  // namespace mqblk::cli
