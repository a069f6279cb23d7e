// SPDX-License-Identifier: Apache-2.0
//
// Connecting, waiting, and what does not go well. No request ends while the target may still use its memory: it ends by
// its response, by an abort that was answered, or with the connection and its registrations.
#include "base/log.h"
#include "driver/srp/io_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mqblk::driver::srp {

using block::Expired;
using block::Issue;
using block::Request;
using namespace wire::srp;

IoQueue::IoQueue(std::shared_ptr<Session> session, unsigned index, block::Queue& queue, Reactor& reactor)
    : session_(std::move(session)),
      options_(session_->options),
      index_(index),
      queue_(queue),
      reactor_(reactor),
      lost_since_(reactor.now()),
      connect_([this] { open_channel(); }),
      loss_([this] { pass_time(); }),
      pause_([this] {
          paused_ = false;
          send_waiting();
      }),
      abort_timer_([this] {
          if (channel_ != nullptr) channel_->break_off("a late command could not be aborted in time");
      }),
      starved_([this] {
          if (channel_ != nullptr && phase_ == Phase::live && on_wire_ == 0 && !channel_->has_credit())
              channel_->break_off("the target has given no credits for too long");
      }),
      cancel_([this] {
          bool unwanted = false;
          queue_.for_each_in_flight(
              [&](Request& request) noexcept { unwanted |= request.payload<Context>().cancelled; });
          if (channel_ != nullptr && unwanted) channel_->break_off("commands that nobody wants are not answered");
      }) {
    queue_.keep_polling(true);
    loss_.arm(reactor_, lost_since_ + options_.fast_io_fail_tmo);
    open_channel();
}

IoQueue::~IoQueue() {
    forget_abort();
}

void IoQueue::open_channel() {
    channel_.reset(new Channel(*session_->network, reactor_, session_->address, options_, session_->depth(),
                               session_->channels > 1, *this));
}

void IoQueue::channel_live() noexcept {
    if (lost_since_ != Time{} && failures_ != 0)
        log_info(fmt::format("{}: connected again", session_->address.to_string()));
    failures_ = 0;
    phase_ = Phase::live;
    loss_.cancel();
    send_waiting();
    queue_.restart();
}

void IoQueue::channel_lost(const Error& why) noexcept {
    log_limited("srp: connection lost", why.message());
    const bool was_live = phase_ == Phase::live;
    forget_abort();
    channel_.reset();  // no registration of it is valid any more
    on_wire_ = 0;
    if (was_live) {
        phase_ = Phase::connecting;
        lost_since_ = reactor_.now();
        loss_.arm(reactor_, lost_since_ + options_.fast_io_fail_tmo);
    }
    queue_.for_each_in_flight([&](Request& request) noexcept {
        Context& context = request.payload<Context>();
        if (context.state != Context::State::sent) return;
        if (context.cancelled) return finish(request, context, cancel_status_);
        if (context.late) return finish(request, context, Status::timed_out);
        if (++context.resets > max_resets) return finish(request, context, Status::transport);
        session_->counters.requeued.fetch_add(1, std::memory_order_relaxed);
        wait_to_send(request, context, false);
    });
    if (phase_ == Phase::given_up) return;
    if (phase_ == Phase::failing) end_all(Status::transport);
    session_->counters.reconnects.fetch_add(1, std::memory_order_relaxed);
    connect_.arm(reactor_, reactor_.now() + (failures_++ == 0 ? std::min(first_delay, options_.reconnect_delay)
                                                              : options_.reconnect_delay));
}

/// Without a connection: first requests fail, then it is given up.
void IoQueue::pass_time() noexcept {
    if (phase_ == Phase::connecting) {
        phase_ = Phase::failing;
        log_warning(fmt::format("{}: no connection for {} s; I/O fails until there is one",
                                session_->address.to_string(),
                                std::chrono::duration_cast<std::chrono::seconds>(options_.fast_io_fail_tmo).count()));
        end_all(Status::transport);
        loss_.arm(reactor_, std::max(reactor_.now(), lost_since_ + options_.dev_loss_tmo));
    } else if (phase_ == Phase::failing) {
        phase_ = Phase::given_up;
        connect_.cancel();
        channel_.reset();
        log_warning(
            fmt::format("{}: no connection for too long; the target is given up", session_->address.to_string()));
        end_all(Status::removed);
    }
    queue_.restart();
}

/// There is no connection.
void IoQueue::end_all(Status status) noexcept {
    waiting_first_ = waiting_last_ = nullptr;
    queue_.for_each_in_flight([&](Request& request) noexcept { finish(request, request.payload<Context>(), status); });
}

unsigned IoQueue::poll() noexcept {
    return channel_ != nullptr ? channel_->poll() : 0;
}

bool IoQueue::prepare_sleep() noexcept {
    return channel_ == nullptr || channel_->prepare_sleep();
}

/// Nothing could be sent. What is out brings the next chance; or else a credit, soon enough that who waits is served by
/// another connection in his time; or else time, when it was the device that had nothing left.
void IoQueue::look_again() noexcept {
    if (on_wire_ != 0) return;
    if (!channel_->has_credit()) {
        if (!starved_.armed()) starved_.arm(reactor_, reactor_.now() + options_.timeout / 2);
    } else if (!pause_.armed()) {
        pause_.arm(reactor_, reactor_.now() + busy_pause);
    }
}

void IoQueue::may_send() noexcept {
    if (channel_->has_credit()) starved_.cancel();
    if (abort_ == nullptr && abort_timer_.armed()) abort_late();
    send_waiting();
}

void IoQueue::wait_to_send(Request& request, Context& context, bool pause) noexcept {
    context.state = Context::State::waiting;
    context.late = false;
    if (aborted_tag_ == request.tag) aborted_tag_ = no_tag;  // an abort of what was out before is not one of this
    context.next = nullptr;
    (waiting_last_ != nullptr ? waiting_last_->payload<Context>().next : waiting_first_) = &request;
    waiting_last_ = &request;
    if (!pause || paused_) return;
    paused_ = true;
    pause_.arm(reactor_, reactor_.now() + busy_pause);
}

void IoQueue::take_from_waiting(const Request& request) noexcept {
    Request* before = nullptr;
    for (Request* each = waiting_first_; each != nullptr; before = each, each = each->payload<Context>().next) {
        if (each != &request) continue;
        Request* const next = each->payload<Context>().next;
        (before != nullptr ? before->payload<Context>().next : waiting_first_) = next;
        if (waiting_last_ == each) waiting_last_ = before;
        return;
    }
}

void IoQueue::send_waiting() noexcept {
    while (phase_ == Phase::live && !paused_ && waiting_first_ != nullptr) {
        Request& request = *waiting_first_;
        Context& context = request.payload<Context>();
        const Sent sent = send(request, context);
        if (sent == Sent::not_now) return look_again();
        waiting_first_ = context.next;
        if (waiting_first_ == nullptr) waiting_last_ = nullptr;
        if (sent == Sent::never) finish(request, context, Status::io_error);
    }
    if (phase_ != Phase::live || waiting_first_ != nullptr || !refused_) return;
    refused_ = false;
    queue_.restart();
}

Expired IoQueue::timeout(Request& request) noexcept {
    Context& context = request.payload<Context>();
    if (context.state != Context::State::sent) {
        take_from_waiting(request);
        finish(request, context, Status::timed_out);
        return Expired::ended;
    }
    // Its abort is sent when it is its turn, and ends it, or the connection does. It may be sent again then: its timer
    // goes on.
    context.late = true;
    abort_late();
    return Expired::extend;
}

/// The next one of the late commands. One abort is out at a time.
void IoQueue::abort_late() noexcept {
    if (abort_ != nullptr) return;
    Request* next = nullptr;
    queue_.for_each_in_flight([&](Request& request) noexcept {
        const Context& context = request.payload<Context>();
        if (next == nullptr && context.state == Context::State::sent && context.late) next = &request;
    });
    if (next == nullptr) return abort_timer_.cancel();
    // Without a credit, or memory to send it from, it may be able to go before the time is up.
    if (!send_abort(*next) && !abort_timer_.armed()) abort_timer_.arm(reactor_, reactor_.now() + options_.task_bound);
}

bool IoQueue::send_abort(Request& request) noexcept {
    if (!channel_->has_task_credit()) return false;
    abort_ = queue_.allocate_reserved();
    if (abort_ == nullptr) return false;
    if (!channel_->slot_is_free(abort_->tag)) {
        forget_abort();
        return false;
    }
    TskMgmt task;
    task.tag = tag_of(*abort_) | task_tag_bit;
    task.lun = encode_lun(static_cast<const Unit*>(block::disk_of(request.device()).driver_data)->lun);
    task.function = static_cast<std::uint8_t>(TaskFunction::abort_task);
    task.task_tag = tag_of(request);
    std::memcpy(channel_->unit(abort_->tag).data(), &task, sizeof task);
    if (!channel_->send(abort_->tag, sizeof task)) {
        forget_abort();
        return false;
    }
    aborted_tag_ = request.tag;
    aborted_generation_ = request.generation;
    session_->counters.aborts.fetch_add(1, std::memory_order_relaxed);
    abort_timer_.arm(reactor_, reactor_.now() + options_.task_bound);
    return true;
}

void IoQueue::forget_abort() noexcept {
    abort_timer_.cancel();
    if (abort_ == nullptr) return;
    queue_.free_reserved(*abort_);
    abort_ = nullptr;
    aborted_tag_ = no_tag;
}

void IoQueue::abort_answered(const RspView& view) noexcept {
    if (abort_ == nullptr || view.rsp.tag.value() != (tag_of(*abort_) | task_tag_bit)) return;
    Request* const request = queue_.find(aborted_tag_, aborted_generation_, 0xffff);
    forget_abort();
    // It may have been answered in the meantime.
    if (request == nullptr || request->payload<Context>().state != Context::State::sent) return abort_late();
    if (view.code.value_or(ResponseCode::success) != ResponseCode::success)
        return channel_->break_off("the target could not abort a late command");
    Context& context = request->payload<Context>();
    --on_wire_;
    channel_->mapper().unmap(channel_->queue_pair(), request->tag);
    if (context.cancelled) {
        finish(*request, context, cancel_status_);
    } else if (may_not_fetch(context)) {
        // A target may drop what it cannot fetch the table of.
        learn_no_external();
        wait_to_send(*request, context, false);
    } else {
        finish(*request, context, Status::timed_out);
    }
    abort_late();
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
    if (sent && !cancel_.armed()) cancel_.arm(reactor_, reactor_.now() + cancel_bound);
}

}  // namespace mqblk::driver::srp
