// SPDX-License-Identifier: Apache-2.0
//
// Fused Compare-and-Write, NVMe 1.4, section 6.2. The two halves come next to each other in one queue and run as one:
// no other write that goes through this target may come between compare and write. A pair first tells every reactor
// that has a channel to the namespace to hold its writes back, waits until those in progress there have ended, runs,
// and lets them go again; pairs on one namespace run one after another. Other commands pay nothing for it: whether to
// hold is a plain field of the channel that they use anyway.
//
// Invariant: the pair at the head of Namespace::fused_first is the only one whose commands run.
#include "device/nvme/commands.h"
#include "device/nvme/limits.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/worker.h"
#include "reactor/reactor.h"

#include <utility>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
using wire::nvme::Command;

namespace {

constexpr std::uint16_t fused_failed = status::permanent(status::fused_failed);

bool same_range(const Command& a, const Command& b) noexcept {
    return a.namespace_id == b.namespace_id && wire::nvme::first_block(a) == wire::nvme::first_block(b) &&
           wire::nvme::block_count(a) == wire::nvme::block_count(b);
}

/// The other half cannot run: this one ends now if it was executed already, else when it is.
void fail_half(TargetCommand& half, std::uint16_t why) noexcept {
    half.fused = nullptr;
    half.failure = why;
    if (half.state == command_executing) half.queue->complete(half, why);
}

// --- Holding writes back ---------------------------------------------------------------------------------------

void run_pair(TargetCommand& first) noexcept;

void hold(NamespaceChannel& channel, std::shared_ptr<void> token) noexcept {
    ++channel.hold_writes;
    if (channel.writes > 0) channel.drained = std::move(token);
}

void let_go(NamespaceChannel& channel) noexcept {
    if (--channel.hold_writes > 0) return;
    channel.held_last = &channel.held_first;
    for (TargetCommand* held = std::exchange(channel.held_first, nullptr); held != nullptr;) {
        TargetCommand& command = *std::exchange(held, held->next);
        execute_io(*command.queue, command);
    }
}

/// Under the namespace's mutex, so that all threads see tasks in one order and a channel that is attached later knows
/// what it missed: posts fn(channel) to every channel but `own`'s, which is returned. A channel that is closed
/// meanwhile has nothing to hold.
template <class Fn>
NamespaceChannel* post_to_channels(Namespace& ns, const Worker& own, const Fn& fn) {
    NamespaceChannel* here = nullptr;
    for (NamespaceChannel* channel : ns.channels) {
        if (channel->worker == &own) {
            here = channel;
            continue;
        }
        channel->worker->reactor().post([alive = std::weak_ptr(channel->alive), channel, fn] {
            if (!alive.expired()) fn(*channel);
        });
    }
    return here;
}

/// Given up by each channel when it has drained; the last one starts the pair, on the pair's own thread. The queue has
/// a command outstanding until then, so it and its reactor are there.
std::shared_ptr<void> when_drained(TargetCommand& first) {
    Reactor& reactor = first.queue->reactor();
    return {&first, [&reactor, &first](void*) { reactor.post([&first] { run_pair(first); }); }};
}

/// Under the mutex.
NamespaceChannel* hold_everywhere(Namespace& ns, const Worker& own, const std::shared_ptr<void>& drained) {
    return post_to_channels(ns, own, [drained](NamespaceChannel& channel) { hold(channel, drained); });
}

void begin_pair(TargetCommand& first) {
    Namespace& ns = *first.channel->ns;
    std::shared_ptr<void> drained;
    NamespaceChannel* here = nullptr;
    first.next_pair = nullptr;
    {
        const std::lock_guard lock(ns.mutex);
        if (TargetCommand* const before = std::exchange(ns.fused_last, &first)) {
            before->next_pair = &first;  // its end starts this one
            return;
        }
        ns.fused_first = &first;
        drained = when_drained(first);
        here = hold_everywhere(ns, first.queue->worker(), drained);
    }
    if (here != nullptr) hold(*here, drained);
}

void end_pair(TargetCommand& first, std::uint16_t first_status, std::uint16_t second_status) {
    TargetCommand& second = *first.fused;
    const auto ns = first.channel->ns->shared_from_this();
    const Worker& own = first.queue->worker();
    const std::weak_ptr alive(first.channel->alive);
    std::shared_ptr<void> drained;
    NamespaceChannel* here = nullptr;
    {
        const std::lock_guard lock(ns->mutex);
        TargetCommand* const next = ns->fused_first = first.next_pair;
        // Even with a pair waiting: what was held back goes first, or pairs in a row would starve it.
        here = post_to_channels(*ns, own, [](NamespaceChannel& channel) { let_go(channel); });
        if (next == nullptr) {
            ns->fused_last = nullptr;
        } else {
            drained = when_drained(*next);
            static_cast<void>(hold_everywhere(*ns, own, drained));
        }
    }
    first.fused = second.fused = nullptr;
    first.step = second.step = nullptr;
    first.queue->complete(first, first_status);
    second.queue->complete(second, second_status);
    if (here == nullptr || alive.expired()) return;
    let_go(*here);
    if (drained) hold(*here, drained);
}

// --- The pair itself -----------------------------------------------------------------------------------------------

void fused_written(TargetCommand& second) noexcept {
    end_pair(*second.fused, status::success, bio_result(second));
}

void run_pair(TargetCommand& first) noexcept {
    TargetCommand& second = *first.fused;
    NamespaceChannel& channel = *first.channel;
    if (channel.closing) return end_pair(first, status::permanent(status::invalid_namespace), fused_failed);
    Worker& worker = first.queue->worker();
    first.counted = second.counted = true;
    worker.start(channel, first.changes_media);
    worker.start(channel, second.changes_media);
    execute_check(first);
}

}  // namespace

void fused_compared(TargetCommand& first, std::uint16_t why) noexcept {
    if (why != status::success) return end_pair(first, why, fused_failed);
    TargetCommand& second = *first.fused;
    count_transfer(second);
    second.step = &fused_written;
    start_bio(second, Op::write, second.bio.flags, wire::nvme::first_block(second.command),
              wire::nvme::block_count(second.command), second.data);
}

void hold_write(TargetCommand& command) noexcept {
    NamespaceChannel& channel = *command.channel;
    command.next = nullptr;
    *channel.held_last = &command;
    channel.held_last = &command.next;
}

Plan plan_fused(QueueCore& queue, TargetCommand& command) noexcept {
    const Command& sqe = command.command;
    switch (sqe.flags & wire::nvme::flag_fuse_mask) {
        case wire::nvme::flag_fuse_first: {
            Plan plan;
            if (sqe.opcode != wire::nvme::io_opcode::compare) {
                plan = queue.refuse(command, status::permanent(status::invalid_field));
            } else if (wire::nvme::block_count(sqe) > fused_blocks) {
                plan = queue.refuse(command, status::permanent(status::atomic_write_unit_exceeded));
            } else {
                plan = plan_check(queue, command);
            }
            queue.fused_first_failed = plan.status != 0;
            if (plan.status == 0) queue.fused_first = &command;
            return plan;
        }
        case wire::nvme::flag_fuse_second: {
            TargetCommand* const first = std::exchange(queue.fused_first, nullptr);
            if (first == nullptr) {
                return queue.refuse(command, std::exchange(queue.fused_first_failed, false)
                                                 ? fused_failed
                                                 : status::permanent(status::fused_missing));
            }
            const bool matches = sqe.opcode == wire::nvme::io_opcode::write && same_range(first->command, sqe);
            const Plan plan = matches ? plan_transfer(queue, command)
                                      : queue.refuse(command, status::permanent(status::invalid_field));
            if (plan.status != 0) {
                fail_half(*first, fused_failed);
            } else {
                first->fused = &command;
                command.fused = first;
            }
            return plan;
        }
        default:
            return queue.refuse(command, status::permanent(status::invalid_field));
    }
}

void execute_fused(TargetCommand& command) noexcept {
    TargetCommand* const other = command.fused;
    if (other == nullptr || other->state != command_executing) return;  // the other half's execution goes on from here
    const bool is_first = (command.command.flags & wire::nvme::flag_fuse_mask) == wire::nvme::flag_fuse_first;
    begin_pair(is_first ? command : *other);
}

void abandon_fused(TargetCommand& command) noexcept {
    QueueCore& queue = *command.queue;
    if (queue.fused_first == &command) {
        queue.fused_first = nullptr;
        queue.fused_first_failed = true;
    }
    if (TargetCommand* const other = std::exchange(command.fused, nullptr)) fail_half(*other, fused_failed);
}

}  // namespace mqblk::device::nvme
