// SPDX-License-Identifier: Apache-2.0
//
// Making a served target what a configuration says, or leaving it as it was: every device is opened before anything is
// touched, and when something fails on the way, what was there is put back, with the devices that it had.
#include "registry/target_service.h"

#include "registry/services.h"
#include "registry/uri.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace mqblk::registry {

using device::nvme::NamespaceConfig;

namespace {

/// The subsystem of `config` that is the same: serial and model do not change under a host.
const SubsystemEntry* find_subsystem(const TargetConfig& config, const SubsystemEntry& like) {
    const auto found = std::find_if(config.subsystems.begin(), config.subsystems.end(), [&](const auto& s) {
        return s.nqn == like.nqn && s.serial == like.serial && s.model == like.model;
    });
    return found == config.subsystems.end() ? nullptr : &*found;
}

bool has_namespace(const SubsystemEntry& subsystem, const NamespaceEntry& entry) {
    return std::find(subsystem.namespaces.begin(), subsystem.namespaces.end(), entry) != subsystem.namespaces.end();
}

/// What `config` leaves open stays as it is.
TargetConfig completed(TargetConfig config, const TargetConfig& present) {
    const auto fill = [](std::string& value, const std::string& from) {
        if (value.empty()) value = from;
    };
    for (auto& subsystem : config.subsystems) {
        fill(subsystem.model, device::nvme::SubsystemConfig{}.model);
        for (const auto& before : present.subsystems) {
            if (before.nqn != subsystem.nqn) continue;
            fill(subsystem.serial, before.serial);
            for (auto& entry : subsystem.namespaces) {
                for (const auto& old : before.namespaces) {
                    if (old.nsid != entry.nsid || old.uri != entry.uri) continue;
                    fill(entry.uuid, old.uuid);
                    fill(entry.nguid, old.nguid);
                }
            }
        }
    }
    return config;
}

/// Another entry for the same device: it is handed over, as it cannot be opened twice.
const NamespaceConfig* find_device(const TargetService::Devices& before, const std::set<TargetService::Place>& taken,
                                   const std::string& uri) {
    for (const auto& [place, config] : before)
        if (config.uri == uri && !taken.contains(place)) return &config;
    return nullptr;
}

}  // namespace

TargetService::Devices TargetService::devices_of(const TargetConfig& config) const {
    Devices devices;
    for (const auto& subsystem : config.subsystems) {
        for (const auto& entry : subsystem.namespaces) {
            auto device = target_.device(subsystem.nqn, entry.nsid);
            if (device)
                devices[{subsystem.nqn, entry.nsid}] = {entry.nsid, entry.uri, std::move(*device), entry.uuid,
                                                        entry.nguid};
        }
    }
    return devices;
}

/// The devices that `config` wants and that are not in place.
Result<TargetService::Devices> TargetService::open_missing(const TargetConfig& present, const TargetConfig& config,
                                                           const Devices& before) const {
    const auto created = context_.services().created_count();
    Devices opened;
    std::set<Place> taken;  // of those before: kept, or handed over
    std::vector<std::pair<Place, const NamespaceEntry*>> missing;
    for (const auto& subsystem : config.subsystems) {
        const auto* old = find_subsystem(present, subsystem);
        for (const auto& entry : subsystem.namespaces) {
            const Place place{subsystem.nqn, entry.nsid};
            if (old != nullptr && has_namespace(*old, entry)) {
                taken.insert(place);
            } else {
                missing.emplace_back(place, &entry);
            }
        }
    }
    for (const auto& [place, entry] : missing) {
        const auto uri = Uri::parse(entry->uri);
        const auto where_wrong = fmt::format("subsystem {}, namespace {}", place.first, place.second);
        if (!uri) return std::unexpected(uri.error().in(where_wrong));
        if (const auto* same = find_device(before, taken, uri->to_string())) {
            for (const auto& [where, config_before] : before)
                if (&config_before == same) taken.insert(where);
            opened[place] = {entry->nsid, same->uri, same->device, entry->uuid, entry->nguid};
            continue;
        }
        auto one = open_namespace(*entry);
        if (!one) {
            opened.clear();
            context_.services().remove_created(created);
            return std::unexpected(one.error().in(where_wrong));
        }
        opened[place] = std::move(*one);
    }
    return opened;
}

Result<> TargetService::remove_missing(const TargetConfig& present, const TargetConfig& config) {
    for (const auto& subsystem : present.subsystems) {
        const auto* wanted = find_subsystem(config, subsystem);
        for (const auto& entry : subsystem.namespaces) {
            if (wanted != nullptr && has_namespace(*wanted, entry)) continue;
            if (auto ok = remove(subsystem.nqn, entry.nsid); !ok) return ok;
        }
        if (wanted == nullptr) {
            if (auto ok = target_.remove_subsystem(subsystem.nqn); !ok) return ok;
        }
    }
    return {};
}

Result<> TargetService::apply_hosts(const SubsystemEntry& entry) {
    std::set<std::string> unwanted;
    for (const auto& subsystem : target_.subsystems()) {
        if (subsystem.nqn == entry.nqn) unwanted.insert(subsystem.allowed_hosts.begin(), subsystem.allowed_hosts.end());
    }
    for (const auto& host : entry.allowed_hosts) {
        if (unwanted.erase(host) == 0) {
            if (auto ok = target_.allow_host(entry.nqn, host); !ok) return ok;
        }
    }
    for (const auto& host : unwanted) {
        if (auto ok = target_.disallow_host(entry.nqn, host); !ok) return ok;
    }
    return target_.allow_any_host(entry.nqn, entry.allow_any_host);
}

Result<> TargetService::apply(const TargetConfig& present, const TargetConfig& config, const Devices& devices) {
    if (auto ok = remove_missing(present, config); !ok) return ok;
    for (const auto& subsystem : config.subsystems) {
        if (!target_.has_subsystem(subsystem.nqn)) {
            auto added = target_.add_subsystem(
                {subsystem.nqn, subsystem.serial, subsystem.model, subsystem.allow_any_host, subsystem.allowed_hosts});
            if (!added) return added;
        }
        if (auto ok = apply_hosts(subsystem); !ok) return ok;
        const auto* before = find_subsystem(present, subsystem);
        for (const auto& entry : subsystem.namespaces) {
            if (before != nullptr && has_namespace(*before, entry)) continue;
            const auto device = devices.find({subsystem.nqn, entry.nsid});
            if (device == devices.end())
                return fail(Errc::not_found,
                            fmt::format("{} namespace {}: its device is gone", subsystem.nqn, entry.nsid));
            if (auto ok = add_opened(subsystem.nqn, device->second); !ok) return std::unexpected(ok.error());
        }
    }
    return {};
}

Result<> TargetService::load(const TargetConfig& given) {
    const std::lock_guard lock(mutex_);
    const auto present = save();
    const auto config = completed(given, present);
    const auto before = devices_of(present);
    const auto opened = open_missing(present, config, before);
    if (!opened) return std::unexpected(opened.error());
    auto applied = apply(present, config, *opened);
    if (applied) return applied;
    if (auto back = apply(save(), present, before); !back) {
        return fail(applied.error().code(), fmt::format("{}; and what was there before could not be put back whole: {}",
                                                        applied.error().message(), back.error().message()));
    }
    return applied;
}

}  // namespace mqblk::registry
