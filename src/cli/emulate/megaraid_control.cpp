// SPDX-License-Identifier: Apache-2.0
#include "cli/emulate/megaraid_control.h"

#include "driver/megaraid/firmware.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace mqblk::cli {

namespace {

namespace mr = device::megaraid;
using nlohmann::ordered_json;
using Answer = Result<ordered_json>;

std::string unit_name(const mr::Target& target) {
    return fmt::format("{}/{}", target.is_volume ? "ld" : "pd", target.id);
}

/// "pd/3" or "ld/0", of those that there are. On the controller's thread.
Result<mr::Target*> find_unit(const mr::Topology& topology, const std::string& name) {
    std::string there;
    for (const auto& target : topology.targets()) {
        if (unit_name(*target) == name) return target.get();
        there += (there.empty() ? "" : ", ") + unit_name(*target);
    }
    return fail(Errc::not_found, fmt::format("there is no disk or volume {}; there are {}", name, there));
}

Answer list(mr::Controller& controller) {
    auto units = ordered_json::array();
    for (const auto& target : controller.topology().targets()) {
        const Device& device = target->unit->device();
        units.push_back({{"unit", unit_name(*target)},
                         {"device", device.identity().name},
                         {"bytes", device.sectors() * sector_bytes},
                         {"block", target->unit->block_bytes()},
                         {"present", target->present}});
    }
    const mr::Controller::Counters& counters = controller.counters();
    return ordered_json{{"model", "megaraid"},
                        {"state", driver::megaraid::to_string(controller.state())},
                        {"units", std::move(units)},
                        {"in_flight", controller.in_flight()},
                        {"counters",
                         {{"requests", counters.requests},
                          {"replies", counters.replies},
                          {"fast_path", counters.fast_path},
                          {"copied", counters.copied},
                          {"dropped", counters.dropped},
                          {"aborted", counters.aborted},
                          {"resets", counters.resets}}}};
}

/// A disk or volume comes or goes.
Answer set_present(mr::Controller& controller, const std::string& name, bool present) {
    const auto unit = find_unit(controller.topology(), name);
    if (!unit) return std::unexpected(unit.error());
    if ((*unit)->present == present)
        return fail(Errc::invalid_argument, fmt::format("{} is {} already", name, present ? "there" : "pulled out"));
    if ((*unit)->is_volume) {
        controller.set_volume_present((*unit)->id, present);
    } else if (present) {
        controller.put_disk((*unit)->id);
    } else {
        controller.pull_disk((*unit)->id);
    }
    return ordered_json{{"unit", name}};
}

/// A new disk.
Answer plug(mr::Controller& controller, registry::ReactorThread& thread, Context& context, const std::string& uri) {
    auto device = context.open(uri);
    if (!device) return std::unexpected(device.error());
    const std::uint64_t bytes = (*device)->sectors() * sector_bytes;
    Result<unsigned> id = 0u;
    thread.run([&] { id = controller.add_disk(std::move(*device)); });
    if (!id) return std::unexpected(id.error());
    return ordered_json{{"unit", fmt::format("pd/{}", *id)}, {"bytes", bytes}};
}

Answer give_fault(mr::Controller& controller, const std::string& text) {
    const auto fault = mr::parse_fault(text);
    if (!fault) return std::unexpected(fault.error());
    if (auto good = controller.check(*fault); !good) return std::unexpected(good.error());
    controller.inject(*fault);
    return ordered_json::object();
}

}  // namespace

Answer control_megaraid(mr::Controller& controller, registry::ReactorThread& thread, Context& context,
                        std::string_view command, registry::RequestReader& request) {
    const std::string uri = command == "plug" ? request.text("uri", "") : "";
    std::string what;
    if (command == "fault") what = request.required_text("fault");
    if (command == "pull" || (command == "plug" && uri.empty())) what = request.required_text("unit");
    if (auto ok = request.finish(); !ok) return std::unexpected(ok.error());
    if (!uri.empty()) return plug(controller, thread, context, uri);
    Answer answer;
    thread.run([&] {
        if (command == "list") {
            answer = list(controller);
        } else if (command == "fault") {
            answer = give_fault(controller, what);
        } else {
            answer = set_present(controller, what, command == "plug");
        }
    });
    return answer;
}

}  // namespace mqblk::cli
