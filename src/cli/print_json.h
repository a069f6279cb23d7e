// SPDX-License-Identifier: Apache-2.0
//
// A report as JSON on standard output. Names of files, subsystems and hosts may hold any bytes; what is not UTF-8 is
// replaced, so that what is printed can always be read.
#pragma once

#include "cli/print.h"

#include <nlohmann/json.hpp>

#include <string>

namespace mqblk::cli {

inline constexpr int json_indent = 2, json_one_line = -1;

inline std::string json_text(const nlohmann::ordered_json& json, int indent = json_indent) {
    return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

inline void print_json(const nlohmann::ordered_json& json, int indent = json_indent) {
    write_output(json_text(json, indent) + '\n');
}

}  // namespace mqblk::cli
