// SPDX-License-Identifier: Apache-2.0
//
// Requests to the control socket of a served target, one a line: each gets an answer that is one line of JSON, and what
// is saved afterwards can be loaded. Only disks that touch nothing outside the process are let through.
#include "registry/target_control.h"
#include "registry/target_service.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace {

using mqblk::registry::TargetConfig;
using mqblk::registry::TargetService;
using nlohmann::ordered_json;

/// Files, networks and much memory are not for a fuzzer.
bool harmless(const ordered_json& json) {
    if (json.is_string()) {
        const auto& text = json.get_ref<const std::string&>();
        for (const char* word : {"file", "nvme", "populate", "threaded", "latency", "%"})
            if (text.find(word) != std::string::npos) return false;
        return true;
    }
    if (!json.is_structured()) return true;  // to iterate over it would be to iterate over itself
    for (const auto& member : json)
        if (!harmless(member)) return false;
    return true;
}

unsigned depth_of(std::string_view text) {
    unsigned depth = 0;
    for (const char c : text) depth += c == '[' || c == '{' ? 1u : 0u;
    return depth;
}

TargetService& service() {
    static mqblk::Context context;
    static const auto made = TargetService::start(context, {});
    if (!made) std::abort();
    return **made;
}

void ask(std::string_view line) {
    // What is deep is refused before anything of it is used, and would be too deep for harmless().
    if (depth_of(line) < 1000 && !harmless(ordered_json::parse(line, nullptr, false))) return;
    const std::string text = mqblk::registry::handle_control(service(), "nqn.2026-01.io.mqblk:disks", line);
    const auto answer = ordered_json::parse(text, nullptr, false);
    if (text.find('\n') != std::string::npos || !answer.is_object() || !answer.contains("ok")) std::abort();
    if (answer["ok"] == false && answer.value("error", "").empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    for (unsigned lines = 0; lines < 16 && !text.empty(); ++lines) {
        const auto end = std::min(text.find('\n'), text.size());
        ask(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    const TargetConfig saved = service().save();
    const auto again = TargetConfig::parse(saved.to_json());
    if (!again || *again != saved || !service().load(*again) || service().save() != saved) std::abort();
    if (!service().load({})) std::abort();
    return 0;
}
