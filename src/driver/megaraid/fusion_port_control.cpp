// SPDX-License-Identifier: Apache-2.0
//
// Control path of the Fusion generation: IOC INIT, and the driver's own commands.
#include "driver/megaraid/fusion_port.h"
#include "wire/scsi_cdb.h"

#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {

constexpr std::uint8_t control_vector = 0;

std::uint64_t wall_clock_ms() noexcept {
    using namespace std::chrono;
    return static_cast<std::uint64_t>(duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
}

}  // namespace

CommandMemory::Sizes FusionPort::sizes(const Limits& limits) const noexcept {
    return {.commands = limits.commands, .chain_bytes = limits.chain_bytes};
}

Result<> FusionPort::allocate_replies(pci::DmaSpace& space, const Limits& limits, unsigned queues) {
    const std::size_t ring_bytes = limits.reply_depth * sizeof(ReplyDescriptor);
    auto memory = space.allocate(queues * ring_bytes, pci::AddressLimit::below_4g);
    if (!memory) return std::unexpected(memory.error());
    reply_memory_ = std::move(*memory);
    rings_ = std::vector<ReplyRing>(queues);
    for (unsigned i = 0; i < queues; ++i) rings_[i].use(reply_memory_.data() + i * ring_bytes, i);
    return {};
}

void FusionPort::begin_init(const Limits& limits, unsigned vectors) noexcept {
    const unsigned depth = reply_queue_depth(memory_->commands());
    for (ReplyRing& ring : rings_) ring.reset(depth, limits.combined_index);
    IocInit message;
    message.msg_version = mpi_version;
    message.header_version = mpi_header_version;
    message.host_msix_vectors = static_cast<std::uint8_t>(vectors);
    message.request_frame_words = io_frame_bytes / 4;
    message.reply_queue_depth = static_cast<std::uint16_t>(depth);
    message.sense_address_high = static_cast<std::uint32_t>(memory_->sense_address(1) >> 32);
    message.request_frames = memory_->frames_address();
    message.reply_queue = reply_memory_.address();
    message.time_stamp = wall_clock_ms();
    InitFrame frame;
    frame.command = static_cast<std::uint8_t>(MfiCommand::init);
    frame.status = static_cast<std::uint8_t>(MfiStatus::pending);
    frame.flags = mfi_dont_post;
    frame.data_bytes = sizeof message;
    frame.queue_info_new = init_memory_.address(init_message_offset);
    frame.driver_operations = driver_max_255_lds | (limits.chain_bytes > 1024 ? unsigned{driver_ext_io_size} : 0u) |
                              (vectors > 8 ? unsigned{driver_additional_msix} : 0u);
    write_init(frame, &message, sizeof message);
    bar_.write64(reg::inbound_low_queue_port, mfa_descriptor(init_memory_.address()));
}

/// The management frame lies where a list would be chained.
void FusionPort::send_dcmd(std::uint16_t smid, std::uint32_t opcode, const Mailbox& mailbox,
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
    post(smid, RequestType::scsi_io, control_vector, 0);
}

void FusionPort::send_scsi(std::uint16_t smid, const Route& route, bool direct, const wire::scsi::Cdb& cdb,
                           const Transfer& data) noexcept {
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
    request.context.status = status_before(is_fast(request));
    if (data.bytes != 0) {
        request.context.sges = 1;
        request.sgl[0] = {.address = data.address, .bytes = data.bytes};
        if (generation_ == Generation::invader) request.sgl[0].flags = sge_end_of_list;
    }
    memory_->frame(smid) = request;
    post(smid, path.type, control_vector, path.dev_handle);
}

bool FusionPort::has_task(const Route& route, TaskType) const noexcept {
    return route.task_management;
}

void FusionPort::send_task(std::uint16_t smid, const Route& route, TaskType type, std::uint16_t task_smid) noexcept {
    TaskRequest request;
    const bool disk = route.kind == Kind::disk;
    request.dev_handle = disk ? route.handle : route.id;
    request.task_type = static_cast<std::uint8_t>(type);
    request.task_smid = task_smid;
    request.flags = disk ? task_for_pd : task_for_ld;
    memory_->frame(smid) = std::bit_cast<ScsiIoRequest>(request);
    // No answer, so that a late second one of the SMID's last user is none.
    reinterpret_cast<std::uint8_t*>(&memory_->frame(smid))[task_reply_offset + offsetof(TaskReply, response)] =
        static_cast<std::uint8_t>(MfiStatus::pending);
    post(smid, RequestType::high_priority, control_vector, 0);
}

Answered FusionPort::read_internal(std::uint16_t smid) noexcept {
    ScsiIoRequest& frame = memory_->frame(smid);
    Answered answer;
    switch (static_cast<Function>(frame.function)) {
        case Function::passthrough:
            answer.status = static_cast<std::uint8_t>(memory_->chain(smid)[mfi_status_offset]);
            break;
        case Function::task_management: {
            TaskReply reply;
            std::memcpy(&reply, reinterpret_cast<const std::byte*>(&frame) + task_reply_offset, sizeof reply);
            answer.status = reply.response;
            break;
        }
        default: {
            const Statuses statuses = read_statuses(frame);
            answer.status = statuses.mfi;
            answer.scsi_status = statuses.scsi;
            break;
        }
    }
    answer.ended = answer.status != static_cast<std::uint8_t>(MfiStatus::pending);
    return answer;
}

void FusionPort::distrust(std::uint16_t smid) noexcept {
    writes_[is_fast(memory_->frame(smid))].store(Writes::no, std::memory_order_relaxed);
}

}  // namespace mqblk::driver::megaraid
