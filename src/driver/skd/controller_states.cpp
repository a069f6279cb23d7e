// SPDX-License-Identifier: Apache-2.0
//
// What happens to a card while it is in use: its interrupts and the tick lead to the state machine, whose actions are
// carried out here.
#include "base/log.h"
#include "driver/skd/controller.h"
#include "driver/skd/io_queue.h"

#include <fmt/format.h>

namespace mqblk::driver::skd {

using namespace wire::skd;

namespace {
constexpr Duration tick_again = std::chrono::seconds(1);
constexpr Duration quiet_again = std::chrono::milliseconds(1);

/// For people: what a state means for requests. `used`: the card was online before.
const char* stall_text(DriverState state, bool used) noexcept {
    static_assert(States::busy_bound == std::chrono::minutes(20));
    static_assert(States::restart_bound == std::chrono::minutes(4));
    static_assert(States::boot_bound == std::chrono::seconds(90));
    switch (state) {
        case DriverState::busy_sanitize:
            return "is being sanitized; requests fail until that is over";
        case DriverState::restarting:
            return "restarts; requests wait, at most 4 minutes before they fail";
        default:
            return used ? "is busy; requests wait, at most 20 minutes before it is reset"
                        : "is busy; waiting for it, at most 90 seconds";
    }
}

}  // namespace

void Controller::act(Actions actions) {
    states_changed();
    if ((actions & Action::reset_card) != 0) reset_card();
    if ((actions & Action::recover) != 0) {
        quiet_.cancel();
        commands_.forget();
        pause_.cancel();
        if (queue_ != nullptr) queue_->recover();
    }
    if ((actions & Action::cut_off) != 0) cut_off();
    if ((actions & Action::send_init) != 0) {
        function_->set_bus_master(true);
        interrupts_.open_gates();  // closed, if it was without power
        send_message(MessageType::fitfw_init);
    }
    if ((actions & Action::send_commands) != 0) send_commands();
    if ((actions & Action::close_gates) != 0) interrupts_.close_gates();
}

/// Requests wait while the card is busy or restarts: people are told when that begins and ends.
void Controller::tell_stall() {
    const DriverState state = states_.state();
    const bool busy = state == DriverState::busy || state == DriverState::busy_imminent ||
                      state == DriverState::busy_erase || state == DriverState::busy_sanitize;
    if ((busy || state == DriverState::restarting) && !stalled_) {
        stalled_ = true;
        log_limited("skd: stalled", fmt::format("{}: the card {} ({})", function_->name(),
                                                stall_text(state, online_since_ != Time{}), to_string(state)));
    } else if (state == DriverState::online && stalled_) {
        stalled_ = false;
        log_limited("skd: back", fmt::format("{}: the card is back online", function_->name()));
    } else if (admission_of(state) == Admission::fail && !busy) {
        stalled_ = false;  // others say so
    }
}

void Controller::states_changed() {
    tell_stall();
    const Admission now = states_.admission();
    if (now == admission_) return;
    admission_ = now;
    if (now == Admission::take) online_since_ = reactor_.now();
    if (queue_ != nullptr && now != Admission::hold) queue_->go_on();
}

void Controller::look_at_drive() {
    drive_ = function_->lost() ? DriveState::missing : state_of(bar_.read32(reg::status));
}

void Controller::state_changed() {
    look_at_drive();
    act(states_.drive_changed(drive_, reactor_.now()));
}

void Controller::message_came() {
    answered(bar_.read32(reg::msg_from_device));
}

void Controller::tick() {
    const Time now = reactor_.now();
    tick_.arm(reactor_, now + tick_again);
    const DriveState before = drive_;
    look_at_drive();
    if (drive_ != before) act(states_.drive_changed(drive_, now));
    act(states_.tick(now));
    drain();  // should an interrupt have been lost
}

void Controller::reset_card() {
    ++counters_.restarts;
    last_message_ = MessageType::none;
    commands_.forget();
    pause_.cancel();
    bar_.write32(reg::int_status_host, cause_acknowledge);
    bar_.write32(reg::control, bar_.read32(reg::control) | control_soft_reset);
    drive_ = DriveState::soft_reset;
}

void Controller::cut_off() {
    given_up_ = true;
    last_message_ = MessageType::none;
    commands_.forget();
    pause_.cancel();
    function_->set_bus_master(false);
    fail_when_quiet();
}

/// No request ends while its memory may be in use.
void Controller::fail_when_quiet() {
    if (!function_->quiet()) {
        quiet_.arm(reactor_, reactor_.now() + quiet_again);
        return;
    }
    if (queue_ != nullptr) queue_->end_all(failure());
}

Status Controller::failure() const noexcept {
    return states_.state() == DriverState::disappeared ? Status::removed : Status::io_error;
}

void Controller::give_up_on_card(const char* why) {
    log_limited("skd: reset", fmt::format("{}: reset: {}", function_->name(), why));
    stalled_ = true;  // and that was said
    act(states_.restart(reactor_.now()));
}

void Controller::busy_imminent() {
    states_.imminent(reactor_.now());
    states_changed();
}

void Controller::send_commands() {
    if (commands_.pending()) return;
    commands_.begin();
    send_internal();
}

void Controller::send_internal() {
    if (!commands_.pending()) return;
    interrupts_.listen();
    ring(commands_.message());
}

void Controller::internal_completed(const Completion& completion, const ErrorEntry& error) {
    switch (commands_.completed(completion, error)) {
        case InternalCommands::Next::send:
            return send_internal();
        case InternalCommands::Next::pause:
            return pause_.arm(reactor_, reactor_.now() + InternalCommands::retry_pause);
        case InternalCommands::Next::reset:
            return give_up_on_card("it does not read back what was written to its buffer");
        case InternalCommands::Next::ready:
            look_at_drive();
            states_.commands_done(drive_, reactor_.now());
            return states_changed();
        case InternalCommands::Next::synced:
            synced_ = true;
            return;
    }
}

unsigned Controller::drain() noexcept {
    return completions_.drain([this](const Completion& completion, const ErrorEntry& error) noexcept {
        if (is_read_write(completion.id) && queue_ != nullptr) [[likely]] {
            if (queue_->completed(completion, error)) [[likely]]
                return;
        } else if (commands_.owns(completion.id)) {
            return internal_completed(completion, error);
        }
        ++counters_.mismatches;
        log_limited("skd: completion mismatch", "skd: a completion belongs to no command: late, twice or wrong");
    });
}

bool Controller::listen() {
    interrupts_.listen();
    return !completions_.pending();
}

void Controller::completions_posted() {
    drain();
    // While requests are in flight the ring is polled, and who goes to sleep listens first.
    if (!commands_.pending() && queue_ != nullptr && queue_->polled()) return;
    interrupts_.listen();
    drain();
}

}  // namespace mqblk::driver::skd
