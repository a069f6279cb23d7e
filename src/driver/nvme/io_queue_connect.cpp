// SPDX-License-Identifier: Apache-2.0
//
// How an I/O queue comes to be connected, and what becomes of its commands when it is not. A connection is always
// closed before the next is opened, so that no command is on two of them. A queue that fails to connect while its
// controller lives tries again by itself; one that was live and breaks ends the association, as the fabrics
// specification wants.
#include "driver/nvme/connect_command.h"
#include "driver/nvme/io_queue.h"
#include "driver/nvme/pair_wait.h"

#include <algorithm>
#include <utility>

namespace mqblk::driver::nvme {

using wire::nvme::ConnectData;

namespace {
constexpr unsigned failures_until_reset = 3;
constexpr unsigned longest_delay = 10;  // times the reconnect delay
// A queue that was just closed, by another channel or by a cancel, may be opened again before its target has seen the
// close. Linux's then refuses it (nvmet: "qid 1 has already been created"); all tries together last a second.
constexpr Duration first_delay_while_taken = std::chrono::milliseconds(4);
constexpr unsigned most_times_taken = 8;
}  // namespace

/// The data of Connect: read by the transport until it is answered.
struct IoQueue::ConnectMemory {
    ConnectData data;
};

IoQueue::IoQueue(std::shared_ptr<Association> association, unsigned index, unsigned depth, block::Queue& queue,
                 Reactor& reactor)
    : association_(std::move(association)),
      index_(index),
      depth_(depth),
      ids_(depth),
      queue_(queue),
      reactor_(reactor),
      lists_(new Segment[std::size_t{depth} * max_segments]),  // touched only where it is used
      connect_memory_(std::make_unique<ConnectMemory>()),
      settle_([this] { settle(); }),
      again_([this] { start_connecting(); }),
      retry_([this] { resend_waiting(); }) {
    association_->join(*this, reactor_);
    association_changed();
}

IoQueue::~IoQueue() {
    association_->leave(*this);
    connecting_.cancel();
    pair_.reset();
}

void IoQueue::association_changed() noexcept {
    const Association::View view = association_->view();
    if (view.epoch == view_.epoch && phase_ != Phase::down) return;
    drop_connection();
    view_ = view;
    switch (view.mode) {
        case Association::Mode::up:
            failures_ = times_taken_ = 0;
            start_connecting();
            return;
        case Association::Mode::down:
            phase_ = Phase::down;
            return;
        case Association::Mode::ended:
            phase_ = Phase::ended;
            end_all(view.end_status);
            queue_.restart();
            return;
    }
}

void IoQueue::start_connecting() {
    if (view_.mode != Association::Mode::up || phase_ == Phase::live || phase_ == Phase::ended) return;
    if (phase_ != Phase::unreachable) phase_ = Phase::connecting;
    connecting_.start(connect());
}

Task<void> IoQueue::connect() {
    const Association::Terms& terms = association_->terms();
    connect_failure_.clear();
    controller_unknown_ = queue_taken_ = false;
    const Time deadline = reactor_.now() + terms.connect_timeout;
    auto pair =
        co_await terms.transport->open(reactor_, *this, {depth_, view_.in_capsule_bytes, terms.connect_timeout});
    if (!pair) {
        connect_failure_ = pair.error().message();
        settle_.arm(reactor_, reactor_.now());
        co_return;
    }
    pair_ = std::move(*pair);
    const ConnectRequest request = build_connect(terms, queue_id(), depth_ + 1, view_.controller_id, {});
    connect_.command() = request.command;
    connect_memory_->data = request.data;
    connect_.set_flat(Transfer::to_target, &connect_memory_->data, sizeof(ConnectData));
    connect_.rewind();
    pair_->submit(connect_);
    pair_->commit();
    co_await PairWait(reactor_, *pair_, [this] { return connect_.state == Capsule::State::idle; }, deadline);
    if (pair_->lost()) {
        connect_failure_ = pair_->reason();
    } else if (connect_.state != Capsule::State::idle) {
        connect_failure_ = "no answer to Connect in time";
    } else if (wire::nvme::status_of(connect_answer_) != 0) {
        const Error error = connect_error(terms, connect_answer_);
        connect_failure_ = error.message();
        controller_unknown_ = error.code() == Errc::closed;
        const auto code = wire::nvme::status_of(connect_answer_) & wire::nvme::status::code_mask;
        queue_taken_ = code == wire::nvme::status::command_sequence_error;
    }
    settle_.arm(reactor_, reactor_.now());
}

/// Outside of the coroutine, which this may end.
void IoQueue::settle() {
    connecting_.cancel();
    connect_.state = Capsule::State::idle;
    if (connect_failure_.empty() && pair_ != nullptr) {
        go_live();
    } else {
        connect_failed();
    }
}

void IoQueue::connect_failed() {
    pair_.reset();
    if (queue_taken_ && times_taken_ < most_times_taken) {
        again_.arm(reactor_, reactor_.now() + first_delay_while_taken * (1u << times_taken_++));
        return;
    }
    const Association::Terms& terms = association_->terms();
    if (failures_++ == 0) first_failure_ = reactor_.now();
    if (reactor_.now() - first_failure_ >= terms.loss_timeout && phase_ != Phase::unreachable) {
        phase_ = Phase::unreachable;
        end_all(Status::transport);
        queue_.restart();
    }
    if (controller_unknown_ || failures_ == failures_until_reset) {
        association_->control().lost(view_.epoch, connect_failure_);
    }
    const unsigned times = std::min(1u << std::min(failures_ - 1, 10u), longest_delay);
    again_.arm(reactor_, reactor_.now() + terms.reconnect_delay * times);
}

void IoQueue::go_live() {
    failures_ = times_taken_ = 0;
    phase_ = Phase::live;
    resend_waiting();
    queue_.restart();
}

void IoQueue::resend_waiting() noexcept {
    if (phase_ != Phase::live) return;
    queue_.for_each_in_flight([&](block::Request& request) {
        Capsule& capsule = request.payload<Capsule>();
        if (capsule.state == Capsule::State::waiting) send(request, capsule);
    });
    commit();
}

void IoQueue::connection_lost(std::string reason) noexcept {
    drop_connection();
    phase_ = Phase::down;
    association_->control().lost(view_.epoch, std::move(reason));
}

/// Closes the connection, or gives the attempt up; what was on it waits for the next, or has failed often enough.
void IoQueue::drop_connection() noexcept {
    settle_.cancel();
    again_.cancel();
    retry_.cancel();
    connecting_.cancel();
    connect_.state = Capsule::State::idle;
    pair_.reset();
    queue_.for_each_in_flight([&](block::Request& request) {
        Capsule& capsule = request.payload<Capsule>();
        if (capsule.state != Capsule::State::sent) return;
        capsule.state = Capsule::State::waiting;
        if (++capsule.retries > max_retries) finish(request, capsule, Status::transport);
    });
}

void IoQueue::end_all(Status status) noexcept {
    queue_.for_each_in_flight([&](block::Request& request) {
        Capsule& capsule = request.payload<Capsule>();
        if (capsule.state != Capsule::State::idle) finish(request, capsule, status);
    });
}

}  // namespace mqblk::driver::nvme
