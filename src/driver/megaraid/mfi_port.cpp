// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/mfi_port.h"

#include "driver/megaraid/command_data.h"
#include "wire/megaraid_mfi_queue.h"
#include "wire/scsi_cdb.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace mqblk::driver::megaraid {

using block::Request;
using namespace wire::megaraid;

namespace {

/// The list of a frame, in the form that its flags say.
class MfiList {
  public:
    MfiList(std::byte* frame, std::size_t offset, bool ieee) noexcept : frame_(frame), end_(offset), ieee_(ieee) {}

    void add(std::uint64_t address, std::uint32_t bytes) noexcept {
        if (ieee_) {
            put(MfiSgeIeee{.address = address, .bytes = bytes, .flags = {}});
        } else {
            put(MfiSge64{.address = address, .bytes = bytes});
        }
        ++count_;
    }
    [[nodiscard]] std::uint8_t count() const noexcept { return static_cast<std::uint8_t>(count_); }
    /// Of the frame with its list.
    [[nodiscard]] std::size_t bytes() const noexcept { return end_; }

  private:
    template <class Element>
    void put(const Element& element) noexcept {
        std::memcpy(frame_ + end_, &element, sizeof element);
        end_ += sizeof element;
    }

    std::byte* const frame_;
    std::size_t end_;
    unsigned count_ = 0;
    const bool ieee_;
};

/// As much of a frame as is before its list.
template <class Frame>
void put_frame(std::byte* to, const Frame& frame, std::size_t sgl_offset) noexcept {
    std::memcpy(to, &frame, sgl_offset);
}

}  // namespace

CommandMemory::Sizes MfiPort::sizes(const Limits& limits) const noexcept {
    return {.commands = limits.commands, .chain_bytes = limits.chain_bytes, .request_frames = false};
}

Result<> MfiPort::allocate_replies(pci::DmaSpace& space, const Limits& limits, unsigned) {
    auto memory = space.allocate(MfiReplies::bytes(limits.reply_depth), pci::AddressLimit::below_4g);
    if (!memory) return std::unexpected(memory.error());
    reply_memory_ = std::move(*memory);
    room_ = limits.reply_depth;
    replies_.use(reply_memory_.data());
    return {};
}

void MfiPort::begin_init(const Limits& limits, unsigned) noexcept {
    ieee_ = limits.ieee_lists;
    const unsigned entries = std::min(limits.reply_depth, room_);
    replies_.reset(entries);
    const MfiQueueInfo info{.entries = entries,
                            .replies = reply_memory_.address(MfiReplies::entries_offset),
                            .producer = reply_memory_.address(MfiReplies::producer_offset),
                            .consumer = reply_memory_.address(MfiReplies::consumer_offset)};
    InitFrame frame;
    frame.command = static_cast<std::uint8_t>(MfiCommand::init);
    frame.status = static_cast<std::uint8_t>(MfiStatus::pending);
    frame.flags = mfi_dont_post;
    frame.data_bytes = sizeof info;
    frame.queue_info_new = init_memory_.address(init_message_offset);
    write_init(frame, &info, sizeof info);
    post_at(init_memory_.address(), sizeof frame);
}

void MfiPort::post_at(std::uint64_t address, std::size_t frame_bytes) noexcept {
    const std::uint32_t word = mfi_post(address, frame_bytes);
    if (generation_ != Generation::skinny) return bar_.write32(mfi_reg::inbound_queue_port, word);
    // Zero whoever writes it, so that threads need not take turns.
    bar_.write32(reg::inbound_high_queue_port, static_cast<std::uint32_t>(address >> 32));
    bar_.write32(reg::inbound_low_queue_port, word);
}

void MfiPort::post(std::uint16_t smid, std::size_t frame_bytes) noexcept {
    post_at(memory_->chain_address(smid), frame_bytes);
}

MfiHeader MfiPort::header(MfiCommand command, std::uint16_t smid, unsigned direction) const noexcept {
    MfiHeader result;
    result.command = static_cast<std::uint8_t>(command);
    result.status = static_cast<std::uint8_t>(MfiStatus::pending);
    result.context = smid;
    const unsigned form = ieee_ ? mfi_ieee | mfi_sgl64 : mfi_sgl64;
    result.flags = static_cast<std::uint16_t>(form | mfi_sense64 | direction);
    return result;
}

void MfiPort::send_dcmd(std::uint16_t smid, std::uint32_t opcode, const Mailbox& mailbox,
                        const Transfer& data) noexcept {
    const unsigned direction = data.bytes == 0 ? 0 : data.to_firmware ? unsigned{mfi_write} : unsigned{mfi_read};
    DcmdFrame frame{.header = header(MfiCommand::dcmd, smid, direction), .opcode = opcode, .mailbox = mailbox};
    MfiList list(memory_->chain(smid), mfi_io_sgl_offset, ieee_);
    if (data.bytes != 0) list.add(data.address, data.bytes);
    frame.header.sges = list.count();
    frame.header.data_bytes = data.bytes;
    put_frame(memory_->chain(smid), frame, mfi_io_sgl_offset);
    post(smid, list.bytes());
}

void MfiPort::send_scsi(std::uint16_t smid, const Route& route, bool, const wire::scsi::Cdb& cdb,
                        const Transfer& data) noexcept {
    const MfiCommand command = route.kind == Kind::volume ? MfiCommand::ld_scsi_io : MfiCommand::pd_scsi_io;
    ScsiFrame frame{.header = header(command, smid, data.bytes == 0 ? 0 : unsigned{mfi_read}),
                    .sense = memory_->sense_address(smid),
                    .cdb = cdb};
    MfiList list(memory_->chain(smid), mfi_scsi_sgl_offset, ieee_);
    if (data.bytes != 0) list.add(data.address, data.bytes);
    frame.header.sense_bytes = sense_buffer_bytes;
    frame.header.target_id = static_cast<std::uint8_t>(route.id);
    frame.header.cdb_bytes = static_cast<std::uint8_t>(wire::scsi::cdb_bytes(cdb[0]));
    frame.header.sges = list.count();
    frame.header.data_bytes = data.bytes;
    put_frame(memory_->chain(smid), frame, mfi_scsi_sgl_offset);
    post(smid, list.bytes());
}

void MfiPort::send_task(std::uint16_t smid, const Route&, TaskType, std::uint16_t task_smid) noexcept {
    const AbortFrame frame{.header = header(MfiCommand::abort, smid),
                           .abort_context = task_smid,
                           .abort_frame = memory_->chain_address(task_smid)};
    std::memcpy(memory_->chain(smid), &frame, sizeof frame);
    post(smid, sizeof frame);
}

Answered MfiPort::read_internal(std::uint16_t smid) noexcept {
    MfiHeader header;
    std::memcpy(&header, memory_->chain(smid), sizeof header);
    return {.status = header.status,
            .scsi_status = header.scsi_status,
            .ended = header.status != static_cast<std::uint8_t>(MfiStatus::pending)};
}

// Requests.

void MfiPort::send(const IoCommand& command) noexcept {
    const Request& request = command.request;
    if (request.op == Op::flush) return write_flush(command.smid);
    const bool plain = carries_data(request.op) && (request.flags & bio_fua) == 0;
    if (plain && command.unit.kind() == Kind::volume) return write_io(command);
    write_scsi(command);
}

/// Volumes have commands of their own for reads and writes.
void MfiPort::write_io(const IoCommand& command) noexcept {
    const Request& request = command.request;
    std::byte* const place = memory_->chain(command.smid);
    const bool read = request.op == Op::read;
    LdIoFrame frame{.header = header(read ? MfiCommand::ld_read : MfiCommand::ld_write, command.smid,
                                     read ? unsigned{mfi_read} : unsigned{mfi_write}),
                    .sense = memory_->sense_address(command.smid),
                    .lba = request.sector >> command.unit.block_shift};
    MfiList list(place, mfi_io_sgl_offset, ieee_);
    for_each_element(request, command.gathered, memory_->space(), command.bounce,
                     [&](std::uint64_t address, std::uint32_t bytes) noexcept { list.add(address, bytes); });
    frame.header.sense_bytes = sense_buffer_bytes;
    frame.header.target_id = static_cast<std::uint8_t>(command.unit.id());
    frame.header.sges = list.count();
    frame.header.data_bytes = static_cast<std::uint32_t>(request.sectors >> command.unit.block_shift);
    put_frame(place, frame, mfi_io_sgl_offset);
    post(command.smid, list.bytes());
}

void MfiPort::write_scsi(const IoCommand& command) noexcept {
    const Request& request = command.request;
    const Unit& unit = command.unit;
    std::byte* const place = memory_->chain(command.smid);
    const auto blocks = static_cast<std::uint32_t>(request.sectors >> unit.block_shift);
    const wire::scsi::Cdb cdb = build_cdb(request, request.sector >> unit.block_shift, blocks);
    ScsiFrame frame{.header = header(unit.kind() == Kind::volume ? MfiCommand::ld_scsi_io : MfiCommand::pd_scsi_io,
                                     command.smid, request.op == Op::read ? unsigned{mfi_read} : unsigned{mfi_write}),
                    .sense = memory_->sense_address(command.smid),
                    .cdb = cdb};
    MfiList list(place, mfi_scsi_sgl_offset, ieee_);
    if (carries_data(request.op)) {
        for_each_element(request, command.gathered, memory_->space(), command.bounce,
                         [&](std::uint64_t address, std::uint32_t bytes) noexcept { list.add(address, bytes); });
        frame.header.data_bytes = static_cast<std::uint32_t>(request.data_bytes());
    } else if (const Parameters extra = write_parameters(request, unit, *memory_, command.smid); extra.bytes != 0) {
        list.add(extra.address, extra.bytes);
        frame.header.data_bytes = extra.bytes;
    }
    frame.header.sense_bytes = sense_buffer_bytes;
    frame.header.target_id = static_cast<std::uint8_t>(unit.id());
    frame.header.cdb_bytes = static_cast<std::uint8_t>(wire::scsi::cdb_bytes(cdb[0]));
    frame.header.sges = list.count();
    put_frame(place, frame, mfi_scsi_sgl_offset);
    post(command.smid, list.bytes());
}

/// SYNCHRONIZE CACHE of a volume is not this firmware's: its cache is written as a whole, with those of its disks.
void MfiPort::write_flush(std::uint16_t smid) noexcept {
    Mailbox mailbox;
    mailbox.bytes[0] = flush_controller | flush_disks;
    send_dcmd(smid, dcmd::ctrl_cache_flush, mailbox, {});
}

}  // namespace mqblk::driver::megaraid
