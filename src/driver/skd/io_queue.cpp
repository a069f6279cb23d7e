// SPDX-License-Identifier: Apache-2.0
//
// The data path: from a request to its place in a message, and from a completion back to the request. No lock, no
// allocation; what is not on the way of a request that goes well is at the end.
#include "driver/skd/io_queue.h"

#include "driver/skd/sense.h"
#include "driver/skd/sg_list.h"
#include "wire/scsi_cdb.h"

#include <new>
#include <utility>

namespace mqblk::driver::skd {

using block::Issue;
using block::Request;
using namespace wire::skd;

namespace {

constexpr std::size_t bounce_budget_bytes = 16u << 20;

/// READ and WRITE (10) only: the capacity was asked for in 32 bits.
wire::scsi::Cdb build_cdb(const Request& request) noexcept {
    switch (request.op) {
        case Op::read:
            return wire::scsi::build_read(request.sector, static_cast<std::uint32_t>(request.sectors));
        case Op::write:
            return wire::scsi::build_write(request.sector, static_cast<std::uint32_t>(request.sectors),
                                           (request.flags & bio_fua) != 0 ? wire::scsi::block_fua_nv : 0);
        default:
            return wire::scsi::build_synchronize_cache();
    }
}

/// Memory that was to be filled holds something else. What the count of a write means on real cards is not known.
bool cut_short(const Request& request, const Completion& completion) noexcept {
    return request.op == Op::read && completion.returned_bytes != request.data_bytes();
}

}  // namespace

Result<std::unique_ptr<CommandMemory>> CommandMemory::create(pci::DmaSpace& space, unsigned depth,
                                                             unsigned descriptors) {
    std::unique_ptr<CommandMemory> result(new CommandMemory(space, descriptors));
    const std::pair<pci::DmaMemory*, std::size_t> parts[] = {
        {&result->messages_, depth * sizeof(FitMessage)},
        {&result->singles_, depth * sizeof(SgDescriptor)},
        {&result->lists_, std::size_t{depth} * descriptors * sizeof(SgDescriptor)}};
    for (const auto& [part, bytes] : parts) {
        auto memory = space.allocate(bytes);
        if (!memory) return std::unexpected(memory.error());
        *part = std::move(*memory);
    }
    for (unsigned tag = 0; tag < depth; ++tag) new (&result->message(tag)) FitMessage;
    auto bounce = pci::BouncePool::create(space, bounce_budget_bytes, max_transfer_bytes);
    if (!bounce) return std::unexpected(bounce.error());
    result->bounce_ = std::move(*bounce);
    return result;
}

IoQueue::IoQueue(Controller& controller, CommandMemory& memory, block::Queue& queue, const Options& options)
    : controller_(controller),
      memory_(memory),
      queue_(queue),
      max_req_per_msg_(options.max_req_per_msg),
      timeout_(options.timeout),
      cancel_([this] { cancel_late(); }) {
    controller_.attach(this);
}

IoQueue::~IoQueue() {
    controller_.attach(nullptr);
}

void IoQueue::prepare(Request& request) {
    auto* const context = new (&request.payload<Context>()) Context;
    context->id = first_id(IdTable::read_write, request.tag);
}

Issue IoQueue::queue(Request& request, bool last) noexcept {
    if (controller_.admission() != Admission::take || waiting_first_ != nullptr) [[unlikely]]
        return not_taken(request);
    if (sent_ >= controller_.depth()) [[unlikely]]
        return Issue::busy;
    Context& context = request.payload<Context>();
    if (carries_data(request.op) && !gather(request, context, memory_)) [[unlikely]]
        return Issue::busy;
    context.requeues = context.resets = 0;
    context.late_since = {};
    context.cancelled = false;
    put(request, context);
    if (last) ring();
    return Issue::accepted;
}

/// Into the message that is open, or one of its own. The message goes out with the last request of a batch.
void IoQueue::put(Request& request, Context& context) noexcept {
    if (open_requests_ == 0) {
        open_ = &memory_.message(request.tag);
        open_address_ = memory_.message_address(request.tag);
    }
    context.id = next_id(context.id);
    context.state = Context::State::sent;
    ++sent_;
    open_->request[open_requests_++] = {.sg_list_address = context.list_address,
                                        .tag = context.id,
                                        .sg_list_bytes = static_cast<std::uint32_t>(request.data_bytes()),
                                        .cdb = build_cdb(request)};
    if (open_requests_ == max_req_per_msg_) ring();
}

void IoQueue::ring() noexcept {
    // A card that is reset meanwhile hears nothing: what was to go out is sent again.
    if (open_requests_ == 0 || controller_.admission() != Admission::take) return;
    open_->header.requests = static_cast<std::uint8_t>(open_requests_);
    const std::uint64_t bell = encode({.address = open_address_, .bytes = FitMessage::bytes(open_requests_)});
    open_requests_ = 0;
    controller_.ring(bell);
}

void IoQueue::commit() noexcept {
    ring();
}

unsigned IoQueue::poll() noexcept {
    const unsigned seen = controller_.drain();
    if (waiting_first_ != nullptr) [[unlikely]]
        send_waiting();
    return seen;
}

bool IoQueue::prepare_sleep() noexcept {
    return controller_.listen();
}

bool IoQueue::completed(const Completion& completion, const ErrorEntry& error) noexcept {
    Request* const request = queue_.find(slot_of(completion.id));
    if (request == nullptr) [[unlikely]]
        return false;
    Context& context = request->payload<Context>();
    if (context.id != completion.id || context.state != Context::State::sent) [[unlikely]]
        return false;
    --sent_;
    if (completion.status != 0 || cut_short(*request, completion)) [[unlikely]] {
        failed(*request, context, completion, error);
        return true;
    }
    finish(*request, context, Status::ok);
    return true;
}

void IoQueue::finish(Request& request, Context& context, Status status) noexcept {
    context.state = Context::State::idle;
    let_go(request, context, memory_, status == Status::ok);
    queue_.complete(request, status);
}

// What does not go well.

Issue IoQueue::not_taken(Request& request) const noexcept {
    if (controller_.admission() != Admission::fail) return Issue::busy;
    request.status = controller_.failure();
    return Issue::done;
}

void IoQueue::failed(Request& request, Context& context, const Completion& completion,
                     const ErrorEntry& error) noexcept {
    const Verdict verdict = judge(completion.status, error);
    if (verdict == Verdict::smart_alert) ++controller_.counters().smart_alerts;
    switch (verdict) {
        case Verdict::smart_alert:
        case Verdict::good:
            if (cut_short(request, completion)) return try_again(request, context, Status::io_error);
            return finish(request, context, Status::ok);
        case Verdict::busy_imminent:
            controller_.busy_imminent();
            [[fallthrough]];
        case Verdict::requeue:
            return try_again(request, context, status_of(completion.status, error));
        case Verdict::error:
            return finish(request, context, status_of(completion.status, error));
    }
}

void IoQueue::try_again(Request& request, Context& context, Status otherwise) noexcept {
    if (context.requeues >= max_requeues || context.cancelled) return finish(request, context, otherwise);
    ++context.requeues;
    wait_to_send(request, context);
}

void IoQueue::wait_to_send(Request& request, Context& context) noexcept {
    context.state = Context::State::waiting;
    context.next = nullptr;
    (waiting_last_ != nullptr ? waiting_last_->payload<Context>().next : waiting_first_) = &request;
    waiting_last_ = &request;
}

void IoQueue::send_waiting() noexcept {
    if (controller_.admission() != Admission::take) return;
    while (waiting_first_ != nullptr && sent_ < controller_.depth()) {
        Request& request = *waiting_first_;
        Context& context = request.payload<Context>();
        waiting_first_ = context.next;
        if (waiting_first_ == nullptr) waiting_last_ = nullptr;
        put(request, context);
    }
    ring();
    if (waiting_first_ == nullptr) queue_.restart();
}

void IoQueue::go_on() noexcept {
    send_waiting();
    queue_.restart();
}

void IoQueue::recover() noexcept {
    open_requests_ = 0;
    queue_.for_each_in_flight([this](Request& request) noexcept {
        Context& context = request.payload<Context>();
        if (context.state != Context::State::sent) return;
        if (context.cancelled) return finish(request, context, cancel_status_);
        if (++context.resets > max_resets) return finish(request, context, Status::timed_out);
        wait_to_send(request, context);
    });
    sent_ = 0;
}

void IoQueue::end_all(Status status) noexcept {
    open_requests_ = 0;
    waiting_first_ = waiting_last_ = nullptr;
    queue_.for_each_in_flight([&](Request& request) noexcept { finish(request, request.payload<Context>(), status); });
    sent_ = 0;
}

/// What the card had ends with that, and so does this: it has its bound.
bool IoQueue::restarting() const noexcept {
    const DriverState state = controller_.state();
    return state == DriverState::starting || state == DriverState::restarting || state == DriverState::wait_boot;
}

block::Expired IoQueue::timeout(Request& request) noexcept {
    // There is no abort. While the card is not online, its states have bounds of their own; but it may come and go for
    // ever, and say each time that it is about to answer.
    Context& context = request.payload<Context>();
    const Time now = controller_.reactor().now();
    if (context.late_since == Time{}) context.late_since = now;
    if (restarting()) return block::Expired::extend;
    const bool offline = controller_.state() == DriverState::idle;
    const bool expected =
        offline || (controller_.state() == DriverState::online && context.state == Context::State::sent);
    const bool had_its_time = now - controller_.online_since() >= timeout_;
    if ((expected && had_its_time) || now - context.late_since >= States::longest_wait)
        controller_.give_up_on_card("a command was not answered in time");
    return block::Expired::extend;
}

void IoQueue::cancel_all(Status status) noexcept {
    cancel_status_ = status;
    waiting_first_ = waiting_last_ = nullptr;
    queue_.for_each_in_flight([&](Request& request) noexcept {
        Context& context = request.payload<Context>();
        if (context.state == Context::State::waiting) return finish(request, context, status);
        context.cancelled = true;
    });
    if (sent_ > 0 && !cancel_.armed()) cancel_.arm(controller_.reactor(), controller_.reactor().now() + longest_cancel);
}

void IoQueue::cancel_late() noexcept {
    if (restarting()) return;
    bool unanswered = false;
    queue_.for_each_in_flight([&](Request& request) noexcept { unanswered |= request.payload<Context>().cancelled; });
    if (unanswered) controller_.give_up_on_card("commands that nobody wants any more do not end");
}

}  // namespace mqblk::driver::skd
