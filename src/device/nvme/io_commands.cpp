// SPDX-License-Identifier: Apache-2.0
//
// Read, Write and Flush, and what all I/O commands share. This is the target's data path: no lock, no allocation.
// NVM Express 1.4, section 6.
#include "block/driver.h"
#include "device/nvme/commands.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/target_impl.h"
#include "device/nvme/worker.h"

#include <cstring>
#include <utility>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
namespace io_opcode = wire::nvme::io_opcode;
using wire::nvme::Command;

std::uint16_t nvme_status(Status result, std::uint8_t opcode) noexcept {
    switch (result) {
        case Status::ok:
            return status::success;
        case Status::invalid:
            return status::permanent(status::invalid_field);
        case Status::out_of_range:
            return status::permanent(status::lba_out_of_range);
        case Status::not_supported:
            return status::permanent(status::invalid_opcode);
        case Status::read_only:
            return status::permanent(status::namespace_write_protected);
        case Status::no_space:
            return status::permanent(status::capacity_exceeded);
        case Status::medium_error:
            return wire::nvme::goes_to_controller(opcode) && opcode != io_opcode::compare
                       ? status::write_fault
                       : status::unrecovered_read_error;
        case Status::miscompare:
            return status::permanent(status::compare_failure);
        case Status::protection:
            return status::permanent(status::reservation_conflict);
        case Status::io_error:
            return status::internal_error;
        case Status::timed_out:
            return status::command_interrupted;
        case Status::aborted:
            return status::aborted_by_request;
        case Status::transport:
            return status::transient_transport_error;
        case Status::removed:
            return status::permanent(status::invalid_namespace);
    }
    return status::internal_error;
}

NamespaceChannel* take_channel(QueueCore& queue, TargetCommand& command, std::uint16_t& why) noexcept {
    NamespaceChannel* const channel =
        queue.worker().find(*queue.controller()->subsystem, command.command.namespace_id, why);
    if (channel == nullptr) [[unlikely]]
        return nullptr;
    if (channel->ns->removed.load(std::memory_order_relaxed)) [[unlikely]] {
        why = status::permanent(status::invalid_namespace);
        return nullptr;
    }
    ++channel->holders;
    command.channel = channel;
    return channel;
}

std::uint16_t check_range(const NamespaceChannel& channel, std::uint64_t first, std::uint64_t blocks) noexcept {
    const std::uint64_t size = channel.ns->blocks.load(std::memory_order_relaxed);
    if (first >= size || blocks > size - first) return status::permanent(status::lba_out_of_range);
    return status::success;
}

namespace {

void io_bio_done(Bio& bio) noexcept {
    auto& command = *static_cast<TargetCommand*>(bio.context);
    if (bio.status == Status::medium_error) IoCounters::add(command.channel->counters.media_errors, 1);
    if (command.step != nullptr) return command.step(command);
    command.queue->complete(command, bio_result(command));
}

}  // namespace

std::uint16_t bio_result(const TargetCommand& command) noexcept {
    return nvme_status(command.bio.status, command.command.opcode);
}

bool wants_fua(const TargetCommand& command) noexcept {
    return (command.command.cdw12 & wire::nvme::rw_fua) != 0 ||
           !command.queue->controller()->write_cache.load(std::memory_order_relaxed);
}

void count_transfer(const TargetCommand& command) noexcept {
    IoCounters& counters = command.channel->counters;
    const bool write = command.command.opcode == io_opcode::write;
    IoCounters::add(write ? counters.writes : counters.reads, 1);
    IoCounters::add(write ? counters.sectors_written : counters.sectors_read, command.bytes / sector_bytes);
}

namespace {

/// Media memory instead of a buffer, where the device has it and nothing forbids its use.
Segment lend_memory(QueueCore& queue, TargetCommand& command, bool write) noexcept {
    NamespaceChannel& channel = *command.channel;
    block::DirectAccess* const direct = channel.ns->direct;
    if (direct == nullptr || !queue.lending()) return {nullptr, 0};
    if (command.command.flags != wire::nvme::flag_psdt_sgl) return {nullptr, 0};  // fused: not before its time
    if (write && (channel.hold_writes > 0 || wants_fua(command))) return {nullptr, 0};
    const unsigned shift = channel.ns->block_shift - 9u;
    const Segment memory = direct->map(wire::nvme::first_block(command.command) << shift,
                                       std::uint64_t{wire::nvme::block_count(command.command)} << shift, write);
    return memory.bytes == command.bytes ? memory : Segment{nullptr, 0};
}

}  // namespace

Plan plan_transfer(QueueCore& queue, TargetCommand& command) noexcept {
    const Command& sqe = command.command;
    const bool write = sqe.opcode == io_opcode::write;
    std::uint16_t why = 0;
    NamespaceChannel* const channel = take_channel(queue, command, why);
    if (channel == nullptr) [[unlikely]]
        return queue.refuse(command, why);
    const Namespace& ns = *channel->ns;
    if (write && ns.read_only.load(std::memory_order_relaxed)) [[unlikely]] {
        return queue.refuse(command, status::permanent(status::namespace_write_protected));
    }
    const std::uint64_t bytes = std::uint64_t{wire::nvme::block_count(sqe)} << ns.block_shift;
    if (bytes > queue.target().limits.max_transfer_bytes) [[unlikely]] {
        return queue.refuse(command, status::permanent(status::invalid_field));
    }
    why = check_range(*channel, wire::nvme::first_block(sqe), wire::nvme::block_count(sqe));
    if (why != 0) [[unlikely]]
        return queue.refuse(command, why);
    command.changes_media = write;
    Plan plan =
        queue.admit(command, write ? Direction::to_controller : Direction::to_host, static_cast<std::uint32_t>(bytes));
    if (plan.status != 0) [[unlikely]]
        return plan;
    plan.memory_mask = ns.memory_mask.load(std::memory_order_relaxed);
    command.bio.flags = write && wants_fua(command) ? bio_fua : 0;
    command.direct = lend_memory(queue, command, write);
    if (command.direct.data != nullptr) {
        plan.lent = true;
        command.counted = true;
        queue.worker().start(*channel, write);
    }
    return plan;
}

namespace {

void execute_transfer(QueueCore& queue, TargetCommand& command) noexcept {
    count_transfer(command);
    if (command.direct.data != nullptr) return queue.complete(command, status::success);
    const Command& sqe = command.command;
    start_bio(command, sqe.opcode == io_opcode::write ? Op::write : Op::read, command.bio.flags,
              wire::nvme::first_block(sqe), wire::nvme::block_count(sqe), command.data);
}

Plan plan_flush(QueueCore& queue, TargetCommand& command) noexcept {
    std::uint16_t why = 0;
    if (take_channel(queue, command, why) == nullptr) return queue.refuse(command, why);
    return queue.admit(command, Direction::none, 0);
}

}  // namespace

void start_bio(TargetCommand& command, Op op, std::uint8_t flags, std::uint64_t block, std::uint64_t blocks,
               Segments data) noexcept {
    const unsigned shift = command.channel->ns->block_shift - 9u;
    if (op == Op::read && command.channel->ns->reads_nothing) [[unlikely]] {
        // A buffer still holds what another command left in it, perhaps another host's.
        for (const Segment& segment : data) std::memset(segment.data, 0, segment.bytes);
    }
    Bio& bio = command.bio;
    bio.op = op;
    bio.flags = flags;
    bio.status = Status::ok;
    bio.sector = block << shift;
    bio.sectors = blocks << shift;
    bio.data = data;
    bio.done = &io_bio_done;
    bio.context = &command;
    command.queue->worker().submit(command);
}

Plan plan_io(QueueCore& queue, TargetCommand& command) noexcept {
    const Command& sqe = command.command;
    if (!queue.controller()->ready.load(std::memory_order_relaxed)) [[unlikely]] {
        return queue.refuse(command, status::permanent(status::command_sequence_error));
    }
    if (sqe.flags != wire::nvme::flag_psdt_sgl) [[unlikely]] {
        if ((sqe.flags & ~wire::nvme::flag_fuse_mask) != wire::nvme::flag_psdt_sgl) {
            return queue.refuse(command, status::permanent(status::invalid_field));
        }
        return plan_fused(queue, command);
    }
    switch (sqe.opcode) {
        case io_opcode::read:
        case io_opcode::write:
            return plan_transfer(queue, command);
        case io_opcode::flush:
            return plan_flush(queue, command);
        case io_opcode::compare:
        case io_opcode::verify:
            return plan_check(queue, command);
        case io_opcode::write_zeroes:
            return plan_write_zeroes(queue, command);
        case io_opcode::dataset_management:
            return plan_dataset_management(queue, command);
        default:
            return queue.refuse(command, status::permanent(status::invalid_opcode));
    }
}

void execute_io(QueueCore& queue, TargetCommand& command) noexcept {
    NamespaceChannel& channel = *command.channel;
    if (!command.counted) {
        if (command.command.flags != wire::nvme::flag_psdt_sgl) [[unlikely]]
            return execute_fused(command);
        if (channel.closing) [[unlikely]] {
            return queue.complete(command, status::permanent(status::invalid_namespace));
        }
        if (command.changes_media && channel.hold_writes > 0) [[unlikely]]
            return hold_write(command);
        command.counted = true;
        queue.worker().start(channel, command.changes_media);
    }
    switch (command.command.opcode) {
        case io_opcode::read:
        case io_opcode::write:
            return execute_transfer(queue, command);
        case io_opcode::flush:
            return start_bio(command, Op::flush, 0, 0, 0, {});
        case io_opcode::write_zeroes:
            return execute_write_zeroes(command);
        case io_opcode::dataset_management:
            return execute_dataset_management(command);
        default:
            return execute_check(command);
    }
}

}  // namespace mqblk::device::nvme
