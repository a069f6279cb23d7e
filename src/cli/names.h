// SPDX-License-Identifier: Apache-2.0
//
// How subsystems are named where the user gives a short name or none, and the URI of a served namespace.
#pragma once

#include "fabric/connection.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mqblk::cli {

inline constexpr std::string_view default_nqn = "nqn.2026-01.io.mqblk:disks";
inline constexpr std::uint16_t nvme_tcp_port = 4420;

struct NamedUri {
    std::string nqn, uri;
};
/// "NAME=URI": the subsystem nqn.2026-01.io.mqblk:NAME, or NAME itself where it is an NQN; "URI" alone: `standard`.
[[nodiscard]] NamedUri split_name(const std::string& text, const std::string& standard);

[[nodiscard]] std::string namespace_uri(const fabric::Address&, const std::string& nqn, std::uint32_t nsid);

}  // namespace mqblk::cli
