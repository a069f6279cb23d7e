// SPDX-License-Identifier: Apache-2.0
//
// Data between an initiator's memory and a command's: memory waited for in order, the external table of descriptors
// fetched, then RDMA READ before the command is executed or RDMA WRITE after it. What a descriptor says is bounded by
// what was planned; whether its memory may be used the initiator's adapter decides. SRP rev. 16a, 5.6.2.
#include "block/driver.h"
#include "device/srp/rdma_channel.h"
#include "wire/scsi_cdb.h"

#include <algorithm>
#include <cstring>

namespace mqblk::device::srp {

using fabric::rdma::LocalPiece;
using fabric::rdma::RemotePlace;
using memory::BufferPool;
using wire::srp::Descriptor;
using wire::srp::DescriptorFormat;
using State = SrpCommand::State;

namespace {

bool is_read(std::uint8_t operation) noexcept {
    namespace opcode = wire::scsi::opcode;
    return operation == opcode::read_6 || operation == opcode::read_10 || operation == opcode::read_12 ||
           operation == opcode::read_16;
}

/// It does not wrap around the end of addresses.
bool is_sound(const Descriptor& descriptor) noexcept {
    return descriptor.bytes == 0 || descriptor.address + (std::uint64_t{descriptor.bytes} - 1) >= descriptor.address;
}

}  // namespace

Descriptor RdmaChannel::descriptor_of(const SrpCommand& command, std::uint32_t index) const noexcept {
    if (command.table_request.data == nullptr) return command.description.descriptor(index);
    Descriptor result;
    std::memcpy(static_cast<void*>(&result), command.table_request.data + std::size_t{index} * sizeof result,
                sizeof result);
    return result;
}

void RdmaChannel::want_table(SrpCommand& command) noexcept {
    const Descriptor& table = command.description.table;
    if (table.bytes > Worker::max_table_bytes) return refuse(command, "its table of descriptors is too long");
    if (!is_sound(table)) return refuse(command, "its table of descriptors wraps around the end of memory");
    memory::SharedBufferRequest& request = command.table_request;
    request.bytes = table.bytes;
    request.account = &share_->tables;
    request.context = &command;
    request.ready = [](memory::BufferRequest& granted) noexcept {
        auto& waited = *static_cast<SrpCommand*>(granted.context);
        waited.channel->have_table_memory(waited);
    };
    command.state = State::waiting_table;
    if (worker_->tables().shares().get(request) == BufferPool::Grant::granted) have_table_memory(command);
}

void RdmaChannel::have_table_memory(SrpCommand& command) noexcept {
    command.state = State::reading_table;
    const Descriptor& table = command.description.table;
    const LocalPiece piece{command.table_request.data, table.bytes, worker_->tables().key()};
    const RemotePlace place{table.address, table.key};
    // In the line with other transfers, where there is room in the send queue there is room for this.
    if (ending_ || !queue_pair_->post_read(work_id(kind_move, command.index), {&piece, 1}, place)) {
        end("its queue of RDMA requests is full");
        return end_silently(command);
    }
    ++command.works;
    ++moves_;
}

void RdmaChannel::have_table(SrpCommand& command) noexcept {
    const wire::srp::DataDescription& description = command.description;
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < description.table_descriptors; ++i) sum += descriptor_of(command, i).bytes;
    if (sum != description.bytes)
        return refuse(command, "its table of descriptors is not of the length that the command states");
    want_data(command);
}

void RdmaChannel::want_data(SrpCommand& command) noexcept {
    const wire::srp::DataDescription& description = command.description;
    if (description.format == DescriptorFormat::immediate) {
        auto* const data = const_cast<std::byte*>(description.immediate.data());
        const auto place = reinterpret_cast<std::uintptr_t>(data);
        if (((place | command.move_bytes) & command.plan.memory_mask) == 0) {
            command.data = {data, command.move_bytes};
            return execute(command);
        }
    }
    if (lend(command)) return;
    memory::SharedBufferRequest& request = command.data_request;
    request.bytes = command.move_bytes;
    request.account = &share_->data;
    request.context = &command;
    request.ready = [](memory::BufferRequest& granted) noexcept {
        auto& waited = *static_cast<SrpCommand*>(granted.context);
        waited.channel->have_data_memory(waited);
    };
    command.state = State::waiting_data;
    switch (worker_->data().shares().get(request)) {
        case BufferPool::Grant::granted:
            return have_data_memory(command);
        case BufferPool::Grant::waiting:
            return;
        case BufferPool::Grant::too_large:
            return refuse(command, "it moves more data than the target has memory for");
    }
}

/// A medium that is memory is sent from where it lies, where registering it costs next to nothing.
bool RdmaChannel::lend(SrpCommand& command) noexcept {
    auto* const direct = units_->entries()[command.unit].direct;
    if (direct == nullptr || command.absent || !is_read(command.core.cdb[0]) ||
        command.move_bytes != command.plan.bytes || !worker_->domain().limits().cheap_ranges)
        return false;
    const unsigned shift = units_->entries()[command.unit].unit->block_shift() - 9;
    const wire::scsi::BlockCdb& range = command.core.blocks;
    const Segment memory = direct->map(range.lba << shift, std::uint64_t{range.blocks} << shift, /*for_write=*/false);
    if (memory.data == nullptr || memory.bytes != command.move_bytes) return false;
    const std::uint32_t key = worker_->domain().register_range(memory.data, memory.bytes, 0);
    if (key == 0) return false;
    command.lent = true;
    command.data = memory;
    command.data_key = key;
    command.core.transferred = command.move_bytes;
    command.state = State::delivering;
    move(command, command.move_bytes);
    return true;
}

void RdmaChannel::have_data_memory(SrpCommand& command) noexcept {
    command.data = {command.data_request.data, command.move_bytes};
    command.data_key = worker_->data().key();
    if (ending_) return end_silently(command);
    if (command.plan.direction == scsi::Direction::to_initiator) return execute(command);
    if (command.description.format == DescriptorFormat::immediate) {
        std::memcpy(command.data.data, command.description.immediate.data(), command.move_bytes);
        return execute(command);
    }
    command.state = State::fetching;
    move(command, command.move_bytes);
}

void RdmaChannel::move(SrpCommand& command, std::uint32_t bytes) noexcept {
    command.move_bytes = bytes;
    command.moved = command.descriptor = command.descriptor_offset = 0;
    command.queued = true;
    command.next = nullptr;
    *moving_last_ = &command;
    moving_last_ = &command.next;
    post_moves();
}

/// In order, as far as there is room in the send queue. Data-in are followed by their answer.
void RdmaChannel::post_moves() noexcept {
    while (moving_first_ != nullptr) {
        SrpCommand& command = *moving_first_;
        while (!command.aborted && command.moved < command.move_bytes) {
            if (moves_ >= move_depth) return;
            if (!post_move(command)) end("its descriptors cannot be carried out");
        }
        moving_first_ = command.next;
        if (moving_first_ == nullptr) moving_last_ = &moving_first_;
        command.queued = false;
        if (command.aborted) {
            if (command.works == 0) end_silently(command);
        } else if (command.state == State::delivering) {
            answer(command);
        }
    }
}

/// One piece of one descriptor. False: nothing was posted.
bool RdmaChannel::post_move(SrpCommand& command) noexcept {
    const wire::srp::DataDescription& description = command.description;
    const std::uint32_t count =
        command.table_request.data != nullptr ? description.table_descriptors : description.in_unit();
    while (command.descriptor < count) {
        const Descriptor descriptor = descriptor_of(command, command.descriptor);
        if (!is_sound(descriptor)) return false;
        const std::uint32_t left = descriptor.bytes - command.descriptor_offset;
        if (left == 0) {
            ++command.descriptor;
            command.descriptor_offset = 0;
            continue;
        }
        const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(
            {left, command.move_bytes - command.moved, worker_->domain().limits().max_message_bytes}));
        const LocalPiece piece{command.data.data + command.moved, bytes, command.data_key};
        const RemotePlace place{descriptor.address + command.descriptor_offset, descriptor.key};
        const std::uint64_t id = work_id(kind_move, command.index);
        const bool posted = command.state == State::delivering ? queue_pair_->post_write(id, {&piece, 1}, place)
                                                               : queue_pair_->post_read(id, {&piece, 1}, place);
        if (!posted) return false;
        command.descriptor_offset += bytes;
        command.moved += bytes;
        ++command.works;
        ++moves_;
        return true;
    }
    return false;
}

void RdmaChannel::move_completed(SrpCommand& command) noexcept {
    --moves_;
    if (--command.works > 0 || command.queued) return;
    if (command.state == State::answering) return;  // its answer's completion comes next
    if (command.aborted) return end_silently(command);
    if (command.state == State::reading_table) return have_table(command);
    if (command.state == State::fetching) return execute(command);
}

void RdmaChannel::execute(SrpCommand& command) noexcept {
    command.state = State::executing;
    if (command.data.bytes > 0) command.core.data = {&command.data, 1};
    if (command.absent) return units_->inventory().execute(command.core);
    nexuses_[command.unit]->execute(command.core);
}

void RdmaChannel::executed(SrpCommand& command) noexcept {
    if (command.aborted || ending_) return end_silently(command);
    const bool delivers = command.plan.direction == scsi::Direction::to_initiator && command.core.transferred > 0 &&
                          command.core.status == wire::scsi::Status::good;
    if (!delivers) return answer(command);
    command.state = State::delivering;
    move(command, command.core.transferred);
}

/// Gives its memory back.
void RdmaChannel::release(SrpCommand& command) noexcept {
    if (command.lent) worker_->domain().unregister(command.data_key);
    command.lent = false;
    memory::SharedBufferRequest& data = command.data_request;
    memory::SharedBufferRequest& table = command.table_request;
    if (table.data != nullptr)
        worker_->tables().shares().put(share_->tables, std::exchange(table.data, nullptr), table.bytes);
    if (data.data != nullptr) worker_->data().shares().put(share_->data, std::exchange(data.data, nullptr), data.bytes);
}

}  // namespace mqblk::device::srp
