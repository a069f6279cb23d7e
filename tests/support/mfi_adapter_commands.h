// SPDX-License-Identifier: Apache-2.0
//
// Frames of the scripted MFI controller (mfi_adapter.h, which includes this): INIT, DCMD, ABORT and I/O, with faults.
#pragma once

#include "support/mfi_adapter.h"
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <cstring>

namespace mqblk::test {

struct MfiAdapter::Running {
    MfiAdapter& adapter;
    Target& target;
    std::uint64_t address = 0;
    wire::megaraid::MfiHeader header;
    std::uint64_t sense = 0;
    std::uint32_t epoch = 0;
    device::scsi::Plan plan{};
    std::vector<wire::megaraid::MfiRange> list{};
    std::vector<std::byte> data{};
    Segment segment{nullptr, 0};
    device::scsi::Command command{};
};

inline void MfiAdapter::inject(MfiFault fault, std::uint8_t value, unsigned count, unsigned skip) {
    for (unsigned i = 0; i < skip; ++i) faults_.emplace_back(MfiFault::none, std::uint8_t{0});
    for (unsigned i = 0; i < count; ++i) faults_.emplace_back(fault, value);
}

inline void MfiAdapter::take_posted() {
    std::vector<std::uint32_t> posted;
    {
        const std::lock_guard lock(posted_mutex_);
        posted.swap(posted_);
    }
    for (const std::uint32_t word : posted) handle(word);
}

inline void MfiAdapter::handle(std::uint32_t posted) {
    using namespace wire::megaraid;
    if (dead_ || state_.load() == State::fault) return;
    const std::uint64_t address = mfi_posted_address(posted);
    std::array<std::byte, mfi_frame_bytes> bytes{};
    if ((posted & 1) == 0 || address % mfi_frame_bytes != 0 || !host_->memory().read(address, bytes))
        return complain("a frame is not where it can be");
    last_frame_ = address;
    const auto as = [&]<class Frame>(Frame frame) {
        std::memcpy(&frame, bytes.data(), sizeof frame);
        return frame;
    };
    const auto header = as(MfiHeader{});
    const bool ready = state_.load() == State::operational;
    if (header.status != static_cast<std::uint8_t>(MfiStatus::pending)) complain("a frame's status is not preset");
    switch (static_cast<MfiCommand>(header.command)) {
        case MfiCommand::init:
            return init(address, as(InitFrame{}));
        case MfiCommand::dcmd:
            return ready ? dcmd(address, as(DcmdFrame{})) : complain("a DCMD before INIT");
        case MfiCommand::abort:
            return ready ? abort(address, as(AbortFrame{})) : complain("ABORT before INIT");
        case MfiCommand::ld_read:
        case MfiCommand::ld_write:
        case MfiCommand::ld_scsi_io:
        case MfiCommand::pd_scsi_io:
            return ready ? io(address, header, posted) : complain("I/O before INIT");
        default:
            complain("a frame of no kind that there is");
            return end(address, static_cast<std::uint8_t>(MfiStatus::invalid_cmd), 0, header.context);
    }
}

inline void MfiAdapter::end(std::uint64_t address, std::uint8_t status, std::uint8_t scsi_status,
                            std::uint32_t context) {
    if (hostile_ && hostile_(*this)) return;
    const auto& memory = host_->memory();
    if (!memory.store(address + offsetof(wire::megaraid::MfiHeader, scsi_status), scsi_status) ||
        !memory.publish(address + wire::megaraid::mfi_status_offset, status))
        complain("a frame is not mapped at its end");
    post_context(context);
}

inline void MfiAdapter::init(std::uint64_t address, const wire::megaraid::InitFrame& frame) {
    using namespace wire::megaraid;
    if (!options_.answers_init) return;
    if (mask_.load() != ~0u) complain("INIT while interrupts may come");
    MfiQueueInfo info;
    if (!host_->memory().load(frame.queue_info_new, info)) complain("INIT names no memory");
    std::uint8_t status = options_.init_status;
    if (info.entries != options_.commands || info.flags != 0) {
        complain("INIT has another ring than it must");
        status = static_cast<std::uint8_t>(MfiStatus::invalid_parameter);
    }
    if (status == 0) {
        ring_ = info;
        head_ = 0;
        state_ = State::operational;
    }
    if (!host_->memory().publish(address + mfi_status_offset, status)) complain("INIT's frame is not mapped");
}

inline wire::megaraid::MfiStatus MfiAdapter::answer_dcmd(const wire::megaraid::DcmdFrame& frame,
                                                         std::vector<std::byte>& data) {
    using namespace wire::megaraid;
    const auto append = [&data](const auto& value) {
        const auto* const from = reinterpret_cast<const std::byte*>(&value);
        data.insert(data.end(), from, from + sizeof value);
    };
    switch (frame.opcode) {
        case dcmd::ctrl_get_info: {
            ControllerInfo info;
            std::strcpy(info.product_name, "Scripted MFI");
            std::strcpy(info.serial, "MFI0001");
            info.max_request_sectors = 0xffff;
            info.max_strips_per_io = static_cast<std::uint16_t>(options_.sges);
            info.min_strip_shift = 3;
            append(info);
            return MfiStatus::ok;
        }
        case dcmd::ctrl_event_get_info: {
            EventLogInfo info;
            info.newest = sequence_;
            append(info);
            return MfiStatus::ok;
        }
        case dcmd::pd_list_query: {
            append(
                ListHeader{.bytes = static_cast<std::uint32_t>(sizeof(ListHeader) + disks_.size() * sizeof(PdAddress)),
                           .count = static_cast<std::uint32_t>(disks_.size())});
            for (std::size_t i = 0; i < disks_.size(); ++i)
                append(PdAddress{.device_id = static_cast<std::uint16_t>(i), .enclosure_id = 0xffff});
            return MfiStatus::ok;
        }
        case dcmd::ld_get_list: {
            append(LdListHeader{.count = static_cast<std::uint32_t>(volumes_.size())});
            for (std::size_t i = 0; i < volumes_.size(); ++i)
                append(LdEntry{.target_id = static_cast<std::uint8_t>(i),
                               .state = static_cast<std::uint8_t>(LdState::optimal)});
            return MfiStatus::ok;
        }
        case dcmd::ctrl_cache_flush:
            ++counters_.flushes;
            return MfiStatus::ok;
        case dcmd::ctrl_shutdown:
            ++counters_.shutdowns;
            return MfiStatus::ok;
        default:
            complain("a DCMD that no driver of this generation needs");
            return MfiStatus::invalid_dcmd;
    }
}

inline void MfiAdapter::dcmd(std::uint64_t address, const wire::megaraid::DcmdFrame& frame) {
    using namespace wire::megaraid;
    if (options_.silent.contains(frame.opcode)) return;
    if (options_.refused.contains(frame.opcode))
        return end(address, static_cast<std::uint8_t>(MfiStatus::invalid_dcmd), 0, frame.header.context);
    if (frame.opcode == dcmd::ctrl_event_wait) {
        if (event_frame_ != 0) complain("two wait for events");
        event_frame_ = address;
        event_ = frame;
        return;
    }
    std::vector<std::byte> data{};
    MfiStatus status = answer_dcmd(frame, data);
    const auto list = read_list(address, frame.header, mfi_io_sgl_offset);
    if (data.empty() != list.empty() && status == MfiStatus::ok) complain("a DCMD's list is not what it needs");
    if (!data.empty() && status == MfiStatus::ok) {
        data.resize(std::min<std::size_t>(data.size(), list.empty() ? 0 : list.front().bytes));
        if (list.size() != 1 || !host_->memory().write(list.front().address, data))
            status = MfiStatus::invalid_parameter;
    }
    end(address, static_cast<std::uint8_t>(status), 0, frame.header.context);
}

inline void MfiAdapter::tell_event(std::uint32_t code) {
    using namespace wire::megaraid;
    ++sequence_;
    if (event_frame_ == 0) return;
    Event event;
    event.sequence = sequence_;
    event.code = code;
    const auto list = read_list(event_frame_, event_.header, mfi_io_sgl_offset);
    if (list.empty() || !host_->memory().store(list.front().address, event)) complain("an event has no room");
    end(std::exchange(event_frame_, 0), 0, 0, event_.header.context);
}

inline void MfiAdapter::abort(std::uint64_t address, const wire::megaraid::AbortFrame& frame) {
    using namespace wire::megaraid;
    ++counters_.aborts;
    const std::pair<std::uint64_t, std::uint32_t> wanted{frame.abort_frame, frame.abort_context};
    const auto found = std::ranges::find(lost_, wanted);
    const bool aborts = options_.aborts && found != lost_.end();
    if (aborts) {
        end(wanted.first, static_cast<std::uint8_t>(MfiStatus::scsi_io_failed), 0, wanted.second);
        lost_.erase(found);
    }
    const MfiStatus status = aborts ? MfiStatus::ok : MfiStatus::abort_not_possible;
    end(address, static_cast<std::uint8_t>(status), 0, frame.header.context);
}

inline std::vector<wire::megaraid::MfiRange> MfiAdapter::read_list(std::uint64_t address,
                                                                   const wire::megaraid::MfiHeader& header,
                                                                   std::size_t offset) {
    using namespace wire::megaraid;
    if ((options_.msix != 0) != ((header.flags & mfi_ieee) != 0)) complain("lists are of the wrong form");
    std::vector<std::byte> bytes(header.sges * mfi_sge_bytes(header.flags));
    if (!host_->memory().read(address + offset, bytes)) complain("a list is not mapped");
    std::vector<MfiRange> list;
    for (std::size_t i = 0; i < header.sges; ++i) list.push_back(*decode_mfi_sge(bytes, header.flags, i));
    return list;
}

inline void MfiAdapter::io(std::uint64_t address, const wire::megaraid::MfiHeader& header, std::uint32_t posted) {
    using namespace wire::megaraid;
    const auto kind = static_cast<MfiCommand>(header.command);
    const bool block_io = kind == MfiCommand::ld_read || kind == MfiCommand::ld_write;
    auto& targets = kind == MfiCommand::pd_scsi_io ? disks_ : volumes_;
    if (header.target_id >= targets.size() || header.lun != 0)
        return end(address, static_cast<std::uint8_t>(MfiStatus::device_not_found), 0, header.context);
    const std::size_t offset = block_io ? mfi_io_sgl_offset : mfi_scsi_sgl_offset;
    auto running = std::make_unique<Running>(Running{
        .adapter = *this, .target = targets[header.target_id], .address = address, .header = header, .epoch = epoch_});
    running->list = read_list(address, header, offset);
    counters_.most_elements = std::max<std::uint64_t>(counters_.most_elements, header.sges);
    if (header.sges > options_.sges) complain("more elements than it takes");
    const std::size_t frame_bytes = offset + header.sges * mfi_sge_bytes(header.flags);
    if ((posted >> 1 & 0xf) != std::min<std::size_t>((frame_bytes - 1) / mfi_frame_bytes, 7))
        complain("the number of frames is wrong");
    device::scsi::Command& command = running->command;
    std::uint64_t expected = header.data_bytes;
    if (block_io) {
        LdIoFrame frame;
        static_cast<void>(host_->memory().load(address, frame));
        ++counters_.ld_ios;
        running->sense = frame.sense;
        const std::uint32_t blocks = header.data_bytes;
        command.cdb = kind == MfiCommand::ld_read ? wire::scsi::build_read(frame.lba, blocks)
                                                  : wire::scsi::build_write(frame.lba, blocks, 0);
        expected = std::uint64_t{blocks} * running->target.unit->block_bytes();
    } else {
        ScsiFrame frame;
        static_cast<void>(host_->memory().load(address, frame));
        ++counters_.scsi_ios;
        running->sense = frame.sense;
        command.cdb = frame.cdb;
        if (header.cdb_bytes != wire::scsi::cdb_bytes(frame.cdb[0])) complain("a CDB has another length");
        if (header.sges == 0) complain("a SCSI command without a list, which some firmware refuses");
    }
    std::uint64_t room = 0;
    for (const MfiRange& range : running->list) room += range.bytes;
    if (room != expected) complain("a list is not as long as its data");
    command.done = &executed;
    command.context = running.get();
    device::scsi::Nexus& nexus = *running->target.nexus;
    running->plan = nexus.plan(command);
    if (running->plan.refused) return end_io(*running);
    running->data.resize(std::min<std::uint64_t>(running->plan.bytes, room) / running->plan.granule *
                         running->plan.granule);
    if (running->plan.direction == device::scsi::Direction::from_initiator) move_data(*running, false);
    running->segment = {running->data.data(), running->data.size()};
    command.data = Segments(&running->segment, running->data.empty() ? 0 : 1);
    ++running_;
    nexus.execute(running.release()->command);
}

inline void MfiAdapter::move_data(Running& running, bool to_host) {
    std::span<std::byte> left(running.data);
    for (const auto& range : running.list) {
        const auto part = left.first(std::min<std::size_t>(left.size(), range.bytes));
        const bool moved =
            to_host ? host_->memory().write(range.address, part) : host_->memory().read(range.address, part);
        if (!moved) complain("data are not mapped");
        left = left.subspan(part.size());
    }
}

/// Memory has none; the answer of MODE SENSE says that there is one, and that writes may go past it.
inline void add_write_cache(std::span<std::byte> answer) {
    const std::size_t page = answer.size() > 4 ? 4 + std::to_integer<std::size_t>(answer[3]) : 0;
    if (page == 0 || page + 2 >= answer.size()) return;
    answer[2] |= std::byte{wire::scsi::mode_dpo_fua};
    answer[page + 2] |= std::byte{wire::scsi::caching_wce};
}

inline void MfiAdapter::executed(device::scsi::Command& command) noexcept {
    const std::unique_ptr<Running> running(static_cast<Running*>(command.context));
    MfiAdapter& adapter = running->adapter;
    --adapter.running_;
    if (running->epoch != adapter.epoch_) return;
    if (command.cdb[0] == wire::scsi::opcode::mode_sense_6) add_write_cache(running->data);
    if (running->plan.direction == device::scsi::Direction::to_initiator) adapter.move_data(*running, true);
    adapter.end_io(*running);
}

inline void MfiAdapter::end_io(Running& running) {
    using namespace wire::megaraid;
    std::array<std::uint8_t, wire::scsi::descriptor_sense_bytes> sense{};
    if (const std::size_t bytes = running.target.nexus->build_sense(running.command, sense); bytes != 0)
        static_cast<void>(host_->memory().write(running.sense, std::as_bytes(std::span(sense).first(bytes))));
    const auto scsi_status = static_cast<std::uint8_t>(running.command.status);
    const auto status = static_cast<std::uint8_t>(scsi_status != 0 ? MfiStatus::scsi_done_with_error : MfiStatus::ok);
    auto fault = std::pair{MfiFault::none, std::uint8_t{0}};
    if (!faults_.empty()) {
        fault = faults_.front();
        faults_.pop_front();
    }
    strike(fault.first, fault.second, running, status, scsi_status);
}

inline void MfiAdapter::strike(MfiFault fault, std::uint8_t value, const Running& running, std::uint8_t status,
                               std::uint8_t scsi_status) {
    using namespace wire::megaraid;
    const std::uint32_t context = running.header.context;
    switch (fault) {
        case MfiFault::none:
            return end(running.address, status, scsi_status, context);
        case MfiFault::wrong_context:
            post_context(options_.commands - 1);
            return end(running.address, status, scsi_status, context);
        case MfiFault::wild_context:
            for (const std::uint32_t wild : {0u, 0xffffu, 0x10000u + context, 0xffffffffu}) post_context(wild);
            return end(running.address, status, scsi_status, context);
        case MfiFault::twice:
            end(running.address, status, scsi_status, context);
            return post_context(context);
        case MfiFault::producer_past_end:
            if (!host_->memory().publish(ring_.producer, options_.commands + value)) complain("no producer index");
            return host_->raise(0);
        case MfiFault::status:
            return end(running.address, value, 0, context);
        case MfiFault::scsi_status:
            return end(running.address, static_cast<std::uint8_t>(MfiStatus::scsi_done_with_error), value, context);
        case MfiFault::lost:
            return lost_.emplace_back(running.address, context), void();
        case MfiFault::dies:
            dead_ = true;
            return;
        case MfiFault::faults:
            state_ = State::fault;
            return;
    }
}

}  // namespace mqblk::test
