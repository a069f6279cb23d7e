// SPDX-License-Identifier: Apache-2.0
//
// Commands that name ranges and move no data of them: Write Zeroes (NVMe 1.4, section 6.16) and Dataset Management
// (section 6.7). A device that cannot write zeroes is given zeroes; one that cannot discard leaves the hint alone.
#include "device/nvme/commands.h"
#include "device/nvme/page_window.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/worker.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
using wire::nvme::Command;
using wire::nvme::DsmRange;

namespace {

/// Never written; bios take it as the source of zeroes.
alignas(4096) std::array<std::byte, 64 * 1024> zeroes{};

void write_zeroes_step(TargetCommand& command) noexcept {
    QueueCore& queue = *command.queue;
    if (command.bio.status != Status::ok) return queue.complete(command, bio_result(command));
    const unsigned shift = command.channel->ns->block_shift;
    const std::uint64_t blocks = wire::nvme::block_count(command.command);
    if (command.position == blocks) return queue.complete(command, status::success);
    const std::uint64_t count = std::min<std::uint64_t>(blocks - command.position, zeroes.size() >> shift);
    command.piece = {zeroes.data(), count << shift};
    const std::uint64_t first = wire::nvme::first_block(command.command) + command.position;
    command.position += count;
    start_bio(command, Op::write, command.bio.flags, first, count, {&command.piece, 1});
}

std::uint32_t range_count(const Command& sqe) noexcept {
    return (sqe.cdw10 & 0xff) + 1;
}

void discard_step(TargetCommand& command) noexcept {
    QueueCore& queue = *command.queue;
    if (command.bio.status != Status::ok) return queue.complete(command, bio_result(command));
    while (command.position < range_count(command.command)) {
        DsmRange range;
        const bool copied = copy_out(command.data, command.position * sizeof range, &range, sizeof range);
        ++command.position;
        if (!copied || range.blocks == 0) continue;
        return start_bio(command, Op::discard, 0, range.first_block, range.blocks, {});
    }
    queue.complete(command, status::success);
}

}  // namespace

Plan plan_write_zeroes(QueueCore& queue, TargetCommand& command) noexcept {
    std::uint16_t why = 0;
    NamespaceChannel* const channel = take_channel(queue, command, why);
    if (channel == nullptr) return queue.refuse(command, why);
    if (channel->ns->read_only.load(std::memory_order_relaxed)) {
        return queue.refuse(command, status::permanent(status::namespace_write_protected));
    }
    why = check_range(*channel, wire::nvme::first_block(command.command), wire::nvme::block_count(command.command));
    if (why != 0) return queue.refuse(command, why);
    command.changes_media = true;
    command.bio.flags = wants_fua(command) ? bio_fua : 0;
    return queue.admit(command, Direction::none, 0);
}

void execute_write_zeroes(TargetCommand& command) noexcept {
    const Command& sqe = command.command;
    if (!command.channel->ns->can_zero.load(std::memory_order_relaxed)) {
        command.step = &write_zeroes_step;
        command.bio.status = Status::ok;
        return write_zeroes_step(command);
    }
    const std::uint8_t unmap = (sqe.cdw12 & wire::nvme::rw_deallocate) != 0 ? bio_unmap : 0;
    start_bio(command, Op::write_zeroes, command.bio.flags | unmap, wire::nvme::first_block(sqe),
              wire::nvme::block_count(sqe), {});
}

Plan plan_dataset_management(QueueCore& queue, TargetCommand& command) noexcept {
    std::uint16_t why = 0;
    NamespaceChannel* const channel = take_channel(queue, command, why);
    if (channel == nullptr) return queue.refuse(command, why);
    command.changes_media = (command.command.cdw11 & wire::nvme::dsm_deallocate) != 0;
    if (command.changes_media && channel->ns->read_only.load(std::memory_order_relaxed)) {
        return queue.refuse(command, status::permanent(status::namespace_write_protected));
    }
    // Linux sends room for all ranges that there can be, however few it fills.
    const std::uint32_t bytes = range_count(command.command) * static_cast<std::uint32_t>(sizeof(DsmRange));
    const std::uint32_t sent = command.command.data.length;
    const bool longer = sent > bytes && sent <= wire::nvme::dsm_max_ranges * sizeof(DsmRange);
    return queue.admit(command, Direction::to_controller, longer ? sent : bytes);
}

void execute_dataset_management(TargetCommand& command) noexcept {
    // All ranges are good before the first is discarded.
    for (std::uint32_t i = 0; i < range_count(command.command); ++i) {
        DsmRange range;
        if (!copy_out(command.data, i * sizeof range, &range, sizeof range)) {
            return command.queue->complete(command, status::permanent(status::sgl_invalid_data_length));
        }
        if (range.blocks == 0) continue;
        if (const auto why = check_range(*command.channel, range.first_block, range.blocks)) {
            return command.queue->complete(command, why);
        }
    }
    if (!command.changes_media || !command.channel->ns->can_discard.load(std::memory_order_relaxed)) {
        return command.queue->complete(command, status::success);
    }
    command.step = &discard_step;
    command.bio.status = Status::ok;
    discard_step(command);
}

}  // namespace mqblk::device::nvme
