// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include "registry/units.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <thread>

namespace mqblk::cli {

namespace {

[[noreturn]] void wrong_argument(const std::string& name, const std::string& value, const std::string& why) {
    throw CLI::ValidationError(fmt::format("{} {}", name, value), why);
}

/// One item of a list of CPUs: "3" or "0-7".
void add_core_range(const std::string& name, const std::string& whole, std::string_view item,
                    std::vector<unsigned>& cores) {
    const auto dash = item.find('-');
    const auto first = registry::parse_number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : registry::parse_number(item.substr(dash + 1));
    if (!first || !last || *last < *first) {
        wrong_argument(name, whole, "expected CPU numbers such as 0,2 or 0-3");
    }
    const unsigned present = std::max(1u, std::thread::hardware_concurrency());
    if (*last >= present) {
        wrong_argument(name, whole,
                       fmt::format("CPU {} does not exist or may not be used; there are 0 to {}", *last, present - 1));
    }
    for (auto core = *first; core <= *last; ++core) cores.push_back(static_cast<unsigned>(core));
}

}  // namespace

CLI::Option* add_size(CLI::App& app, const std::string& name, std::uint64_t& target, const std::string& help,
                      std::uint64_t low, std::uint64_t high) {
    const auto read = [&target, name, low, high](const std::string& text) {
        const auto value = registry::parse_size(text);
        if (!value) wrong_argument(name, text, value.error().message());
        if (*value < low || *value > high) {
            wrong_argument(name, text,
                           fmt::format("out of range: {} to {} are allowed", registry::format_size(low),
                                       registry::format_size(high)));
        }
        target = *value;
    };
    return app.add_option_function<std::string>(name, read, help)->type_name("SIZE");
}

CLI::Option* add_time(CLI::App& app, const std::string& name, Duration& target, const std::string& help, Duration low,
                      Duration high) {
    const auto read = [&target, name, low, high](const std::string& text) {
        const auto value = registry::parse_time(text, true);
        if (!value) wrong_argument(name, text, value.error().message());
        if (*value < low || *value > high) {
            wrong_argument(name, text,
                           fmt::format("out of range: {} to {} are allowed", registry::format_time(low),
                                       registry::format_time(high)));
        }
        target = *value;
    };
    return app.add_option_function<std::string>(name, read, help)->type_name("TIME");
}

CLI::Option* add_cores(CLI::App& app, const std::string& name, std::vector<unsigned>& target, const std::string& help) {
    const auto read = [&target, name](const std::string& text) {
        target.clear();
        std::string_view rest = text;
        while (true) {
            const auto comma = rest.find(',');
            add_core_range(name, text, rest.substr(0, comma), target);
            if (comma == std::string_view::npos) break;
            rest.remove_prefix(comma + 1);
        }
    };
    return app.add_option_function<std::string>(name, read, help)->type_name("LIST");
}

}  // namespace mqblk::cli
