// SPDX-License-Identifier: Apache-2.0
//
// Options with units for CLI11, read as URIs read them, so that 64M means the same everywhere.
#pragma once

#include "base/clock.h"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mqblk::cli {

/// Bytes within [low, high]. `target` keeps its value when the option is absent.
CLI::Option* add_size(CLI::App&, const std::string& name, std::uint64_t& target, const std::string& help,
                      std::uint64_t low, std::uint64_t high);
/// A time; a number alone counts seconds.
CLI::Option* add_time(CLI::App&, const std::string& name, Duration& target, const std::string& help, Duration low,
                      Duration high);
/// CPU numbers: "0,2-3". Each must exist.
CLI::Option* add_cores(CLI::App&, const std::string& name, std::vector<unsigned>& target, const std::string& help);

}  // namespace mqblk::cli
