// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/namespace_changes.h"

#include <mqblk/bio.h>

#include <fmt/format.h>

#include <set>

namespace mqblk::driver::nvme {

namespace {

constexpr unsigned most_described = 8;

std::string describe_change(const NamespaceFacts& before, const NamespaceFacts& after) {
    if (!before.same_disk(after)) return "is another disk now";
    if (before.sectors != after.sectors) return fmt::format("has {} bytes now", after.sectors * sector_bytes);
    if (before.read_only != after.read_only) return after.read_only ? "is write-protected now" : "can be written now";
    return {};
}

}  // namespace

std::string describe_changes(const NamespaceMap& before, const NamespaceMap& after) {
    std::set<std::uint32_t> all;
    for (const auto& [nsid, facts] : before) all.insert(nsid);
    for (const auto& [nsid, facts] : after) all.insert(nsid);
    std::string text;
    unsigned changes = 0;
    for (const std::uint32_t nsid : all) {
        const auto old = before.find(nsid), now = after.find(nsid);
        const std::string change = now == after.end()    ? "is gone"
                                   : old == before.end() ? "is new"
                                                         : describe_change(old->second, now->second);
        if (change.empty() || ++changes > most_described) continue;
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", nsid, change);
    }
    if (changes > most_described) text += fmt::format(", and {} more changes", changes - most_described);
    return text;
}

}  // namespace mqblk::driver::nvme
