// SPDX-License-Identifier: Apache-2.0
#include "driver/skd/states.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace mqblk::driver::skd {

using wire::skd::DriveState;
using enum DriverState;

namespace {

constexpr Duration no_bound = Duration::max();

struct StateRow {
    const char* name;
    Admission admission;
};
// In the order of DriverState.
constexpr std::array<StateRow, driver_state_count> state_rows{{
    {"idle", Admission::fail},
    {"starting", Admission::hold},
    {"wait_boot", Admission::hold},
    {"online", Admission::take},
    {"busy", Admission::hold},
    {"busy_imminent", Admission::hold},
    {"busy_erase", Admission::hold},
    {"busy_sanitize", Admission::fail},
    {"restarting", Admission::hold},
    {"syncing", Admission::fail},
    {"stopping", Admission::fail},
    {"fault", Admission::fail},
    {"disappeared", Admission::fail},
    {"protocol_mismatch", Admission::fail},
}};

struct DriveRow {
    DriveState state;
    const char* name;
};
constexpr DriveRow drive_rows[] = {
    {DriveState::offline, "offline"},
    {DriveState::init, "init"},
    {DriveState::ready, "ready"},
    {DriveState::online, "online"},
    {DriveState::busy, "busy"},
    {DriveState::fault, "fault"},
    {DriveState::degraded, "degraded"},
    {DriveState::pcie_link_down, "pcie_link_down"},
    {DriveState::soft_reset, "soft_reset"},
    {DriveState::init_fault, "init_fault"},
    {DriveState::busy_sanitize, "busy_sanitize"},
    {DriveState::busy_erase, "busy_erase"},
    {DriveState::fw_booting, "fw_booting"},
    {DriveState::need_fw_download, "need_fw_download"},
    {DriveState::missing, "missing"},
};

/// What the card's state leads to when it is first looked at.
struct StartRow {
    DriveState drive;
    DriverState next;
    Duration bound;
    Actions actions;
};
constexpr StartRow start_rows[] = {
    {DriveState::init, starting, States::start_bound, reset_card},
    {DriveState::online, starting, States::start_bound, reset_card},
    {DriveState::fw_booting, wait_boot, States::boot_bound, 0},
    {DriveState::busy, busy, States::busy_at_start_bound, 0},
    {DriveState::busy_sanitize, busy_sanitize, States::busy_at_start_bound, 0},
    {DriveState::busy_erase, busy_erase, States::busy_at_start_bound, 0},
    {DriveState::fault, fault, no_bound, cut_off},
    {DriveState::missing, disappeared, no_bound, cut_off},
};

/// What a change of the card's state leads to. The first row that fits counts.
struct ChangeRow {
    DriveState drive;
    std::optional<DriverState> from;  ///< none: any
    std::optional<DriverState> next;  ///< none: stays, with the bound that it has
    Duration bound;
    Actions actions;
};
constexpr std::nullopt_t from_any = std::nullopt;
constexpr std::nullopt_t stay = std::nullopt;
constexpr ChangeRow change_rows[] = {
    {DriveState::init, protocol_mismatch, stay, no_bound, close_gates},
    {DriveState::init, wait_boot, starting, States::start_bound, reset_card},
    {DriveState::init, starting, stay, no_bound, recover | send_init},
    {DriveState::init, restarting, stay, no_bound, recover | send_init},
    // It restarted by itself: it is not armed and takes nothing before the handshake.
    {DriveState::init, from_any, restarting, States::restart_bound, recover | send_init},
    {DriveState::online, protocol_mismatch, stay, no_bound, 0},
    {DriveState::online, from_any, stay, no_bound, send_commands},
    {DriveState::busy, from_any, busy, States::busy_bound, 0},
    {DriveState::busy_sanitize, from_any, busy_sanitize, States::sanitize_bound, 0},
    {DriveState::busy_erase, from_any, busy_erase, States::busy_bound, 0},
    {DriveState::offline, from_any, idle, no_bound, 0},
    {DriveState::soft_reset, starting, stay, no_bound, 0},
    {DriveState::soft_reset, restarting, stay, no_bound, 0},
    {DriveState::soft_reset, protocol_mismatch, stay, no_bound, 0},
    {DriveState::soft_reset, from_any, restarting, States::restart_bound, 0},
    {DriveState::fw_booting, from_any, wait_boot, States::boot_bound, 0},
    {DriveState::fault, from_any, fault, no_bound, cut_off},
    {DriveState::missing, from_any, disappeared, no_bound, cut_off},
};

/// What becomes of a state whose time is up.
enum class Expiry : std::uint8_t { to_fault, restart, fail_all };
struct ExpiryRow {
    DriverState state;
    Expiry expiry;
};
constexpr ExpiryRow expiry_rows[] = {
    {starting, Expiry::to_fault},      {wait_boot, Expiry::to_fault}, {restarting, Expiry::to_fault},
    {busy, Expiry::restart},           {busy_erase, Expiry::restart}, {busy_imminent, Expiry::restart},
    {busy_sanitize, Expiry::fail_all},
};

/// Coming online ends these.
constexpr DriverState before_online[] = {idle,       starting,      busy,       busy_imminent,
                                         busy_erase, busy_sanitize, restarting, fault};

/// Bounds of these are for as long as the card says that it is busy.
constexpr DriverState busy_states[] = {busy, busy_imminent, busy_erase, busy_sanitize};

/// Nothing leads out of these but what is asked for.
constexpr DriverState final_states[] = {syncing, stopping, disappeared, protocol_mismatch};

bool contains(std::span<const DriverState> states, DriverState state) noexcept {
    return std::ranges::find(states, state) != states.end();
}

}  // namespace

const char* to_string(DriverState state) noexcept {
    return state_rows[static_cast<std::size_t>(state)].name;
}

const char* to_string(DriveState state) noexcept {
    const auto* const row = std::ranges::find(drive_rows, state, &DriveRow::state);
    return row == std::end(drive_rows) ? "unknown" : row->name;
}

Admission admission_of(DriverState state) noexcept {
    return state_rows[static_cast<std::size_t>(state)].admission;
}

void States::wait_in(DriverState next, Time now, Duration bound) noexcept {
    if (bound == no_bound) return settle(next);
    if (limit_ == never) limit_ = now + longest_wait;
    state_ = next;
    due_ = std::min(now + bound, limit_);
}

Actions States::apply(Actions actions, Time now) noexcept {
    if ((actions & (reset_card | recover | cut_off)) != 0) commands_due_ = never;
    if ((actions & cut_off) != 0) abandoned_ = true;
    if ((actions & recover) != 0) abandoned_ = false;
    if ((actions & send_commands) != 0) {
        if (abandoned_) return restart(now);
        // A card that says again and again that it is online does not get more time by that.
        const Time bound = std::min(now, limit_) + commands_bound;
        commands_due_ = std::min(commands_due_, bound);
        if (contains(busy_states, state_)) due_ = never;  // it is busy no more: its commands have a bound of their own
    }
    return actions;
}

Actions States::begin(DriveState drive, Time now) noexcept {
    const auto* const row = std::ranges::find(start_rows, drive, &StartRow::drive);
    if (row == std::end(start_rows)) {
        wait_in(starting, now, start_bound);  // it will change; it has until then
        return 0;
    }
    wait_in(row->next, now, row->bound);
    return apply(row->actions, now);
}

Actions States::drive_changed(DriveState drive, Time now) noexcept {
    const bool ending = state_ == syncing || state_ == stopping;
    if (state_ == disappeared || (ending && drive != DriveState::missing)) return 0;
    const auto* const row = std::ranges::find_if(change_rows, [&](const ChangeRow& each) {
        return each.drive == drive && (!each.from || *each.from == state_);
    });
    if (row == std::end(change_rows)) return 0;
    if (row->next) {
        wait_in(*row->next, now, row->bound);
        commands_due_ = never;  // they wait with the card, or are lost with what it was doing
    }
    return apply(row->actions, now);
}

Actions States::tick(Time now) noexcept {
    if (now >= commands_due_) return restart(now);
    if (now < due_) return 0;
    due_ = never;
    const auto* const row = std::ranges::find(expiry_rows, state_, &ExpiryRow::state);
    if (row == std::end(expiry_rows)) return 0;
    switch (row->expiry) {
        case Expiry::restart:
            return restart(now);
        case Expiry::fail_all:
            limit_ = never;
            return apply(cut_off, now);
        case Expiry::to_fault:
            break;
    }
    settle(fault);
    return apply(cut_off, now);
}

Actions States::restart(Time now) noexcept {
    if (contains(final_states, state_)) return 0;
    if (++restarts_ > max_restarts) {
        settle(fault);
        return apply(cut_off, now);
    }
    if (limit_ != never) limit_ = std::max(limit_, now + restart_bound);  // these are counted
    wait_in(restarting, now, restart_bound);
    return apply(reset_card, now);
}

Actions States::mismatched() noexcept {
    settle(protocol_mismatch);
    commands_due_ = never;
    return reset_card | cut_off;
}

void States::imminent(Time now) noexcept {
    if (state_ == online) wait_in(busy_imminent, now, busy_bound);
}

void States::commands_done(DriveState drive, Time now) noexcept {
    commands_due_ = never;
    if (state_ == online || contains(final_states, state_)) return;
    if (drive != DriveState::online) {
        wait_in(busy, now, busy_bound);
        return;
    }
    if (!contains(before_online, state_)) return;
    restarts_ = 0;
    settle(online);
}

void States::stop(bool sync) noexcept {
    commands_due_ = never;
    settle(sync ? syncing : stopping);
}

}  // namespace mqblk::driver::skd
