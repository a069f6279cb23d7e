// SPDX-License-Identifier: Apache-2.0
//
// Figures as fio writes them: at most four characters and a unit, so that reports can be laid side by side.
#pragma once

#include <cstdint>
#include <string>

namespace mqblk::cli {

[[nodiscard]] std::string count(double number);                ///< "9876", "12.3k", "101k", "1235k"
[[nodiscard]] std::string binary_bytes(std::uint64_t bytes);   ///< "512B", "49.4MiB", "2959MiB"
[[nodiscard]] std::string decimal_bytes(std::uint64_t bytes);  ///< "512B", "51.8MB", "1294MB"

}  // namespace mqblk::cli
