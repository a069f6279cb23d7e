// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/check_buffers.h"

#include <algorithm>
#include <utility>

namespace mqblk::device::nvme {

namespace {

/// Whole pages: direct I/O wants them.
std::size_t granted_bytes(std::uint64_t total) noexcept {
    return static_cast<std::size_t>(std::clamp<std::uint64_t>(total, 4096, CheckBuffers::most_bytes));
}

}  // namespace

/// The budget is that of as many commands as are let in, so the pool is never short.
bool CheckBuffers::grant(TargetCommand& command, std::uint64_t total) noexcept {
    memory::BufferRequest request;
    request.bytes = granted_bytes(total);
    if (pool_->get(request) != memory::BufferPool::Grant::granted) return false;
    command.piece = {request.data, 0};
    ++in_use_;
    return true;
}

CheckBuffers::Claim CheckBuffers::claim(TargetCommand& command, std::uint64_t total) noexcept {
    if (pool_ == nullptr) {
        auto pool = memory::BufferPool::create(most_commands * most_bytes, most_bytes);
        if (!pool) return Claim::failed;
        pool_ = std::move(*pool);
        trimmer_.emplace(reactor_, *pool_);
    }
    if (in_use_ == most_commands) {
        command.position = total;  // until it is granted memory
        command.next = nullptr;
        *last_ = &command;
        last_ = &command.next;
        return Claim::waiting;
    }
    return grant(command, total) ? Claim::granted : Claim::failed;
}

void CheckBuffers::give_back(TargetCommand& command, std::uint64_t total) noexcept {
    pool_->put(std::exchange(command.piece.data, nullptr), granted_bytes(total));
    --in_use_;
    TargetCommand* const next = first_;
    if (next == nullptr) return;
    first_ = next->next;
    if (first_ == nullptr) last_ = &first_;
    const std::uint64_t wanted = std::exchange(next->position, 0);
    static_cast<void>(grant(*next, wanted));  // what was given back is enough for any
    next->step(*next);
}

TargetCommand* CheckBuffers::take_waiting(const QueueCore& queue, std::uint16_t command_id) noexcept {
    for (TargetCommand** link = &first_; *link != nullptr; link = &(*link)->next) {
        TargetCommand& command = **link;
        if (command.queue != &queue || command.command.command_id != command_id) continue;
        *link = command.next;
        if (*link == nullptr) last_ = link;
        return &command;
    }
    return nullptr;
}

}  // namespace mqblk::device::nvme
