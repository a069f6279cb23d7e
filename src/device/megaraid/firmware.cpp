// SPDX-License-Identifier: Apache-2.0
//
// The firmware's states, and what takes it from one to another: power, the doorbell, the diagnostic reset, IOC INIT,
// and hosts that do what they may not.
#include "base/log.h"
#include "device/megaraid/controller.h"
#include "wire/megaraid_mpi.h"

#include <algorithm>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

void Controller::set_state(State state, std::uint32_t low) noexcept {
    const std::uint32_t word = state == State::fault ? low : low | state_msix_capable | max_commands_;
    scratch_pad_.store(make_state(state, word), std::memory_order_release);
}

void Controller::power_on() noexcept {
    drop_all();
    interrupts_.reset();
    asked_.store(0, std::memory_order_relaxed);
    overrun_.store(false, std::memory_order_relaxed);
    diag_.store(0, std::memory_order_relaxed);
    keys_.store(0, std::memory_order_relaxed);
    port_low_.store(0, std::memory_order_relaxed);
    max_commands_ = options_.max_commands;
    dead_ = false;
    restart(State::fw_init, {});
    advance_firmware();
}

void Controller::restart(State meanwhile, Duration time) noexcept {
    replies_.forget();
    extended_ = false;
    map_told_ = pd_map_told_ = 0;
    busy_.store(true, std::memory_order_release);
    set_state(meanwhile);
    restarting_ = true;
    restart_time_ = host_->reactor().now() + time;
    if (time > Duration{}) restart_timer_.arm(host_->reactor(), restart_time_);
}

unsigned Controller::take_asked() noexcept {
    const std::uint32_t asked = asked_.exchange(0, std::memory_order_seq_cst);
    if (overrun_.exchange(false, std::memory_order_relaxed))
        breach("MegaRAID model: more requests at once than the port takes");
    if ((asked & ask_changes) != 0) look_for_changes();
    if ((asked & ask_stop) != 0) fail_firmware(false);
    if ((asked & ask_ready) != 0) {
        if (state() == State::fault) {
            busy_.store(false, std::memory_order_release);
        } else if (!restarting_) {
            drop_all();
            interrupts_.forget();
            restart(state(), {});
        }
    }
    if ((asked & ask_reset) != 0) {
        ++counters_.resets;
        drop_all();
        interrupts_.reset();
        if (const auto fewer = faults_.take(FaultKind::fewer_commands, counters_.requests))
            max_commands_ = std::min(fewer->commands, options_.max_commands);
        restart(State::fw_init, options_.reset_time);
    }
    return 1;
}

unsigned Controller::advance_firmware() noexcept {
    if (running_ > 0 || host_->reactor().now() < restart_time_) return 0;
    restarting_ = false;
    if (dead_) {
        set_state(State::fault);
    } else {
        set_state(State::ready);
    }
    busy_.store(false, std::memory_order_release);
    keys_.store(0, std::memory_order_relaxed);
    diag_.store(0, std::memory_order_release);
    return 1;
}

void Controller::drop_all() noexcept {
    std::uint64_t nobodys = 0;
    while (requests_.pop(nobodys)) continue;
    delayed_.clear();
    delay_timer_.cancel();
    echoes_.clear();
    echo_timer_.cancel();
    tasks_waiting_ = 0;
    look_at_tasks_ = false;
    flush_waiting_.clear();
    flush_served_.clear();
    // All are marked first: memory that one gives back may be granted to another, which then must not go on.
    slots_.for_each_used([this](Slot& slot) {
        if (!slot.dropped) ++counters_.dropped;
        slot.dropped = true;
    });
    slots_.for_each_used([this](Slot& slot) {
        if (slot.state == SlotState::waiting) copy_pool_->cancel(slot.data.copy);
        if (slot.state != SlotState::running) release(slot);
    });
}

void Controller::fail_firmware(bool permanent) noexcept {
    drop_all();
    dead_ = dead_ || permanent;
    restarting_ = false;
    set_state(State::fault, dead_ ? 0 : std::uint32_t{state_reset_adapter});
}

void Controller::fault(bool permanent) noexcept {
    fail_firmware(permanent);
}

void Controller::breach(const char* what) noexcept {
    log_limited("megaraid: fault", what);
    ++counters_.breaches;
    fail_firmware(false);
}

void Controller::breach(Slot& slot, const char* what) noexcept {
    ++counters_.dropped;
    release(slot);
    breach(what);
}

void Controller::take_init(std::uint64_t address) noexcept {
    const bool ready = state() == State::ready;
    const MfiStatus status = ready ? initialize(address) : MfiStatus::wrong_state;
    if (status == MfiStatus::pending) return;  // there was nothing to answer in
    if (status == MfiStatus::ok) {
        set_state(State::operational);
    } else if (ready) {
        replies_.forget();
    }
    if (!host_->memory().publish(address + mfi_status_offset, static_cast<std::uint8_t>(status)))
        breach("MegaRAID model: the INIT frame cannot be answered");
}

MfiStatus Controller::initialize(std::uint64_t address) noexcept {
    const pci::HostMemory& memory = host_->memory();
    InitFrame frame;
    if (!memory.load(address, frame)) {
        breach("MegaRAID model: a descriptor names an INIT frame where the host has no memory");
        return MfiStatus::pending;
    }
    if (frame.command != static_cast<std::uint8_t>(MfiCommand::init)) return MfiStatus::invalid_cmd;
    IocInit init;
    if (frame.data_bytes < sizeof init || !memory.load(frame.queue_info_new, init)) return MfiStatus::invalid_parameter;
    const unsigned queues = std::max<unsigned>(1, init.host_msix_vectors);
    if (init.function != static_cast<std::uint8_t>(Function::ioc_init) ||
        init.request_frame_words != io_frame_bytes / 4 || init.reply_queue_depth < 2 ||
        queues > options_.reply_queues || init.request_frames == 0 || init.reply_queue == 0) {
        return MfiStatus::invalid_parameter;
    }
    replies_.configure(queues, init.reply_queue_depth);
    for (unsigned i = 0; i < queues; ++i) {
        ReplyArrayEntry entry{.address = init.reply_queue + std::uint64_t{i} * init.reply_queue_depth * 8,
                              .reserved = {}};
        if ((init.msg_flags & ioc_init_reply_array) != 0 && !memory.load(init.reply_queue + i * sizeof entry, entry)) {
            return MfiStatus::invalid_parameter;
        }
        if (entry.address % sizeof(ReplyDescriptor) != 0) return MfiStatus::invalid_parameter;
        replies_.place(i, entry.address);
    }
    frames_ = init.request_frames;
    sense_high_ = std::uint64_t{init.sense_address_high} << 32;
    extended_ = options_.extended_maps && (frame.driver_operations & driver_max_255_lds) != 0;
    return MfiStatus::ok;
}

}  // namespace mqblk::device::megaraid
