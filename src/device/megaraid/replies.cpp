// SPDX-License-Identifier: Apache-2.0
//
// From the disk to the reply queue: data that was copied goes to the host, the answer goes into the request frame,
// sense data where the request said, and last the reply descriptor; at once, or when its time has come. What a reset
// dropped ends without a word.
#include "device/megaraid/controller.h"
#include "wire/megaraid_mpi.h"

#include <algorithm>
#include <array>
#include <bit>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;
using wire::scsi::Status;

void Controller::finish(Slot& slot) noexcept {
    if (slot.dropped) [[unlikely]]
        return release(slot);
    scsi::Command& command = slot.command;
    if (slot.failure == 0 && !slot.data.deliver(host_->memory(), command)) [[unlikely]]
        slot.failure = static_cast<std::uint8_t>(MfiStatus::invalid_parameter);
    if (slot.aborted) [[unlikely]]
        return tell(slot);
    if (slot.lost) [[unlikely]] {
        slot.data.let_go();
        slot.state = SlotState::lost;
        return;
    }
    if (slot.due != Time{} && slot.due > host_->reactor().now()) [[unlikely]]
        return delay(slot);
    tell(slot);
}

void Controller::delay(Slot& slot) noexcept {
    slot.data.let_go();
    slot.state = SlotState::delayed;
    delayed_.push(slot);
    delay_timer_.arm(host_->reactor(), delayed_.first().due);
}

void Controller::tell(Slot& slot) noexcept {
    const pci::HostMemory& memory = host_->memory();
    const scsi::Command& command = slot.command;
    auto status = static_cast<MfiStatus>(slot.failure);
    auto scsi_status = static_cast<std::uint8_t>(command.status);
    if (slot.aborted) [[unlikely]] {
        status = MfiStatus::scsi_io_failed;
        scsi_status = static_cast<std::uint8_t>(Status::task_aborted);
    } else if (slot.failure == 0 && command.status != Status::good) [[unlikely]] {
        status = MfiStatus::scsi_done_with_error;
        if (command.status == Status::check_condition) tell_sense(slot);
    }
    bool told = true;
    if (command.transferred != slot.asked_bytes) [[unlikely]]
        told = memory.store(slot.frame + offsetof(ScsiIoRequest, data_bytes), le32(command.transferred));
    const std::array<std::uint8_t, 2> answer{scsi_status, static_cast<std::uint8_t>(status)};
    told &= memory.publish(slot.frame + context_answer_offset, std::bit_cast<std::uint16_t>(answer));
    if (!told) [[unlikely]] {
        return breach(slot, "MegaRAID model: a request frame is not mapped any more");
    }
    post_reply(slot);
}

void Controller::tell_sense(const Slot& slot) noexcept {
    std::array<std::uint8_t, wire::scsi::descriptor_sense_bytes> sense;
    const std::size_t bytes =
        std::min<std::size_t>(slot.target->nexus->build_sense(slot.command, sense), slot.sense_bytes);
    // A host that gives no memory for it gets none.
    (void)host_->memory().write(slot.sense, std::as_bytes(std::span(sense)).first(bytes));
}

void Controller::post_reply(Slot& slot) noexcept {
    const std::uint16_t smid = slot.smid;
    const std::uint8_t vector = slot.vector;
    const bool twice = slot.twice;
    const Duration again = slot.again;
    release(slot);
    post(vector, smid);
    if (twice) [[unlikely]]
        tell_again(vector, smid, again);
}

void Controller::post(std::uint8_t vector, std::uint16_t smid) noexcept {
    switch (replies_.post(host_->memory(), vector, smid)) {
        case ReplyQueues::Posted::yes:
            ++counters_.replies;
            interrupts_.note(vector < replies_.count() ? vector : 0);
            return;
        case ReplyQueues::Posted::full:
            ++counters_.dropped;
            return breach("MegaRAID model: a reply queue is full");
        case ReplyQueues::Posted::unmapped:
            ++counters_.dropped;
            return breach("MegaRAID model: a reply queue lies where the host has no memory");
    }
}

void Controller::tell_again(std::uint8_t vector, std::uint16_t smid, Duration later) noexcept {
    if (later == Duration{} && state() == State::operational) return post(vector, smid);
    if (echoes_.size() >= max_echoes) return;
    echoes_.push_back({.due = host_->reactor().now() + later, .vector = vector, .smid = smid});
    echo_timer_.arm(host_->reactor(), std::ranges::min(echoes_, {}, &Echo::due).due);
}

unsigned Controller::tell_echoes() noexcept {
    const Time now = host_->reactor().now();
    const auto due = std::ranges::partition(echoes_, [now](const Echo& each) { return each.due > now; });
    const std::vector<Echo> told(due.begin(), due.end());
    echoes_.erase(due.begin(), due.end());
    for (const Echo& each : told)
        if (state() == State::operational) post(each.vector, each.smid);
    if (!echoes_.empty()) echo_timer_.arm(host_->reactor(), std::ranges::min(echoes_, {}, &Echo::due).due);
    return static_cast<unsigned>(told.size());
}

void Controller::release(Slot& slot) noexcept {
    slot.data.let_go();
    slot.management.used = false;
    const Segment copy = slot.data.take_copy();
    slots_.give_back(slot);
    if (tasks_waiting_ > 0) look_at_tasks_ = true;
    if (copy.bytes > 0) copy_pool_->put(copy.data, copy.bytes);  // another may go on from within
}

unsigned Controller::tell_delayed() noexcept {
    const Time now = host_->reactor().now();
    unsigned told = 0;
    while (!delayed_.empty() && delayed_.first().due <= now) {
        Slot& slot = delayed_.pop();
        if (slot.management.used) {
            execute_management(slot);
        } else {
            tell(slot);
        }
        ++told;
    }
    if (!delayed_.empty()) delay_timer_.arm(host_->reactor(), delayed_.first().due);
    return told;
}

}  // namespace mqblk::device::megaraid
