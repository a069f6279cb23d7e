// SPDX-License-Identifier: Apache-2.0
//
// What a served target is configured to: subsystems, who may use them, and their namespaces, as a file that can be
// saved, loaded and edited (docs/uris.md). The text may come from a stranger: it is checked entirely before any of it
// is used, and its size is bounded.
#pragma once

#include <mqblk/error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mqblk::registry {

struct NamespaceEntry {
    std::uint32_t nsid = 0;
    std::string uri, uuid, nguid;
    friend bool operator==(const NamespaceEntry&, const NamespaceEntry&) = default;
};

struct SubsystemEntry {
    std::string nqn, serial, model;
    bool allow_any_host = true;
    std::vector<std::string> allowed_hosts;
    std::vector<NamespaceEntry> namespaces;  ///< by nsid
    friend bool operator==(const SubsystemEntry&, const SubsystemEntry&) = default;
};

struct TargetConfig {
    static constexpr unsigned version = 1;
    static constexpr std::size_t max_text_bytes = 16u << 20;

    std::vector<SubsystemEntry> subsystems;  ///< by NQN

    /// Unknown members, wrong types, missing NQNs, namespaces without URI, and repeated names or numbers are errors
    /// that say where.
    [[nodiscard]] static Result<TargetConfig> parse(std::string_view json);
    [[nodiscard]] std::string to_json() const;
    friend bool operator==(const TargetConfig&, const TargetConfig&) = default;
};

}  // namespace mqblk::registry
