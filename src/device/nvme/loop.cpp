// SPDX-License-Identifier: Apache-2.0
//
// The loop transport's target end: a queue pair without a wire. A command takes a slot, the initiator's segments go
// into the backend's bio as they are, and the completion is delivered by a call. Memory that a backend lends is copied
// once. NVMe-oF 1.1 applies as on every fabric; there are no PDUs.
#include "fabric/loop.h"

#include "device/nvme/page_window.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/target_impl.h"
#include "reactor/reactor.h"
#include "wire/nvme_fabrics.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

namespace mqblk::device::nvme {

namespace {

namespace status = wire::nvme::status;

class Loop final : public fabric::LoopQueue, TargetQueue::Events {
  public:
    Loop(Target& target, Reactor& reactor, unsigned port)
        : reactor_(reactor), queue_(target, reactor, port, *this, /*allow_lending=*/true) {
        queue_.set_peer("loop");
        grow(queue_.depth());
    }

    ~Loop() override {
        queue_.disconnect();
        // What is in a backend uses the initiator's memory: it must end before that may go.
        while (queue_.outstanding() > 0) {
            // Not in a backend: held back by a fused pair, whose end comes by a task.
            if (queue_.poll() == 0 && !queue_.wait()) reactor_.run_once(Reactor::Sleep::no);
        }
    }

    void submit(fabric::LoopCommand& loop) noexcept override {
        Slot* const slot = free_;
        if (slot == nullptr) [[unlikely]]
            return fail_at_once(loop, status::command_interrupted);
        free_ = slot->next_free;
        TargetCommand& command = slot->command;
        command.command = loop.command;
        slot->loop = &loop;
        const Plan plan = queue_.plan(command);
        if (plan.status != 0) [[unlikely]]
            return answer(command);
        if (plan.bytes > loop.data_bytes) [[unlikely]] {
            queue_.abandon(command);
            wire::nvme::set_status(command.completion, status::permanent(status::sgl_invalid_data_length));
            command.completion.command_id = loop.command.command_id;
            return answer(command);
        }
        command.data = loop.data;
        if (plan.lent && plan.direction == Direction::to_controller) {
            static_cast<void>(copy_out(loop.data, 0, command.direct.data, plan.bytes));
        }
        queue_.execute(command);
    }

    unsigned poll() noexcept override {
        unsigned events = queue_.poll();
        if (closing_ && !closed_) [[unlikely]] {
            closed_ = true;
            ++events;
            if (on_closed_ != nullptr) on_closed_(closed_context_);
        }
        return events;
    }

    bool prepare_sleep() noexcept override { return queue_.prepare_sleep() && closing_ == closed_; }

    void on_closed(void (*closed)(void*) noexcept, void* context) noexcept override {
        on_closed_ = closed;
        closed_context_ = context;
    }

  private:
    struct Slot {
        TargetCommand command;
        fabric::LoopCommand* loop = nullptr;
        Slot* next_free = nullptr;
        Loop* owner = nullptr;
    };

    void close(std::uint16_t) noexcept override { closing_ = true; }

    /// Brings the number of slots up to `count`.
    void grow(std::size_t count) {
        if (count <= slots_) return;
        const std::size_t more = count - slots_;
        auto chunk = std::make_unique<Slot[]>(more);
        for (std::size_t i = more; i-- > 0;) {
            Slot& slot = chunk[i];
            slot.owner = this;
            slot.command.transport = &slot;
            slot.command.respond = [](TargetCommand& command) noexcept {
                static_cast<Slot*>(command.transport)->owner->respond(command);
            };
            slot.next_free = std::exchange(free_, &slot);
        }
        slots_ = count;
        chunks_.push_back(std::move(chunk));
    }

    void respond(TargetCommand& command) noexcept {
        if (command.state == command_loaned) {
            copy_in(command.data, 0, command.direct.data, command.bytes);
            queue_.release(command);
        }
        if (queue_.depth() > slots_) [[unlikely]]
            grow(queue_.depth());  // Connect has just been carried out
        answer(command);
    }

    /// The slot is free before the initiator hears of it: it may submit again from there.
    void answer(TargetCommand& command) noexcept {
        Slot& slot = *static_cast<Slot*>(command.transport);
        fabric::LoopCommand& loop = *slot.loop;
        const wire::nvme::Completion completion = command.completion;
        slot.next_free = std::exchange(free_, &slot);
        loop.done(loop, completion);
    }

    static void fail_at_once(fabric::LoopCommand& loop, std::uint16_t why) noexcept {
        wire::nvme::Completion completion;
        completion.command_id = loop.command.command_id;
        wire::nvme::set_status(completion, why);
        loop.done(loop, completion);
    }

    Reactor& reactor_;
    TargetQueue queue_;
    Slot* free_ = nullptr;
    std::size_t slots_ = 0;
    std::vector<std::unique_ptr<Slot[]>> chunks_;
    bool closing_ = false, closed_ = false;
    void (*on_closed_)(void*) noexcept = nullptr;
    void* closed_context_ = nullptr;
};

class LoopEnd final : public fabric::LoopTarget {
  public:
    LoopEnd(Target& target, unsigned port) : target_(target), port_(port) {}

    Result<std::unique_ptr<fabric::LoopQueue>> open_queue(Reactor& reactor) override {
        const auto port = target_.impl().port(port_);
        if (!port || port->transport != "loop") {
            return fail(Errc::not_found, fmt::format("the target has no loop port {}", port_));
        }
        return std::make_unique<Loop>(target_, reactor, port_);
    }

  private:
    Target& target_;
    const unsigned port_;
};

}  // namespace

std::unique_ptr<fabric::LoopTarget> Target::loop(unsigned port_id) {
    return std::make_unique<LoopEnd>(*this, port_id);
}

}  // namespace mqblk::device::nvme
