// SPDX-License-Identifier: Apache-2.0
//
// Commands that read without sending: Compare (NVMe 1.4, section 6.6) and Verify (section 6.14). Where the media is
// memory it is looked at in place; else it is read in pieces through one of the worker's check buffers.
#include "block/driver.h"
#include "device/nvme/commands.h"
#include "device/nvme/page_window.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/target_impl.h"
#include "device/nvme/worker.h"

#include <algorithm>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;

namespace {

bool is_compare(const TargetCommand& command) noexcept {
    return command.command.opcode == wire::nvme::io_opcode::compare;
}

std::uint64_t checked_bytes(const TargetCommand& command) noexcept {
    return std::uint64_t{wire::nvme::block_count(command.command)} << command.channel->ns->block_shift;
}

void end_check(TargetCommand& command, std::uint16_t why) noexcept {
    command.step = nullptr;
    if (command.fused != nullptr) return fused_compared(command, why);
    command.queue->complete(command, why);
}

void check_step(TargetCommand& command) noexcept {
    Worker& worker = command.queue->worker();
    const auto end = [&](std::uint16_t why) {
        worker.checks().give_back(command, checked_bytes(command));
        end_check(command, why);
    };
    if (command.bio.status != Status::ok) return end(bio_result(command));
    if (command.piece.bytes > 0) {
        if (is_compare(command) && !equals(command.data, command.position, command.piece.data, command.piece.bytes)) {
            return end(status::permanent(status::compare_failure));
        }
        command.position += command.piece.bytes;
    }
    const std::uint64_t total = checked_bytes(command);
    if (command.position == total) return end(status::success);
    const unsigned shift = command.channel->ns->block_shift;
    command.piece.bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(total - command.position, CheckBuffers::most_bytes));
    start_bio(command, Op::read, 0, wire::nvme::first_block(command.command) + (command.position >> shift),
              command.piece.bytes >> shift, {&command.piece, 1});
}

}  // namespace

Plan plan_check(QueueCore& queue, TargetCommand& command) noexcept {
    std::uint16_t why = 0;
    NamespaceChannel* const channel = take_channel(queue, command, why);
    if (channel == nullptr) return queue.refuse(command, why);
    const std::uint64_t bytes = checked_bytes(command);
    if (bytes > queue.target().limits.max_transfer_bytes) {
        return queue.refuse(command, status::permanent(status::invalid_field));
    }
    why = check_range(*channel, wire::nvme::first_block(command.command), wire::nvme::block_count(command.command));
    if (why != 0) return queue.refuse(command, why);
    if (!is_compare(command)) return queue.admit(command, Direction::none, 0);
    return queue.admit(command, Direction::to_controller, static_cast<std::uint32_t>(bytes));
}

void execute_check(TargetCommand& command) noexcept {
    const Namespace& ns = *command.channel->ns;
    const std::uint64_t bytes = checked_bytes(command);
    if (ns.direct != nullptr) {
        const unsigned shift = ns.block_shift - 9u;
        const Segment media =
            ns.direct->map(wire::nvme::first_block(command.command) << shift, bytes / sector_bytes, false);
        if (media.data != nullptr && media.bytes == bytes) {
            const bool same = !is_compare(command) || equals(command.data, 0, media.data, media.bytes);
            return end_check(command, same ? status::success : status::permanent(status::compare_failure));
        }
    }
    command.step = &check_step;
    command.position = 0;
    command.piece = {nullptr, 0};
    command.bio.status = Status::ok;
    switch (command.queue->worker().checks().claim(command, bytes)) {
        case CheckBuffers::Claim::granted:
            return check_step(command);
        case CheckBuffers::Claim::waiting:
            return;
        case CheckBuffers::Claim::failed:
            return end_check(command, status::internal_error);
    }
}

bool abort_check(QueueCore& queue, std::uint16_t command_id) noexcept {
    TargetCommand* const waiting = queue.worker().checks().take_waiting(queue, command_id);
    if (waiting == nullptr) return false;
    end_check(*waiting, status::aborted_by_request);
    return true;
}

}  // namespace mqblk::device::nvme
