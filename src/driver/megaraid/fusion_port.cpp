// SPDX-License-Identifier: Apache-2.0
//
// Requests of the Fusion generation: the hot path. Its control path is in fusion_port_control.cpp.
#include "driver/megaraid/fusion_port.h"

#include "driver/megaraid/command_data.h"
#include "wire/scsi_cdb.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>

namespace mqblk::driver::megaraid {

using block::Request;
using namespace wire::megaraid;

namespace {

/// What is written for every command: all but the scatter-gather list.
constexpr std::size_t fixed_frame_bytes = offsetof(ScsiIoRequest, sgl);

Access access_of(Op op) noexcept {
    return op == Op::read ? Access::read : op == Op::write ? Access::write : Access::other;
}

}  // namespace

void FusionPort::post(std::uint16_t smid, RequestType type, std::uint8_t vector, std::uint16_t dev_handle) noexcept {
    const RequestDescriptor descriptor{
        .flags = request_flags(type), .msix_index = vector, .smid = smid, .lmid = {}, .dev_handle = dev_handle};
    bar_.write64(reg::inbound_low_queue_port, std::bit_cast<le64>(descriptor));
}

void FusionPort::send(const IoCommand& command) noexcept {
    const Request& request = command.request;
    const Unit& unit = command.unit;
    CommandMemory& memory = *memory_;
    const std::uint16_t smid = command.smid;
    const std::uint64_t block = request.sector >> unit.block_shift;
    const std::uint64_t blocks = request.sectors >> unit.block_shift;
    const Path path = choose_path(unit.route, access_of(request.op), block, blocks, generation_, command.direct);

    ScsiIoRequest& frame = memory.frame(smid);
    std::memset(static_cast<void*>(&frame), 0, fixed_frame_bytes);
    frame.dev_handle = path.dev_handle;
    frame.function = static_cast<std::uint8_t>(path.function);
    frame.sense_low = static_cast<std::uint32_t>(memory.sense_address(smid));
    frame.sgl_flags = sgl_flags_64bit;
    frame.sense_bytes = sense_buffer_bytes;
    frame.sgl_offset[0] = sgl_offset_words;
    const wire::scsi::Cdb cdb = build_cdb(request, path.moved ? path.block : block, static_cast<std::uint32_t>(blocks));
    std::memcpy(frame.cdb, cdb.data(), cdb.size());
    frame.io_flags =
        static_cast<std::uint16_t>(wire::scsi::cdb_bytes(cdb[0]) | (path.fast ? unsigned{io_fast_path} : 0u));
    frame.context = path.context;
    frame.context.status = status_before(is_fast(frame));
    if (carries_data(request.op)) [[likely]] {
        frame.chain_offset =
            write_list(request, command.gathered, memory, command.bounce, smid, generation_, path.fast);
        frame.data_bytes = static_cast<std::uint32_t>(request.data_bytes());
        frame.control = request.op == Op::read ? std::uint32_t{control_read} : std::uint32_t{control_write};
        frame.context.sges = static_cast<std::uint8_t>(command.gathered.count);
        frame.context.sges_high = static_cast<std::uint8_t>(command.gathered.count >> 8);
    } else if (const Parameters extra = write_parameters(request, unit, memory, smid); extra.bytes != 0) {
        SgWriter(memory, smid, 1, generation_).add(extra.address, extra.bytes);
        frame.data_bytes = extra.bytes;
        frame.control = control_write;
        frame.context.sges = 1;
    }
    if (path.fast && unit.kind() == Kind::volume) std::memcpy(frame.lun, unit.route.raid.lun, sizeof frame.lun);
    post(smid, path.type, command.vector, path.dev_handle);
}

/// Both at once: the firmware that answers twice may write them again at any time.
FusionPort::Statuses FusionPort::read_statuses(ScsiIoRequest& frame) noexcept {
    auto& place = *reinterpret_cast<std::uint16_t*>(reinterpret_cast<std::byte*>(&frame) + context_answer_offset);
    const auto both = std::bit_cast<Statuses>(std::atomic_ref<std::uint16_t>(place).load(std::memory_order_acquire));
    std::atomic<Writes>& writes = writes_[is_fast(frame)];
    if (both.mfi == static_cast<std::uint8_t>(MfiStatus::pending)) [[unlikely]] {
        if (writes.load(std::memory_order_relaxed) == Writes::yes) return both;
        writes.store(Writes::no, std::memory_order_relaxed);
        return {.scsi = both.scsi, .mfi = static_cast<std::uint8_t>(MfiStatus::ok)};
    }
    if (both.mfi == 0 && writes.load(std::memory_order_relaxed) == Writes::unknown) [[unlikely]]
        writes.store(Writes::yes, std::memory_order_relaxed);
    return both;
}

Answered FusionPort::read(const Request& request, std::uint16_t smid) noexcept {
    ScsiIoRequest& frame = memory_->frame(smid);
    const Statuses statuses = read_statuses(frame);
    const std::uint32_t moved = frame.data_bytes;
    return {.status = statuses.mfi,
            .scsi_status = statuses.scsi,
            .all = !carries_data(request.op) || moved >= request.data_bytes(),
            .ended = statuses.mfi != static_cast<std::uint8_t>(MfiStatus::pending)};
}

}  // namespace mqblk::driver::megaraid
