// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include "base/units.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <thread>

namespace mqblk::cli {

namespace {

[[noreturn]] void wrong_argument(const std::string& message) {
    throw CLI::ValidationError(message);
}

/// "--time" of "-t,--time,--runtime": what a message calls it.
std::string long_name(const std::string& names) {
    const auto begin = names.find("--");
    return begin == std::string::npos ? names : names.substr(begin, names.find(',', begin) - begin);
}

/// One item of a list of CPUs: "3" or "0-7".
void add_core_range(const std::string& name, const std::string& whole, std::string_view item,
                    std::vector<unsigned>& cores) {
    constexpr std::uint64_t most = 1u << 20;
    const auto dash = item.find('-');
    const auto first = parse_number(name, item.substr(0, dash), 0, most);
    const auto last = dash == std::string_view::npos ? first : parse_number(name, item.substr(dash + 1), 0, most);
    if (!first || !last || *last < *first) {
        wrong_argument(fmt::format("{}={}: must be CPU numbers such as 0,2 or 0-3", name, whole));
    }
    const unsigned present = std::max(1u, std::thread::hardware_concurrency());
    if (*last >= present) {
        wrong_argument(fmt::format("{}={}: there is no CPU {}; there are 0 to {}", name, whole, *last, present - 1));
    }
    for (auto core = *first; core <= *last; ++core) cores.push_back(static_cast<unsigned>(core));
}

}  // namespace

CLI::Option* add_size(CLI::App& app, const std::string& name, std::uint64_t& target, const std::string& help,
                      std::uint64_t low, std::uint64_t high) {
    const auto read = [&target, name = long_name(name), low, high](const std::string& text) {
        const auto value = parse_size(name, text);
        if (!value) wrong_argument(value.error().message());
        if (*value < low || *value > high) {
            wrong_argument(
                fmt::format("{}={}: must be from {} to {}", name, text, format_size(low), format_size(high)));
        }
        target = *value;
    };
    return app.add_option_function<std::string>(name, read, help)->type_name("SIZE");
}

CLI::Option* add_time(CLI::App& app, const std::string& name, Duration& target, const std::string& help, Duration low,
                      Duration high) {
    const auto read = [&target, name = long_name(name), low, high](const std::string& text) {
        const bool bare = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        const auto value = parse_duration(name, bare ? text + "s" : text);
        if (!value) {
            wrong_argument(fmt::format("{}={}: must be a number of seconds, or one with {}, such as 2, 10us or 1m",
                                       name, text, duration_units));
        }
        if (*value < low || *value > high) {
            wrong_argument(
                fmt::format("{}={}: must be from {} to {}", name, text, format_duration(low), format_duration(high)));
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
