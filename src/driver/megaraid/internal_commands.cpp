// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/internal_commands.h"

#include "base/log.h"
#include "wire/scsi_cdb.h"

#include <bit>
#include <cstring>
#include <utility>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {
constexpr std::uint8_t control_vector = 0;
}

std::uint16_t InternalCommands::take() noexcept {
    for (std::uint32_t tag = 0; tag < slots_.size(); ++tag) {
        if (slots_[tag].sent) continue;
        slots_[tag].pended.reset();
        return smid_of(tag);
    }
    log_limited("megaraid: tags", "megaraid: the controller keeps all of the driver's own commands");
    return 0;
}

void InternalCommands::post(std::uint16_t smid, RequestType type, std::uint16_t dev_handle) noexcept {
    slots_[tag_of(smid)].sent = true;
    const RequestDescriptor descriptor{
        .flags = request_flags(type), .msix_index = control_vector, .smid = smid, .lmid = {}, .dev_handle = dev_handle};
    bar_.write64(reg::inbound_low_queue_port, std::bit_cast<le64>(descriptor));
}

/// The management frame lies where a list would be chained.
void InternalCommands::write_dcmd(std::uint16_t smid, std::uint32_t opcode, const Mailbox& mailbox,
                                  const Transfer& data) noexcept {
    DcmdFrame frame;
    frame.header.command = static_cast<std::uint8_t>(MfiCommand::dcmd);
    frame.header.status = static_cast<std::uint8_t>(MfiStatus::pending);
    frame.header.context = smid;
    frame.opcode = opcode;
    frame.mailbox = mailbox;
    if (data.bytes != 0) {
        frame.header.sges = 1;
        frame.header.flags = static_cast<std::uint16_t>(mfi_ieee | (data.to_firmware ? mfi_write : mfi_read));
        frame.header.data_bytes = data.bytes;
        const MfiSgeIeee sge{.address = data.address, .bytes = data.bytes, .flags = {}};
        std::memcpy(frame.sgl, &sge, sizeof sge);
    }
    std::memcpy(memory_->chain(smid), &frame, sizeof frame);
    ScsiIoRequest request;
    request.function = static_cast<std::uint8_t>(Function::passthrough);
    request.sgl_offset[0] = sgl_offset_words;
    request.chain_offset = chain_offset_passthrough;
    request.sgl[0] = {.address = memory_->chain_address(smid),
                      .bytes = memory_->chain_bytes(),
                      .flags = sge_chain | sge_address_space};
    memory_->frame(smid) = request;
}

Task<Outcome> InternalCommands::dcmd(std::uint32_t opcode, Mailbox mailbox, Transfer data, Duration bound) {
    const std::uint16_t smid = take();
    if (smid == 0) co_return Outcome{.end = Outcome::End::timed_out};
    write_dcmd(smid, opcode, mailbox, data);
    post(smid, RequestType::scsi_io, 0);
    co_return co_await wait(smid, bound);
}

Task<Outcome> InternalCommands::scsi(const Route& route, bool direct, wire::scsi::Cdb cdb, Transfer data,
                                     Duration bound) {
    const std::uint16_t smid = take();
    if (smid == 0) co_return Outcome{.end = Outcome::End::timed_out};
    const Path path = choose_path(route, Access::other, 0, 0, generation_, direct);
    ScsiIoRequest request;
    request.dev_handle = path.dev_handle;
    request.function = static_cast<std::uint8_t>(path.function);
    request.sense_low = static_cast<std::uint32_t>(memory_->sense_address(smid));
    request.sense_bytes = sense_buffer_bytes;
    request.sgl_flags = sgl_flags_64bit;
    request.sgl_offset[0] = sgl_offset_words;
    request.data_bytes = data.bytes;
    request.io_flags =
        static_cast<std::uint16_t>(wire::scsi::cdb_bytes(cdb[0]) | (path.fast ? unsigned{io_fast_path} : 0u));
    request.control = data.bytes == 0 ? 0u : unsigned{control_read};
    std::memcpy(request.cdb, cdb.data(), cdb.size());
    request.context = path.context;
    if (data.bytes != 0) {
        request.context.sges = 1;
        request.sgl[0] = {.address = data.address, .bytes = data.bytes};
        if (generation_ == Generation::invader) request.sgl[0].flags = sge_end_of_list;
    }
    memory_->frame(smid) = request;
    post(smid, path.type, path.dev_handle);
    co_return co_await wait(smid, bound);
}

Task<Outcome> InternalCommands::task(const Route& route, TaskType type, std::uint16_t task_smid, Duration bound) {
    const std::uint16_t smid = take();
    if (smid == 0) co_return Outcome{.end = Outcome::End::timed_out};
    TaskRequest request;
    const bool disk = route.kind == Kind::disk;
    request.dev_handle = disk ? route.handle : route.id;
    request.task_type = static_cast<std::uint8_t>(type);
    request.task_smid = task_smid;
    request.flags = disk ? task_for_pd : task_for_ld;
    memory_->frame(smid) = std::bit_cast<ScsiIoRequest>(request);
    post(smid, RequestType::high_priority, 0);
    co_return co_await wait(smid, bound);
}

void InternalCommands::pend(Pended what, std::uint32_t opcode, Mailbox mailbox, Transfer data) {
    for (const Slot& slot : slots_)
        if (slot.sent && slot.pended == what) return;
    const std::uint16_t smid = take();
    if (smid == 0) return;
    ended_[static_cast<std::size_t>(what)].reset();
    write_dcmd(smid, opcode, mailbox, data);
    slots_[tag_of(smid)].pended = what;
    post(smid, RequestType::scsi_io, 0);
}

std::optional<std::uint8_t> InternalCommands::take_pended(Pended what) noexcept {
    return std::exchange(ended_[static_cast<std::size_t>(what)], std::nullopt);
}

Task<Outcome> InternalCommands::wait(std::uint16_t smid, Duration bound) {
    Promise<Outcome> promise;
    waiter_ = &promise;
    waited_for_ = smid;
    Timer timer([this] {
        const Outcome outcome{.end = Outcome::End::timed_out, .smid = std::exchange(waited_for_, std::uint16_t{0})};
        if (auto* const waiter = std::exchange(waiter_, nullptr)) waiter->set(outcome);
    });
    timer.arm(reactor_, reactor_.now() + bound);
    co_return co_await promise;
}

bool InternalCommands::completed(std::uint16_t smid) noexcept {
    if (tag_of(smid) >= slots_.size()) return false;
    Slot& slot = slots_[tag_of(smid)];
    if (!slot.sent) return false;
    slot.sent = false;
    const Outcome outcome = read_answer(smid);
    if (slot.pended) {
        ended_[static_cast<std::size_t>(*slot.pended)] = outcome.status;
    } else if (waited_for_ == smid) {
        waited_for_ = 0;
        if (auto* const waiter = std::exchange(waiter_, nullptr)) waiter->set(outcome);
    }
    return true;
}

Outcome InternalCommands::read_answer(std::uint16_t smid) const noexcept {
    const ScsiIoRequest& frame = memory_->frame(smid);
    Outcome outcome{.end = Outcome::End::answered, .smid = smid};
    switch (static_cast<Function>(frame.function)) {
        case Function::passthrough:
            outcome.status = static_cast<std::uint8_t>(memory_->chain(smid)[mfi_status_offset]);
            break;
        case Function::task_management: {
            TaskReply reply;
            std::memcpy(&reply, reinterpret_cast<const std::byte*>(&frame) + task_reply_offset, sizeof reply);
            outcome.status = reply.response;
            break;
        }
        default:
            outcome.status = frame.context.status;
            outcome.scsi_status = frame.context.ex_status;
            break;
    }
    return outcome;
}

void InternalCommands::abandon_wait() noexcept {
    waited_for_ = 0;
    if (auto* const waiter = std::exchange(waiter_, nullptr)) waiter->set({});
}

void InternalCommands::forget_all() noexcept {
    slots_ = {};
    ended_ = {};
    abandon_wait();
}

}  // namespace mqblk::driver::megaraid
