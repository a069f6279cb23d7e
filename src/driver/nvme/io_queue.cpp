// SPDX-License-Identifier: Apache-2.0
//
// The data path of an I/O queue: a request becomes a command in its own payload; an answer finds it by the identifier,
// which is the tag and the generation, and nothing else.
#include "driver/nvme/io_queue.h"

#include "driver/nvme/status_text.h"

#include <algorithm>
#include <new>
#include <utility>

namespace mqblk::driver::nvme {

using block::Issue;
using block::Request;

namespace {
constexpr Duration first_retry_delay = std::chrono::milliseconds(10);
}

void IoQueue::prepare(Request& request) {
    new (&request.payload<Capsule>()) Capsule();
}

void IoQueue::set_segments(const Request& request, Capsule& capsule) noexcept {
    const Transfer direction = request.op == Op::read ? Transfer::to_host : Transfer::to_target;
    const std::uint64_t bytes = request.data_bytes();
    const Bio& bio = *request.data.bio;
    if (request.data.segment < bio.data.size()) {
        const Segment& first = bio.data[request.data.segment];
        if (first.bytes - request.data.offset >= bytes) {
            capsule.set_flat(direction, first.data + request.data.offset, bytes);
            return;
        }
    }
    if (request.data.segment == 0 && request.data.offset == 0 && bio.sectors == request.sectors) {
        capsule.set_data(direction, bio.data, bytes);
        return;
    }
    Segment* const list = &lists_[std::size_t{request.tag} * max_segments];
    std::size_t count = 0;
    request.for_each_segment([&](std::byte* data, std::size_t size) { list[count++] = {data, size}; });
    capsule.set_data(direction, Segments(list, count), bytes);
}

Issue IoQueue::queue(Request& request, bool last) noexcept {
    if (phase_ != Phase::live) [[unlikely]]
        return not_live(request);
    if (on_wire_ >= view_.depth) [[unlikely]]
        return Issue::busy;
    Capsule& capsule = request.payload<Capsule>();
    const auto& ns = *static_cast<const NamespaceIo*>(block::disk_of(request.device()).driver_data);
    if (carries_data(request.op)) set_segments(request, capsule);
    build_command(request, ns, capsule);
    capsule.command().command_id = ids_.make(request.tag, request.generation);
    capsule.retries = 0;
    capsule.cancelled = false;
    submitting_ = &capsule;
    submitted_done_ = false;
    send(request, capsule);
    submitting_ = nullptr;
    if (submitted_done_) return Issue::done;
    if (last) commit();
    return Issue::accepted;
}

void IoQueue::send(Request&, Capsule& capsule) noexcept {
    capsule.rewind();
    ++on_wire_;
    ++in_pair_;
    pair_->submit(capsule);
    --in_pair_;
}

Issue IoQueue::not_live(Request& request) const noexcept {
    if (phase_ == Phase::ended) {
        request.status = view_.end_status;
        return Issue::done;
    }
    if (phase_ == Phase::unreachable) {
        request.status = Status::transport;
        return Issue::done;
    }
    return Issue::busy;
}

void IoQueue::commit() noexcept {
    if (phase_ != Phase::live) return;
    ++in_pair_;
    pair_->commit();
    --in_pair_;
}

unsigned IoQueue::poll() noexcept {
    if (phase_ != Phase::live) return 0;
    ++in_pair_;
    const unsigned events = pair_->poll();
    --in_pair_;
    if (cancel_pending_) [[unlikely]] {
        cancel_pending_ = false;
        cancel_all(cancel_status_);
    } else if (pair_->lost()) [[unlikely]] {
        connection_lost(pair_->reason());
    } else if (crowded_) [[unlikely]] {
        resend_waiting();
    }
    return events;
}

bool IoQueue::prepare_sleep() noexcept {
    return phase_ != Phase::live || pair_->prepare_sleep();
}

Capsule* IoQueue::find(std::uint16_t command_id) noexcept {
    if (phase_ != Phase::live) [[unlikely]] {
        const bool asked = connect_.state == Capsule::State::sent && connect_.command().command_id == command_id;
        return asked ? &connect_ : nullptr;
    }
    Request* const request = queue_.find(ids_.tag(command_id), ids_.generation(command_id), ids_.generation_mask());
    if (request == nullptr) return nullptr;
    Capsule& capsule = request->payload<Capsule>();
    return capsule.state == Capsule::State::sent ? &capsule : nullptr;
}

void IoQueue::completed(Capsule& capsule, const wire::nvme::Completion& completion) noexcept {
    if (&capsule == &connect_) [[unlikely]] {
        connect_answer_ = completion;
        capsule.state = Capsule::State::idle;
        return;
    }
    --on_wire_;
    Request& request = request_of(capsule);
    const std::uint16_t status = wire::nvme::status_of(completion);
    if ((status & wire::nvme::status::code_mask) != 0) [[unlikely]] {
        failed(request, capsule, status);
        return;
    }
    finish(request, capsule, Status::ok);
}

void IoQueue::finish(Request& request, Capsule& capsule, Status status) noexcept {
    capsule.state = Capsule::State::idle;
    if (&capsule == submitting_) {
        request.status = status;
        submitted_done_ = true;
        return;
    }
    queue_.complete(request, status);
}

void IoQueue::failed(Request& request, Capsule& capsule, std::uint16_t status) noexcept {
    if (capsule.aborting && (status & wire::nvme::status::code_mask) == wire::nvme::status::aborted_by_request) {
        finish(request, capsule, capsule.cancelled ? cancel_status_ : Status::timed_out);
        return;
    }
    if (capsule.cancelled || capsule.retries >= max_retries || !worth_retrying(status)) {
        finish(request, capsule, to_block_status(status));
        return;
    }
    retry(capsule, status);
}

/// Not before the time that the controller asks for (CRD), or else after a while of ours. NVMe 1.4, section 4.6.1.2.1.
void IoQueue::retry(Capsule& capsule, std::uint16_t status) noexcept {
    Duration delay = first_retry_delay * (1u << capsule.retries);
    const unsigned asked = (status & wire::nvme::status::retry_delay_mask) >> wire::nvme::status::retry_delay_shift;
    if (asked != 0) delay = std::max(delay, view_.retry_delays[asked - 1]);
    ++capsule.retries;
    capsule.state = Capsule::State::waiting;
    capsule.retry_at = reactor_.now() + delay;
    if (retry_.armed() && retry_due_ <= capsule.retry_at) return;
    retry_due_ = capsule.retry_at;
    retry_.arm(reactor_, retry_due_);
}

void IoQueue::send_abort(Capsule& capsule) {
    if (std::exchange(capsule.aborting, true)) return;
    association_->control().abort(view_.epoch, queue_id_, capsule.command().command_id);
}

block::Expired IoQueue::timeout(Request& request) noexcept {
    if (phase_ != Phase::live) return block::Expired::extend;  // bounded by the loss time
    Capsule& capsule = request.payload<Capsule>();
    if (capsule.state != Capsule::State::sent) return block::Expired::extend;
    if (!capsule.aborting) {
        send_abort(capsule);
        return block::Expired::extend;
    }
    if (in_pair_ > 0) return block::Expired::extend;
    // Neither the command nor its Abort was answered: only closing the connection makes sure that its memory is free.
    connection_lost("a command was not answered in time, nor was its Abort");
    if (capsule.state != Capsule::State::idle) finish(request, capsule, Status::timed_out);
    return block::Expired::ended;
}

void IoQueue::cancel_all(Status status) noexcept {
    if (in_pair_ > 0) {
        cancel_pending_ = true;
        cancel_status_ = status;
        return;
    }
    cancel_status_ = status;
    bool sent = false;
    queue_.for_each_in_flight([&](Request& request) {
        Capsule& capsule = request.payload<Capsule>();
        if (capsule.state == Capsule::State::waiting) {
            finish(request, capsule, status);
        } else if (capsule.state == Capsule::State::sent) {
            // The target has it: it ends when that says so, or with the connection.
            capsule.cancelled = sent = true;
            send_abort(capsule);
        }
    });
    if (sent && !cancel_.armed()) cancel_.arm(reactor_, reactor_.now() + longest_cancel);
}

/// Other queues' commands suffer too; but an unanswered one may still be writing, and nobody waits for it any more.
void IoQueue::cancel_expired() noexcept {
    bool unanswered = false;
    queue_.for_each_in_flight([&](Request& request) { unanswered |= request.payload<Capsule>().cancelled; });
    if (unanswered) connection_lost("commands that are not wanted any more were not answered, nor were their Aborts");
}

}  // namespace mqblk::driver::nvme
