// SPDX-License-Identifier: Apache-2.0
//
// What the firmware tells: of itself, its disks and volumes, its maps. What is new is asked about itself, what is gone
// is removed, what has changed its size says so.
#include "base/log.h"
#include "block/device_core.h"
#include "block/queue.h"
#include "driver/megaraid/controller.h"
#include "wire/megaraid_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {

constexpr std::uint32_t pd_list_bytes = sizeof(ListHeader) + max_physical_disks * sizeof(PdAddress);
constexpr std::uint32_t ld_list_bytes = sizeof(LdListHeader) + max_volumes_legacy * sizeof(LdEntry);
constexpr std::uint8_t direct_access_device = 0;
constexpr std::size_t most_looked_at = 16;  ///< for another controller's configuration
constexpr std::uint64_t sge_bytes_counted = 4096;

}  // namespace

Task<Result<Outcome>> Controller::ask(const char* what, std::uint32_t opcode, Mailbox mailbox, std::uint32_t bytes) {
    std::memset(work_.data(), 0, bytes);
    const Outcome outcome =
        co_await internal_.dcmd(opcode, mailbox, {.address = work_.address(), .bytes = bytes}, options_.dcmd_bound);
    if (outcome.ok()) co_return outcome;
    if (outcome.end == Outcome::End::answered)
        co_return fail(Errc::protocol, fmt::format("{}: the firmware refuses to tell {}, with status {:#04x}", name(),
                                                   what, outcome.status));
    if (outcome.end == Outcome::End::lost)
        co_return fail(
            Errc::io,
            fmt::format("{}: the firmware fails when it is to tell {}; try again, or power-cycle it", name(), what));
    co_return fail(Errc::timed_out,
                   fmt::format("{}: the firmware does not tell {} in time; power-cycle it", name(), what));
}

Task<Result<>> Controller::read_controller_info() {
    Mailbox mailbox;
    mailbox.bytes[0] = 1;
    auto told = co_await ask("what it is", dcmd::ctrl_get_info, mailbox, sizeof(ControllerInfo));
    if (!told) co_return std::unexpected(told.error());
    const std::lock_guard lock(mutex_);
    std::memcpy(&info_, work_.data(), sizeof info_);
    extended_ = is_fusion(generation_) && (info_.adapter_operations3 & operation3_max_ext_lds) != 0;
    if (max_bytes_ != 0) co_return Result<>{};  // devices have been told
    std::uint64_t most = std::uint64_t{limits_.sges} * sge_bytes_counted;
    if (info_.max_request_sectors != 0) most = std::min<std::uint64_t>(most, 512ull * info_.max_request_sectors);
    if (info_.max_strips_per_io != 0 && info_.min_strip_shift < 32)
        most = std::min<std::uint64_t>(most, (512ull << info_.min_strip_shift) * info_.max_strips_per_io);
    max_bytes_ = static_cast<std::uint32_t>(std::max(most / sge_bytes_counted, std::uint64_t{1}) * sge_bytes_counted);
    co_return Result<>{};
}

Task<Result<>> Controller::read_maps() {
    if (!is_fusion(generation_)) co_return Result<>{};  // all goes through the firmware
    Mailbox mailbox;
    mailbox.bytes[2] = extended_ ? 1 : 0;
    const std::uint32_t ld_bytes = extended_ ? extended_map_bytes : legacy_map_bytes(max_volumes_legacy);
    const Outcome ld = co_await internal_.dcmd(dcmd::ld_map_get_info, mailbox,
                                               {.address = ld_map_.address(), .bytes = ld_bytes}, options_.dcmd_bound);
    if (ld.end != Outcome::End::answered)
        co_return fail(
            Errc::timed_out,
            fmt::format("{}: the firmware does not tell its map of volumes in time; power-cycle it", name()));
    // Without a map all goes through the firmware.
    ld_map_wanted_ = ld.ok();
    if (ld.ok()) take_ld_map(ld_map_.span().first(ld_bytes));
    pd_map_wanted_ = (info_.adapter_operations3 & operation3_jbod_sequence_numbers) != 0;
    if (pd_map_wanted_) {
        const Outcome pd = co_await internal_.dcmd(
            dcmd::system_pd_map_get_info, {}, {.address = pd_map_.address(), .bytes = pd_map_bytes(max_physical_disks)},
            options_.dcmd_bound);
        if (pd.end != Outcome::End::answered)
            co_return fail(
                Errc::timed_out,
                fmt::format("{}: the firmware does not tell its map of disks in time; power-cycle it", name()));
        pd_map_wanted_ = pd.ok();
        if (pd.ok()) take_pd_map(pd_map_.span().first(pd_map_bytes(max_physical_disks)));
    }
    set_routes();
    co_return Result<>{};
}

void Controller::take_ld_map(std::span<const std::byte> bytes) {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    const auto view = extended_ ? decode_extended_map(copy) : decode_legacy_map(copy);
    if (!view) {
        log_limited("megaraid: map", fmt::format("{}: its map of volumes contradicts itself: all I/O to volumes goes "
                                                 "through the firmware",
                                                 name()));
        copy.clear();
    }
    const std::lock_guard lock(mutex_);
    ld_map_copy_ = std::move(copy);
}

void Controller::take_pd_map(std::span<const std::byte> bytes) {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    if (!decode_pd_map(copy)) copy.clear();
    const std::lock_guard lock(mutex_);
    pd_map_copy_ = std::move(copy);
}

/// Everyone's way, by the maps as they are now.
void Controller::set_routes() {
    const auto ld = extended_ ? decode_extended_map(ld_map_copy_) : decode_legacy_map(ld_map_copy_);
    const auto pd = decode_pd_map(pd_map_copy_).value_or(std::span<const PdSequence>{});
    hold();
    {
        const std::lock_guard lock(mutex_);
        for (const auto& unit : units_) {
            unit->route = unit->kind() == Kind::disk ? route_of_disk(pd, unit->id())
                                                     : route_of_volume(ld.value_or(MapView{}), unit->id());
        }
    }
    release();
}

Task<Result<std::vector<std::uint16_t>>> Controller::list_disks(PdQuery query) {
    Mailbox mailbox;
    mailbox.bytes[0] = static_cast<std::uint8_t>(query);
    auto told = co_await ask("its disks", dcmd::pd_list_query, mailbox, pd_list_bytes);
    // Older firmware has volumes only.
    if (!told && !is_fusion(generation_) && told.error().code() == Errc::protocol)
        co_return std::vector<std::uint16_t>{};
    if (!told) co_return std::unexpected(told.error());
    const auto list = decode_pd_list(work_.span().first(pd_list_bytes));
    if (!list) co_return fail(Errc::protocol, fmt::format("{}: its list of disks is longer than it may be", name()));
    std::vector<std::uint16_t> ids;
    for (const PdAddress& each : *list)
        if (each.scsi_type == direct_access_device && each.device_id < max_physical_disks)
            ids.push_back(each.device_id);
    co_return ids;
}

Task<Result<std::vector<std::uint16_t>>> Controller::list_volumes() {
    if (!is_fusion(generation_)) co_return co_await list_volumes_with_states();
    const unsigned most = extended_ ? max_volumes : max_volumes_legacy;
    Mailbox mailbox;
    mailbox.bytes[0] = static_cast<std::uint8_t>(LdQuery::exposed_to_host);
    mailbox.bytes[2] = extended_ ? 1 : 0;
    const std::uint32_t bytes = target_list_bytes(most);
    auto told = co_await ask("its volumes", dcmd::ld_list_query, mailbox, bytes);
    if (!told) co_return std::unexpected(told.error());
    const auto list = decode_target_list(work_.span().first(bytes), most);
    if (!list) co_return fail(Errc::protocol, fmt::format("{}: its list of volumes is longer than it may be", name()));
    co_return std::vector<std::uint16_t>(list->begin(), list->end());
}

/// What firmware has that does not know the query for those that are exposed.
Task<Result<std::vector<std::uint16_t>>> Controller::list_volumes_with_states() {
    auto told = co_await ask("its volumes", dcmd::ld_get_list, {}, ld_list_bytes);
    if (!told) co_return std::unexpected(told.error());
    const auto list = decode_ld_list(work_.span().first(ld_list_bytes), max_volumes_legacy);
    if (!list) co_return fail(Errc::protocol, fmt::format("{}: its list of volumes is longer than it may be", name()));
    std::vector<std::uint16_t> ids;
    for (const LdEntry& each : *list)
        if (static_cast<LdState>(each.state) != LdState::offline) ids.push_back(each.target_id);
    co_return ids;
}

Task<Result<>> Controller::scan() {
    auto disks = co_await list_disks(PdQuery::exposed_to_host);
    if (!disks) co_return std::unexpected(disks.error());
    auto volumes = co_await list_volumes();
    if (!volumes) co_return std::unexpected(volumes.error());
    const bool foreign = disks->empty() && volumes->empty() && co_await find_foreign();
    {
        const std::lock_guard lock(mutex_);
        foreign_ = foreign;
    }
    co_await take_present(Kind::disk, std::move(*disks));
    co_await take_present(Kind::volume, std::move(*volumes));
    co_return Result<>{};
}

/// Whether a disk that hosts do not get carries another controller's configuration. A firmware that does not tell has
/// none.
Task<bool> Controller::find_foreign() {
    const auto all = co_await list_disks(PdQuery::all);
    if (!all) co_return false;
    for (std::size_t i = 0; i < std::min(all->size(), most_looked_at) && !stopping_ && reset_why_ == nullptr; ++i) {
        Mailbox mailbox;
        mailbox.set_half(0, (*all)[i]);
        const auto told = co_await ask("what a disk is", dcmd::pd_get_info, mailbox, sizeof(PdInfo));
        if (!told) continue;
        PdInfo info;
        std::memcpy(&info, work_.data(), sizeof info);
        if ((info.configuration & pd_foreign) != 0) co_return true;
    }
    co_return false;
}

const char* Controller::why_empty() const {
    const std::lock_guard lock(mutex_);
    return foreign_ ? "its disks carry the configuration of another controller (foreign): import it, or clear it, with "
                      "its management tool"
                    : "it has neither disks of their own nor volumes: make some with its management tool";
}

Unit* Controller::find_unit(Kind kind, unsigned id) const noexcept {
    for (const auto& unit : units_)
        if (unit->kind() == kind && unit->id() == id && !unit->retired) return unit.get();
    return nullptr;
}

Unit& Controller::unit_for(Kind kind, std::uint16_t id) {
    if (Unit* const known = find_unit(kind, id); known != nullptr) return *known;
    auto unit = std::make_unique<Unit>();
    unit->route.id = id;
    unit->route.kind = kind;
    Unit& added = *unit;
    {
        const std::lock_guard lock(mutex_);
        // What comes back is listed where it was.
        const auto at =
            std::ranges::find_if(units_, [&](const auto& each) { return each->kind() == kind && each->id() == id; });
        units_.insert(at, std::move(unit));
    }
    set_routes();
    return added;
}

Task<void> Controller::take_present(Kind kind, std::vector<std::uint16_t> ids) {
    for (const auto& unit : units_)
        if (unit->kind() == kind && unit->present && std::ranges::find(ids, unit->id()) == ids.end())
            remove_unit(*unit);
    std::ranges::sort(ids);  // some firmware tells the newest first
    for (const std::uint16_t id : ids) {
        Unit* unit = &unit_for(kind, id);
        Asked asked = co_await ask_unit(*unit);
        if (asked == Asked::another) {
            remove_unit(*unit);
            unit = &unit_for(kind, id);
            asked = co_await ask_unit(*unit);
        }
        if (asked != Asked::usable) continue;
        {
            const std::lock_guard lock(mutex_);
            unit->present = unit->known = true;
        }
        update_device(*unit);
    }
}

/// Its device, if somebody has one, is removed. One that was ever taken is never anything else.
void Controller::remove_unit(Unit& unit) {
    std::shared_ptr<Device> device;
    hold();
    {
        const std::lock_guard lock(mutex_);
        unit.present = unit.known = false;
        unit.retired = unit.taken;
        device = unit.device.lock();
        unit.device.reset();
    }
    release();
    if (device == nullptr) return;
    device->remove();
    let_go({std::move(device)});
}

/// After a reset, before anything is sent again: what was begun with one disk does not go to another.
Task<void> Controller::check_taken() {
    for (std::size_t i = 0; i < units_.size() && !stopping_ && reset_why_ == nullptr; ++i) {
        Unit& unit = *units_[i];
        if (!unit.present || unit.device.expired()) continue;
        if (co_await ask_identity(unit)) remove_unit(unit);
    }
}

/// If somebody has it open: what it says now.
void Controller::update_device(Unit& unit) {
    std::shared_ptr<Device> device;
    {
        const std::lock_guard lock(mutex_);
        device = unit.device.lock();
    }
    const std::uint64_t sectors = unit.facts.blocks << unit.block_shift;
    if (device == nullptr) return;
    if (device->sectors() != sectors)
        block::update_disk(*device, device->core().disk_limits(), sectors, unit.facts.read_only);
    let_go({std::move(device)});
}

/// Whoever lets go of the last device waits until the control path has ended; so it is not done from within it.
void Controller::let_go(std::vector<std::shared_ptr<Device>> devices) {
    if (!devices.empty()) reactor_.post([devices = std::move(devices)] {});
}

}  // namespace mqblk::driver::megaraid
