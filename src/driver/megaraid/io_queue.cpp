// SPDX-License-Identifier: Apache-2.0
//
// The data path: from a request to its command, and from a reply back to the request. No lock shared between queues, no
// allocation. What does not go well is in io_queue_recovery.cpp.
#include "driver/megaraid/io_queue.h"

#include "driver/megaraid/controller.h"

#include <mutex>
#include <new>
#include <utility>

namespace mqblk::driver::megaraid {

using block::Issue;
using block::Request;
using namespace wire::megaraid;

namespace {

constexpr std::size_t bounce_budget_bytes = 4u << 20;
constexpr unsigned most_replies_in_a_pass = 256;

Unit& unit_of(const Request& request) noexcept {
    return *static_cast<Unit*>(block::disk_of(request.device()).driver_data);
}

}  // namespace

Result<std::unique_ptr<IoQueue>> IoQueue::create(Controller& controller, block::Queue& queue, unsigned vector) {
    std::unique_ptr<IoQueue> result(new IoQueue(controller, queue, vector));
    pci::DmaSpace& space = controller.memory().space();
    if (!space.reaches_everything()) {
        auto bounce = pci::BouncePool::create(space, bounce_budget_bytes, controller.max_bytes());
        if (!bounce) return std::unexpected(bounce.error());
        result->bounce_ = std::move(*bounce);
    }
    if (result->shared_ != nullptr) return result;                               // the control path has the interrupt
    auto interrupt = controller.make_interrupt(vector, queue.reactor(), [] {});  // it only wakes: then it is polled
    if (!interrupt) return std::unexpected(interrupt.error());
    result->interrupt_ = std::move(*interrupt);
    return result;
}

IoQueue::IoQueue(Controller& controller, block::Queue& queue, unsigned vector)
    : controller_(controller),
      port_(controller.port()),
      memory_(controller.memory()),
      queue_(queue),
      vector_(vector),
      replies_(port_.replies(vector)),
      shared_(controller.shared()),
      answered_(memory_.commands() + 1),
      cancel_([this] { cancel_late(); }) {
    controller_.attach(*this);
}

IoQueue::~IoQueue() {
    *alive_ = false;
    index_.cancel_wait();
    controller_.detach(*this, std::move(interrupt_));
}

void IoQueue::adopt(std::uint32_t epoch, const std::shared_ptr<FewerCommands>& fewer) {
    epoch_ = epoch;
    index_.use(fewer);
}

void IoQueue::prepare(Request& request) {
    new (&request.payload<Context>()) Context;
}

Issue IoQueue::queue(Request& request, bool) noexcept {
    const bool closed = gate_.enter() != 0;
    const GateLeave leave(gate_);
    if (closed || !up_to_date() || waiting_first_ != nullptr || controller_.given_up()) [[unlikely]]
        return not_taken(request);
    if (unit_of(request).retired) [[unlikely]] {
        request.status = Status::removed;
        return Issue::done;
    }
    Context& context = request.payload<Context>();
    if (carries_data(request.op) && !gather(request, memory_.space(), bounce_.get(), context.gathered)) [[unlikely]]
        return Issue::busy;
    if (!take_index(request, context)) [[unlikely]] {
        let_go(request, bounce_.get(), context.gathered, false);
        return Issue::busy;
    }
    context.retries = context.resets = context.doubts = 0;
    context.direct = true;
    context.late = context.cancelled = context.doubted = false;
    send(request, context);
    return Issue::accepted;
}

/// It has a SMID.
void IoQueue::send(Request& request, Context& context) noexcept {
    context.state = Context::State::sent;
    memory_.sent(context.smid);
    port_.send({.request = request,
                .unit = unit_of(request),
                .gathered = context.gathered,
                .bounce = bounce_.get(),
                .smid = context.smid,
                .vector = static_cast<std::uint8_t>(vector_),
                .direct = context.direct});
}

unsigned IoQueue::poll() noexcept {
    const bool closed = gate_.enter() != 0;
    const GateLeave leave(gate_);
    if (closed) [[unlikely]]
        return 0;
    if (!up_to_date()) [[unlikely]] {
        recover();
        return 1;
    }
    const unsigned seen = shared_ == nullptr ? take_replies() : take_shared_replies();
    if (index_awaited_) [[unlikely]]
        index_came_free();
    if (waiting_first_ != nullptr) [[unlikely]]
        send_waiting();
    return seen;
}

unsigned IoQueue::take_replies() noexcept {
    unsigned seen = 0;
    for (std::uint16_t smid = 0; seen < most_replies_in_a_pass && replies_.next(smid); ++seen) replied(smid);
    if (seen != 0) replies_.tell(controller_.bar());
    return seen;
}

unsigned IoQueue::take_shared_replies() noexcept {
    shared_->polls();
    const std::lock_guard lock(shared_->mutex());
    unsigned seen = 0;
    for (std::uint16_t smid = 0; seen < most_replies_in_a_pass && replies_.next(smid); ++seen) {
        if (SharedReplies::is_internal(smid)) {
            controller_.found_internal(smid);
        } else {
            replied(smid);
        }
    }
    if (seen != 0) replies_.tell(controller_.bar());
    return seen;
}

bool IoQueue::prepare_sleep() noexcept {
    const bool closed = gate_.enter() != 0;
    const GateLeave leave(gate_);
    if (closed) [[unlikely]]
        return true;  // who opens it wakes
    if (!up_to_date() || (index_awaited_ && index_free_.load(std::memory_order_acquire))) [[unlikely]]
        return false;
    if (shared_ != nullptr) return sleep_on_shared();
    replies_.tell_now(controller_.bar());
    interrupt_->arm();
    return !replies_.pending();
}

bool IoQueue::sleep_on_shared() noexcept {
    if (shared_->stops_polling()) controller_.listen();
    const std::lock_guard lock(shared_->mutex());
    replies_.tell_now(controller_.bar());
    return !replies_.pending();
}

void IoQueue::replied(std::uint16_t smid) noexcept {
    Request* const request = queue_.find(index_.tag(smid));
    if (request == nullptr || request->payload<Context>().state != Context::State::sent ||
        request->payload<Context>().smid != smid) [[unlikely]]
        return controller_.note_mismatch();
    if (!answered(*request, request->payload<Context>())) [[unlikely]]
        controller_.note_mismatch();
}

bool IoQueue::answered(Request& request, Context& context) noexcept {
    const Answered answer = port_.read(request, context.smid);
    if (!answer.ended) [[unlikely]] {
        context.doubted = true;
        return false;
    }
    if (answer.status != 0 || !answer.all) [[unlikely]] {
        failed(request, context, answer.status, answer.scsi_status);
        return true;
    }
    give_index_back(context);
    finish(request, context, Status::ok);
    return true;
}

void IoQueue::give_index_back(Context& context) noexcept {
    memory_.ended(context.smid);
    index_.put(context.smid);
}

void IoQueue::finish(Request& request, Context& context, Status status) noexcept {
    context.state = Context::State::idle;
    let_go(request, bounce_.get(), context.gathered, status == Status::ok);
    queue_.complete(request, status);
}

bool IoQueue::up_to_date() const noexcept {
    return epoch_ == controller_.epoch();
}

}  // namespace mqblk::driver::megaraid
