// SPDX-License-Identifier: Apache-2.0
//
// From a descriptor to what it asks for: the request frame is copied once, whole, and its function says who goes on
// with it. No lock, no allocation.
#include "device/megaraid/controller.h"

#include <bit>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

namespace {
constexpr unsigned requests_in_a_pass = 256;
}

unsigned Controller::take_requests() noexcept {
    unsigned taken = 0;
    std::uint64_t descriptor = 0;
    while (taken < requests_in_a_pass && requests_.pop(descriptor)) {
        take_request(descriptor);
        ++taken;
    }
    return taken;
}

void Controller::take_request(std::uint64_t value) noexcept {
    const auto descriptor = std::bit_cast<RequestDescriptor>(le64(value));
    ++counters_.requests;
    if (descriptor.type() == RequestType::mfa) [[unlikely]]
        return take_init(mfa_address(value));
    if (state() != State::operational || restarting_) [[unlikely]]
        return;  // nobody is there to hear it
    if (!faults_.empty()) [[unlikely]] {
        strike_firmware_faults();
        if (state() != State::operational) return;
    }
    Slot* const slot = slots_.find(descriptor.smid);
    if (slot == nullptr) [[unlikely]]
        return breach("MegaRAID model: a descriptor names a request frame beyond the last");
    if (slot->state != SlotState::free) [[unlikely]]
        return breach("MegaRAID model: a descriptor names a request frame that is in use");
    if (slots_.used() >= max_commands_) [[unlikely]]
        return breach("MegaRAID model: more commands than the firmware takes");
    ScsiIoRequest request;
    const std::uint64_t address = frames_ + std::uint64_t{slot->smid} * io_frame_bytes;
    if (!host_->memory().load(address, request)) [[unlikely]]
        return breach("MegaRAID model: a descriptor names a request frame where the host has no memory");
    slots_.take(*slot);
    ++counters_.taken;
    slot->frame = address;
    slot->vector = descriptor.msix_index;
    dispatch(*slot, request);
}

void Controller::strike_firmware_faults() noexcept {
    if (const auto pull = faults_.take(FaultKind::pull_disk, counters_.requests))
        pull_disk(*pull->disk, pull->duration);
    if (const auto fault = faults_.take(FaultKind::firmware_fault, counters_.requests)) fail_firmware(fault->permanent);
}

void Controller::dispatch(Slot& slot, const ScsiIoRequest& request) noexcept {
    switch (static_cast<Function>(request.function)) {
        case Function::ld_io:
            return take_io(slot, request, false);
        case Function::scsi_io:
            return take_io(slot, request, true);
        case Function::passthrough:
            return take_management(slot, request);
        case Function::task_management:
            return take_task(slot, request);
        default:
            return fail_with(slot, MfiStatus::invalid_cmd);
    }
}

}  // namespace mqblk::device::megaraid
