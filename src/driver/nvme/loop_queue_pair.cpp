// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/loop_queue_pair.h"

#include <cstddef>

namespace mqblk::driver::nvme {

// done() finds the capsule by the command's address.
static_assert(offsetof(Capsule, loop) == 0);

LoopQueuePair::LoopQueuePair(std::unique_ptr<fabric::LoopQueue> queue, QueuePairEvents& events)
    : events_(&events), queue_(std::move(queue)) {
    queue_->on_closed([](void* self) noexcept { static_cast<LoopQueuePair*>(self)->lose("the target ended"); }, this);
}

LoopQueuePair::~LoopQueuePair() {
    events_ = nullptr;
    queue_.reset();
}

void LoopQueuePair::submit(Capsule& capsule) noexcept {
    if (lost()) return;
    fabric::LoopCommand& loop = capsule.loop;
    wire::nvme::Sgl& sgl = loop.command.data;
    sgl.address = capsule.transfer == Transfer::none ? 0 : reinterpret_cast<std::uintptr_t>(loop.data.front().data);
    sgl.length = capsule.bytes();
    sgl.type = wire::nvme::sgl_data_block;
    loop.done = &LoopQueuePair::done;
    loop.context = this;
    queue_->submit(loop);
}

void LoopQueuePair::done(fabric::LoopCommand& loop, const wire::nvme::Completion& completion) noexcept {
    auto& self = *static_cast<LoopQueuePair*>(loop.context);
    if (self.events_ == nullptr) return;
    ++self.completions_;
    self.events_->completed(*reinterpret_cast<Capsule*>(&loop), completion);
}

unsigned LoopQueuePair::poll() noexcept {
    if (lost()) return 0;
    completions_ = 0;
    const unsigned events = queue_->poll();
    return completions_ > events ? completions_ : events;
}

// A loop queue that is destroyed has seen its commands to their end.
Parting LoopQueuePair::part() noexcept {
    events_ = nullptr;
    lose("it was given up");
    queue_.reset();
    return {nullptr, true};
}

bool LoopQueuePair::prepare_sleep() noexcept {
    return !lost() && queue_->prepare_sleep();
}

}  // namespace mqblk::driver::nvme
