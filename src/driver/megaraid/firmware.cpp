// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/firmware.h"

#include "wire/megaraid_mfi.h"
#include "wire/megaraid_mfi_queue.h"

#include <algorithm>
#include <iterator>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {

struct StateRow {
    State state;
    const char* name;
    BringUp bring_up;
};
constexpr StateRow state_rows[] = {
    {State::undefined, "undefined", {Step::wait, 0}},
    {State::bb_init, "bb_init", {Step::wait, 0}},
    {State::fw_init, "fw_init", {Step::wait, 0}},
    {State::wait_handshake, "wait_handshake", {Step::write, doorbell_clear_handshake | doorbell_hotplug}},
    {State::fw_init_2, "fw_init_2", {Step::wait, 0}},
    {State::device_scan, "device_scan", {Step::wait, 0}},
    {State::boot_message_pending, "boot_message_pending", {Step::write, doorbell_hotplug}},
    {State::flush_cache, "flush_cache", {Step::wait, 0}},
    {State::ready, "ready", {Step::done, 0}},
    {State::operational, "operational", {Step::write, doorbell_reset_flags}},
    {State::fault, "fault", {Step::fail, 0}},
};

/// Room for an MFI frame and its list: they lie one behind the other, and none goes over the end of a page.
constexpr std::uint32_t mfi_room_bytes = 2048;

Limits read_mfi_limits(std::uint32_t scratch_pad) noexcept {
    const std::uint32_t stated = max_commands_of(scratch_pad);
    Limits limits;
    limits.commands = usable_commands(stated);
    limits.msix = (scratch_pad & state_msix_capable) != 0;
    limits.ieee_lists = (scratch_pad & state_mfi_ieee) != 0;
    limits.chain_bytes = mfi_room_bytes;
    const auto room = static_cast<unsigned>((mfi_room_bytes - mfi_scsi_sgl_offset) / sizeof(MfiSgeIeee));
    limits.sges = std::min(mfi_max_sges_of(scratch_pad), room);
    limits.reply_depth = stated;  // the ring's end is where the firmware says, however few commands are used
    return limits;
}

}  // namespace

BringUp bring_up(State state, bool resetting) noexcept {
    if (state == State::fault && resetting) return {Step::wait, 0};
    const auto* const row = std::ranges::find(state_rows, state, &StateRow::state);
    return row == std::end(state_rows) ? BringUp{} : row->bring_up;
}

const char* to_string(State state) noexcept {
    const auto* const row = std::ranges::find(state_rows, state, &StateRow::state);
    return row == std::end(state_rows) ? "unknown" : row->name;
}

Limits read_limits(std::uint32_t scratch_pad, std::uint32_t scratch_pad_2, Generation generation) noexcept {
    if (!is_fusion(generation)) return read_mfi_limits(scratch_pad);
    const Capability capability = decode_capability(scratch_pad_2, generation);
    Limits limits;
    limits.commands = usable_commands(max_commands_of(scratch_pad));
    limits.msix = (scratch_pad & state_msix_capable) != 0;
    limits.reply_queues = limits.msix ? std::min(capability.reply_queues, max_vectors) : 1;
    limits.chain_bytes = capability.chain_frame_bytes;
    limits.sges = max_sges(capability.chain_frame_bytes);
    limits.reply_depth = reply_queue_depth(limits.commands);
    limits.combined_index = generation == Generation::invader && capability.reply_queues > 8;
    return limits;
}

}  // namespace mqblk::driver::megaraid
