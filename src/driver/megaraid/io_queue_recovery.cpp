// SPDX-License-Identifier: Apache-2.0
//
// What does not go well: answers that are errors, requests that are late or unwanted, and what a controller reset
// leaves. No request ends while the firmware may still touch its memory: it ends by its reply, or after a reset that
// the firmware has acknowledged. A reply that comes after an abort is just that: the end.
#include "driver/megaraid/answer.h"
#include "driver/megaraid/controller.h"
#include "driver/megaraid/io_queue.h"

#include <algorithm>
#include <span>

namespace mqblk::driver::megaraid {

using block::Issue;
using block::Request;
using namespace wire::megaraid;

Issue IoQueue::not_taken(Request& request) const noexcept {
    if (!controller_.given_up() || !up_to_date()) return Issue::busy;
    request.status = controller_.failure();
    return Issue::done;
}

bool IoQueue::take_index(Request& request, Context& context) noexcept {
    context.smid = index_.take(request.tag);
    if (context.smid != 0) [[likely]]
        return true;
    if (index_awaited_) return false;
    index_awaited_ = true;
    index_free_.store(false, std::memory_order_relaxed);
    const auto wake = [](void* self) noexcept {
        auto& queue = *static_cast<IoQueue*>(self);
        queue.index_free_.store(true, std::memory_order_release);
        queue.queue_.reactor().wake();
    };
    if (!index_.wait(wake, this)) index_free_.store(true, std::memory_order_relaxed);
    return false;
}

void IoQueue::index_came_free() noexcept {
    if (!index_free_.load(std::memory_order_acquire)) return;
    index_awaited_ = false;
    queue_.restart();
}

void IoQueue::failed(Request& request, Context& context, std::uint8_t mfi_status, std::uint8_t scsi_status) noexcept {
    const std::span<const std::uint8_t> sense(reinterpret_cast<const std::uint8_t*>(memory_.sense(context.smid)),
                                              sense_buffer_bytes);
    Answer answer = judge(mfi_status, scsi_status, sense);
    give_index_back(context);
    if (context.cancelled) return finish(request, context, cancel_status_);
    switch (answer.verdict) {
        case Verdict::good:
            // Without an error all data must have been moved.
            if (mfi_status != 0) return finish(request, context, Status::ok);
            answer.status = Status::io_error;
            break;
        case Verdict::again:
            if (context.retries >= max_retries) break;
            ++context.retries;
            return wait_to_send(request, context);
        case Verdict::by_firmware:
            if (!context.direct) break;
            context.direct = false;
            return wait_to_send(request, context);
        case Verdict::aborted:
            // The late one has had its time. Others went with it when its disk was reset.
            if (context.late) answer.status = Status::timed_out;
            if (context.late || ++context.resets > max_resets) break;
            return wait_to_send(request, context);
        case Verdict::error:
            // How the firmware ends what it was asked to abort, in the generation that has no task management.
            if (context.late && static_cast<MfiStatus>(mfi_status) == MfiStatus::scsi_io_failed)
                answer.status = Status::timed_out;
            break;
    }
    finish(request, context, answer.status);
}

void IoQueue::wait_to_send(Request& request, Context& context) noexcept {
    context.state = Context::State::waiting;
    context.doubted = false;
    context.next = nullptr;
    (waiting_last_ != nullptr ? waiting_last_->payload<Context>().next : waiting_first_) = &request;
    waiting_last_ = &request;
}

void IoQueue::send_waiting() noexcept {
    while (waiting_first_ != nullptr) {
        Request& request = *waiting_first_;
        Context& context = request.payload<Context>();
        const auto& unit = *static_cast<const Unit*>(block::disk_of(request.device()).driver_data);
        if (!unit.retired && !take_index(request, context)) return;
        waiting_first_ = context.next;
        if (waiting_first_ == nullptr) waiting_last_ = nullptr;
        if (unit.retired) {
            finish(request, context, Status::removed);
        } else {
            send(request, context);
        }
    }
    queue_.restart();
}

void IoQueue::wake() {
    queue_.reactor().post([this, alive = alive_] {
        if (*alive) go_on();
    });
}

void IoQueue::go_on() noexcept {
    static_cast<void>(poll());
    queue_.restart();
}

void IoQueue::collect() noexcept {
    if (!up_to_date()) return;  // its replies were collected before, and it has sent nothing since
    // Only as many as there can be: it may be writing nonsense.
    const auto most = 2 * answered_.size();
    std::uint16_t smid = 0;
    for (std::size_t seen = 0; seen < most && replies_.next(smid); ++seen)
        if (smid < answered_.size()) answered_[smid] = 1;
}

void IoQueue::recover() noexcept {
    index_.cancel_wait();
    index_awaited_ = false;
    const bool given_up = controller_.given_up();
    queue_.for_each_in_flight([&](Request& request) noexcept {
        Context& context = request.payload<Context>();
        if (context.state == Context::State::waiting && given_up)
            return finish(request, context, controller_.failure());
        if (context.state != Context::State::sent) return;
        if (answered_[context.smid] != 0 && answered(request, context)) return;
        give_index_back(context);
        context.late = false;
        if (context.cancelled) return finish(request, context, cancel_status_);
        if (given_up) return finish(request, context, controller_.failure());
        if (++context.resets > max_resets) return finish(request, context, Status::timed_out);
        controller_.note_sent_again();
        wait_to_send(request, context);
    });
    if (given_up) {
        // What an answer would have sent again is not sent.
        queue_.for_each_in_flight(
            [&](Request& request) noexcept { finish(request, request.payload<Context>(), controller_.failure()); });
        waiting_first_ = waiting_last_ = nullptr;
    }
    std::ranges::fill(answered_, std::uint8_t{0});
    index_.use(controller_.fewer());
    epoch_ = controller_.epoch();
    if (!given_up) send_waiting();
    queue_.restart();
}

block::Expired IoQueue::timeout(Request& request) noexcept {
    report_late(request, request.payload<Context>());
    return block::Expired::extend;
}

/// Once. What is lost in a reset is seen to by recover().
void IoQueue::report_late(const Request& request, Context& context) noexcept {
    const bool closed = gate_.enter() != 0;
    const GateLeave leave(gate_);
    if (closed || !up_to_date() || context.late || context.state != Context::State::sent) return;
    context.late = true;
    // Once is a coincidence, of a double reply and a lost one.
    if (context.doubted && ++context.doubts >= max_doubts) port_.distrust(context.smid);
    const auto& unit = *static_cast<const Unit*>(block::disk_of(request.device()).driver_data);
    controller_.late({.smid = context.smid, .use = memory_.use(context.smid), .route = unit.route});
}

void IoQueue::cancel_all(Status status) noexcept {
    cancel_status_ = status;
    bool sent = false;
    queue_.for_each_in_flight([&](Request& request) noexcept {
        Context& context = request.payload<Context>();
        if (context.state == Context::State::waiting) return finish(request, context, status);
        context.cancelled = true;
        sent = true;
    });
    waiting_first_ = waiting_last_ = nullptr;
    Reactor& reactor = queue_.reactor();
    if (sent && !cancel_.armed()) cancel_.arm(reactor, reactor.now() + controller_.options().cancel_bound);
}

void IoQueue::cancel_late() noexcept {
    queue_.for_each_in_flight([&](Request& request) noexcept {
        Context& context = request.payload<Context>();
        if (context.cancelled) report_late(request, context);
    });
}

}  // namespace mqblk::driver::megaraid
