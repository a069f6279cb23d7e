// SPDX-License-Identifier: Apache-2.0
//
// The firmware: its states, and the mailbox through which a driver sets the completion ring up. A message is answered
// with its own type; what makes no sense is not answered, and the driver's time-out ends its start-up.
#include "base/log.h"
#include "device/skd/card.h"
#include "device/skd/slot.h"

#include <utility>

namespace mqblk::device::skd {

using namespace wire::skd;

bool Card::firmware_listens() const noexcept {
    switch (state_) {
        case DriveState::init:
        case DriveState::online:
        case DriveState::busy:
        case DriveState::busy_sanitize:
        case DriveState::busy_erase:
        case DriveState::degraded:
            return true;
        default:
            return false;
    }
}

bool Card::takes_commands() const noexcept {
    return (state_ == DriveState::online || state_ == DriveState::degraded) && armed_;
}

void Card::answer(std::uint32_t word) noexcept {
    message_from_device_ = word;
    interrupts_.raise(cause_msg_from_device);
}

void Card::take_message(std::uint32_t word) noexcept {
    const MessageType type = message_type(word);
    if (!firmware_listens() || faults_.loses_answer(type)) return;
    switch (type) {
        case MessageType::fitfw_init:
            return answer(make_message(type, 0, options_.protocol));
        case MessageType::get_cmdq_depth:
            return answer(make_message(type, options_.max_commands));
        case MessageType::set_compq_depth:
            if (message_data(word) == 0) return;
            ring_.set_depth(message_data(word));
            return answer(make_message(type));
        case MessageType::set_compq_addr:
            if (!ring_.set_address(argument_)) return;
            return answer(make_message(type));
        case MessageType::arm_queue:
            if (!ring_.ready()) return;
            arming_ = true;
            return answer(make_message(type));
        case MessageType::cmd_log_host_id:
            return answer(make_message(type));
        case MessageType::cmd_log_time_stamp_lo:
        case MessageType::cmd_log_time_stamp_hi:
            return answer(make_message(type, message_data(word)));  // the card's clock is set, and says so
        default:
            return;
    }
}

void Card::set_state(DriveState state) noexcept {
    if (state_ == state) return;
    state_ = state;
    interrupts_.raise(cause_state_change);
}

void Card::restart_after(Duration time) noexcept {
    restarting_ = true;
    arming_ = armed_ = false;
    ring_.forget();
    timing_.reset();
    passing_state_.reset();
    restart_time_ = host_->reactor().now() + time;
    if (time > Duration{}) {
        alarm_.arm(host_->reactor(), restart_time_);
    } else {
        alarm_.cancel();
    }
}

void Card::power_on() noexcept {
    drop_all();
    interrupts_.reset();
    control_ = 0;
    message_from_device_ = 0;
    argument_ = 0;
    doorbell_low_ = 0;
    out_ = false;
    state_ = DriveState::fw_booting;
    restart_after(options_.boot_time.value_or(timing_.boot()));
    if (restart_time_ <= host_->reactor().now()) advance_firmware();
}

void Card::soft_reset() noexcept {
    drop_all();
    state_ = DriveState::soft_reset;
    restart_after(options_.reset_time.value_or(timing_.soft_reset()));
}

unsigned Card::advance_firmware() noexcept {
    if (arming_) {
        arming_ = false;
        armed_ = true;
        set_state(DriveState::online);
        return 1;
    }
    if (running_ > 0 || host_->reactor().now() < restart_time_) return 0;
    restarting_ = false;
    set_state(DriveState::init);
    return 1;
}

void Card::enter(DriveState state, Duration duration) noexcept {
    if (out_) return;
    restarting_ = false;
    passing_state_.reset();
    alarm_.cancel();
    set_state(state);
    if (!firmware_listens()) drop_all();
    if (state == DriveState::soft_reset) return restart_after(duration);
    if (duration == Duration{}) return;
    passing_state_ = state;
    alarm_.arm(host_->reactor(), host_->reactor().now() + duration);
}

void Card::alarm() noexcept {
    // A restart is poll()'s: it also waits for what runs.
    if (out_) return put_in();
    if (!passing_state_) return;
    passing_state_.reset();
    if (armed_) {
        set_state(DriveState::online);
    } else {
        restart_after({});
    }
}

void Card::pull_out(Duration duration) noexcept {
    if (out_) return;
    drop_all();
    restarting_ = arming_ = armed_ = false;
    out_ = true;
    state_ = DriveState::missing;
    host_->set_gone(true);
    if (duration > Duration{}) {
        alarm_.arm(host_->reactor(), host_->reactor().now() + duration);
    } else {
        alarm_.cancel();
    }
}

void Card::put_in() noexcept {
    if (!out_) return;
    host_->set_gone(false);
    power_on();
}

void Card::drop_all() noexcept {
    fifo_count_ = 0;
    delayed_.clear();
    delay_timer_.cancel();
    striking_.reset();
    posted_ = false;
    // All are marked first: memory that one gives back may be granted to another, which then must not go on.
    slots_.for_each_used([this](Slot& slot) {
        if (!slot.dropped) ++counters_.dropped;
        slot.dropped = true;
    });
    slots_.for_each_used([this](Slot& slot) {
        if (slot.state == SlotState::waiting) copy_pool_->cancel(slot.data.copy);
        if (slot.state == SlotState::waiting || slot.state == SlotState::delayed) release(slot);
    });
}

void Card::fatal(const char* what) noexcept {
    log_limited("skd: fault", what);
    enter(DriveState::fault);
}

}  // namespace mqblk::device::skd
