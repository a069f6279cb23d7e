// SPDX-License-Identifier: Apache-2.0
//
// MFI frames that come in requests: DCMDs and ABORT. The frame is copied once; the answer is its status byte, after the
// data, and then a reply as for any request. Some are answered only when something happens.
#include "device/megaraid/controller.h"
#include "wire/megaraid_info.h"
#include "wire/megaraid_mfi.h"
#include "wire/megaraid_mpi.h"
#include "wire/scsi_cdb.h"

#include <algorithm>
#include <array>
#include <bit>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

namespace {
constexpr std::size_t max_dcmd_sges = 16;
}

void Controller::take_management(Slot& slot, const ScsiIoRequest& request) noexcept {
    const IeeeSge& chain = request.sgl[0];
    if ((chain.flags & sge_chain) == 0 || !host_->memory().load(chain.address, slot.management.frame)) {
        return breach(slot, "MegaRAID model: a passthrough request names no frame that can be read");
    }
    slot.management.used = true;
    slot.management.address = chain.address;
    if (!faults_.empty() && slot.management.frame.header.command == static_cast<std::uint8_t>(MfiCommand::dcmd))
        [[unlikely]] {
        if (const auto slow = faults_.take(FaultKind::slow_dcmd, counters_.requests, slot.management.frame.opcode)) {
            slot.due = host_->reactor().now() + slow->duration;
            return delay(slot);
        }
    }
    execute_management(slot);
}

void Controller::execute_management(Slot& slot) noexcept {
    switch (static_cast<MfiCommand>(slot.management.frame.header.command)) {
        case MfiCommand::dcmd:
            return execute_dcmd(slot);
        case MfiCommand::abort:
            return execute_abort(slot);
        default:
            return answer(slot, MfiStatus::invalid_cmd);
    }
}

void Controller::execute_dcmd(Slot& slot) noexcept {
    const std::uint32_t opcode = slot.management.frame.opcode;
    if (!faults_.empty()) [[unlikely]] {
        if (const auto refused = faults_.take(FaultKind::refuse_dcmd, counters_.requests, opcode))
            return answer(slot, static_cast<MfiStatus>(refused->status));
    }
    switch (opcode) {
        case dcmd::ctrl_get_info:
            return tell_controller_info(slot);
        case dcmd::pd_list_query:
            return tell_pd_list(slot);
        case dcmd::pd_get_info:
            return tell_pd_info(slot);
        case dcmd::ld_get_list:
            return tell_ld_list(slot);
        case dcmd::ld_list_query:
            return tell_target_list(slot);
        case dcmd::drv_get_target_prop:
            return tell_target_properties(slot);
        case dcmd::ld_map_get_info:
            return tell_map(slot);
        case dcmd::system_pd_map_get_info:
            return tell_pd_map(slot);
        case dcmd::ctrl_event_get_info:
            return answer_struct(slot, events_.info());
        case dcmd::ctrl_event_get:
        case dcmd::ctrl_event_wait:
            return tell_events(slot);
        case dcmd::ctrl_cache_flush:
        case dcmd::ctrl_shutdown:
        case dcmd::hibernate_shutdown:
            return flush_disks(slot);
        case dcmd::ctrl_set_crash_dump_params:
            return answer(slot, MfiStatus::ok);  // there will be no dump
        default:
            return answer(slot, MfiStatus::invalid_dcmd);
    }
}

void Controller::execute_abort(Slot& slot) noexcept {
    const auto frame = std::bit_cast<AbortFrame>(slot.management.frame);
    Slot* found = nullptr;
    slots_.for_each_used([&](Slot& each) {
        if (&each != &slot && each.state == SlotState::pended && each.management.used &&
            each.management.address == frame.abort_frame) {
            found = &each;
        }
    });
    if (found == nullptr) return answer(slot, MfiStatus::abort_not_possible);
    answer(*found, MfiStatus::not_found);  // drivers do not ask again for a map that was not found
    // The first answer may have ended the firmware, and everything with it.
    if (slot.state != SlotState::free) answer(slot, MfiStatus::ok);
}

void Controller::answer(Slot& slot, MfiStatus status) noexcept {
    const std::uint64_t address = slot.management.address + mfi_status_offset;
    if (!host_->memory().publish(address, static_cast<std::uint8_t>(status))) {
        return breach(slot, "MegaRAID model: a management frame is not mapped any more");
    }
    post_reply(slot);
}

void Controller::answer_with(Slot& slot, std::span<const std::byte> data) noexcept {
    answer(slot, put_data(slot, data) ? MfiStatus::ok : MfiStatus::invalid_parameter);
}

bool Controller::put_data(const Slot& slot, std::span<const std::byte> data) noexcept {
    const pci::HostMemory& memory = host_->memory();
    const MfiHeader& header = slot.management.frame.header;
    const std::uint16_t flags = header.flags;
    data = data.first(std::min<std::size_t>(data.size(), header.data_bytes));
    const std::size_t sges = std::min<std::size_t>(header.sges, max_dcmd_sges);
    const std::size_t each = mfi_sge_bytes(flags);
    for (std::size_t i = 0; i < sges && !data.empty(); ++i) {
        std::array<std::byte, sizeof(MfiSgeIeee)> element;
        const std::uint64_t at = slot.management.address + offsetof(DcmdFrame, sgl) + i * each;
        if (!memory.read(at, std::span(element).first(each))) return false;
        const auto range = decode_mfi_sge(std::span(element).first(each), flags, 0);
        const std::size_t count = std::min<std::size_t>(range->bytes, data.size());
        if (!memory.write(range->address, data.first(count))) return false;
        data = data.subspan(count);
    }
    return data.empty();
}

void Controller::pend(Slot& slot) noexcept {
    slot.state = SlotState::pended;
}

// Flushing: each disk's cache, once for all who asked meanwhile.

void Controller::flush_disks(Slot& slot) noexcept {
    pend(slot);
    flush_waiting_.push_back(slot.smid);
    if (flushing_ == 0) start_flush();
}

void Controller::start_flush() noexcept {
    flush_served_.swap(flush_waiting_);
    flush_waiting_.clear();
    flushing_ = 1;  // until all are started
    for (std::size_t i = 0; i < topology_.targets().size(); ++i) {
        Target& target = *topology_.targets()[i];
        if (!target.present) continue;
        scsi::Command& command = flushes_[i]->command;
        command.cdb = wire::scsi::build_synchronize_cache();
        command.data = {};
        if (target.nexus->plan(command).refused) continue;
        ++flushing_;
        ++running_;
        target.nexus->execute(command);
    }
    flushed();
}

void Controller::flushed() noexcept {
    if (--flushing_ > 0) return;
    std::vector<std::uint16_t> served;
    served.swap(flush_served_);
    for (const std::uint16_t smid : served) {
        Slot* const slot = slots_.find(smid);
        if (slot->state == SlotState::pended) answer(*slot, MfiStatus::ok);
    }
    if (!flush_waiting_.empty()) start_flush();
}

}  // namespace mqblk::device::megaraid
