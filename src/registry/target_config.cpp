// SPDX-License-Identifier: Apache-2.0
#include "registry/target_config.h"

#include "registry/json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <set>

namespace mqblk::registry {

namespace {

using nlohmann::ordered_json;

std::unexpected<Error> wrong_config(std::string_view where, std::string_view why) {
    return fail(Errc::invalid_argument, fmt::format("configuration: {}: {}", where, why));
}

/// Reads the members of one object; whatever is not asked for is an error in the end.
class ObjectReader {
  public:
    ObjectReader(const ordered_json& json, std::string where) : json_(json), where_(std::move(where)) {
        if (!json_.is_object()) error_ = "must be an object";
    }

    std::string text(const char* name, bool required, std::size_t most) {
        const auto* member = find(name, required);
        if (member == nullptr) return {};
        if (!member->is_string()) return complain(name, "must be a string"), std::string();
        const auto& value = member->get_ref<const std::string&>();
        if (value.size() > most) return complain(name, fmt::format("is longer than {} bytes", most)), std::string();
        if (required && value.empty()) return complain(name, "must not be empty"), std::string();
        return value;
    }

    std::uint64_t number(const char* name, std::uint64_t standard, std::uint64_t low, std::uint64_t high) {
        const auto* member = find(name, false);
        if (member == nullptr) return standard;
        if (!member->is_number_unsigned() || *member < low || *member > high) {
            complain(name, low == high ? fmt::format("must be {}", low)
                                       : fmt::format("must be a number from {} to {}", low, high));
            return standard;
        }
        return member->get<std::uint64_t>();
    }

    bool flag(const char* name, bool standard) {
        const auto* member = find(name, false);
        if (member == nullptr) return standard;
        if (!member->is_boolean()) complain(name, "must be true or false");
        return member->is_boolean() ? member->get<bool>() : standard;
    }

    /// An array, or an empty one.
    const ordered_json& list(const char* name, bool required = false) {
        static const ordered_json empty = ordered_json::array();
        const auto* member = find(name, required);
        if (member == nullptr) return empty;
        if (!member->is_array()) complain(name, "must be a list");
        return member->is_array() ? *member : empty;
    }

    Result<> finish() {
        if (error_.empty() && json_.is_object()) {
            for (const auto& [name, value] : json_.items()) {
                if (!asked_.contains(name)) complain(name.substr(0, 64), "is not known");
            }
        }
        if (error_.empty()) return {};
        return wrong_config(where_, error_);
    }

  private:
    const ordered_json* find(const char* name, bool required) {
        asked_.insert(name);
        if (!json_.is_object()) return nullptr;
        const auto found = json_.find(name);
        if (found != json_.end()) return &*found;
        if (required) complain(name, "is missing");
        return nullptr;
    }
    void complain(std::string_view name, std::string_view why) {
        if (error_.empty()) error_ = fmt::format("\"{}\" {}", name, why);
    }

    const ordered_json& json_;
    std::string where_, error_;
    std::set<std::string> asked_;
};

constexpr std::size_t longest_nqn_bytes = 223;
constexpr std::size_t max_uri_bytes = 1u << 20;

Result<NamespaceEntry> read_namespace(const ordered_json& json, const std::string& where) {
    ObjectReader reader(json, where);
    NamespaceEntry entry;
    entry.nsid = static_cast<std::uint32_t>(reader.number("nsid", 0, 1, 0xfffffffe));
    entry.uri = reader.text("uri", true, max_uri_bytes);
    entry.uuid = reader.text("uuid", false, 36);
    entry.nguid = reader.text("nguid", false, 36);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (entry.nsid == 0) return wrong_config(where, "\"nsid\" is missing");
    return entry;
}

/// Hosts tell namespaces of a subsystem apart by these.
Result<> check_distinct(const std::vector<NamespaceEntry>& namespaces, const std::string& where) {
    for (const auto member : {&NamespaceEntry::uuid, &NamespaceEntry::nguid}) {
        std::set<std::string> seen;
        for (const NamespaceEntry& entry : namespaces) {
            std::string id = entry.*member;
            std::erase(id, '-');
            std::ranges::transform(id, id.begin(), [](unsigned char c) { return std::tolower(c); });
            if (id.find_first_not_of('0') != std::string::npos && !seen.insert(id).second) {
                return wrong_config(where, fmt::format("two namespaces have the identifier {}", id));
            }
        }
    }
    return {};
}

/// What Identify may show: ASCII without control characters (NVMe 1.4, section 1.5).
bool is_ascii_text(const std::string& text) noexcept {
    return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
}

Result<SubsystemEntry> read_subsystem(const ordered_json& json, std::size_t index) {
    const auto where = fmt::format("subsystems[{}]", index);
    ObjectReader reader(json, where);
    SubsystemEntry entry;
    entry.nqn = reader.text("nqn", true, longest_nqn_bytes);
    entry.serial = reader.text("serial", false, 20);
    entry.model = reader.text("model", false, 40);
    entry.allow_any_host = reader.flag("allow_any_host", true);
    const auto& hosts = reader.list("allowed_hosts");
    const auto& namespaces = reader.list("namespaces");
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (!is_ascii_text(entry.serial)) return wrong_config(where, "\"serial\" must be printable ASCII characters");
    if (!is_ascii_text(entry.model)) return wrong_config(where, "\"model\" must be printable ASCII characters");
    for (const auto& host : hosts) {
        if (!host.is_string() || host.get_ref<const std::string&>().size() > longest_nqn_bytes) {
            return wrong_config(where,
                                fmt::format("\"allowed_hosts\" must be NQNs of at most {} bytes", longest_nqn_bytes));
        }
        entry.allowed_hosts.push_back(host.get<std::string>());
    }
    std::sort(entry.allowed_hosts.begin(), entry.allowed_hosts.end());
    for (std::size_t i = 0; i < namespaces.size(); ++i) {
        auto one = read_namespace(namespaces[i], fmt::format("{}.namespaces[{}]", where, i));
        if (!one) return std::unexpected(one.error());
        entry.namespaces.push_back(std::move(*one));
    }
    std::sort(entry.namespaces.begin(), entry.namespaces.end(),
              [](const auto& a, const auto& b) { return a.nsid < b.nsid; });
    const auto twice = std::adjacent_find(entry.namespaces.begin(), entry.namespaces.end(),
                                          [](const auto& a, const auto& b) { return a.nsid == b.nsid; });
    if (twice != entry.namespaces.end()) {
        return wrong_config(where, fmt::format("namespace {} is given twice", twice->nsid));
    }
    if (auto ok = check_distinct(entry.namespaces, where); !ok) return std::unexpected(ok.error());
    return entry;
}

}  // namespace

Result<TargetConfig> TargetConfig::parse(std::string_view text) {
    if (text.size() > max_text_bytes) {
        return wrong_config("text", fmt::format("longer than {} bytes", max_text_bytes));
    }
    const auto json = parse_json(text);
    if (json.is_discarded()) return wrong_config("text", "is not JSON");
    ObjectReader reader(json, "top");
    reader.number("version", version, version, version);
    const auto& subsystems = reader.list("subsystems", true);  // {} would take everything away
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    TargetConfig config;
    for (std::size_t i = 0; i < subsystems.size(); ++i) {
        auto entry = read_subsystem(subsystems[i], i);
        if (!entry) return std::unexpected(entry.error());
        config.subsystems.push_back(std::move(*entry));
    }
    std::sort(config.subsystems.begin(), config.subsystems.end(),
              [](const auto& a, const auto& b) { return a.nqn < b.nqn; });
    const auto twice = std::adjacent_find(config.subsystems.begin(), config.subsystems.end(),
                                          [](const auto& a, const auto& b) { return a.nqn == b.nqn; });
    if (twice != config.subsystems.end()) {
        return wrong_config("subsystems", fmt::format("{} is given twice", twice->nqn));
    }
    return config;
}

std::string TargetConfig::to_json() const {
    auto list = ordered_json::array();
    for (const auto& subsystem : subsystems) {
        ordered_json entry{{"nqn", subsystem.nqn},
                           {"serial", subsystem.serial},
                           {"model", subsystem.model},
                           {"allow_any_host", subsystem.allow_any_host},
                           {"allowed_hosts", subsystem.allowed_hosts},
                           {"namespaces", ordered_json::array()}};
        for (const auto& ns : subsystem.namespaces) {
            entry["namespaces"].push_back({{"nsid", ns.nsid}, {"uri", ns.uri}, {"uuid", ns.uuid}, {"nguid", ns.nguid}});
        }
        list.push_back(std::move(entry));
    }
    const ordered_json json{{"version", version}, {"subsystems", std::move(list)}};
    return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace mqblk::registry
