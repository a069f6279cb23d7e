// SPDX-License-Identifier: Apache-2.0
//
// Beginning and end of a connection in this process.
#include "fabric/rdma/in_process_network.h"
#include "fabric/rdma/in_process_queue_pair.h"
#include "fabric/rdma/in_process_tell.h"

#include <fmt/format.h>

#include <algorithm>

namespace mqblk::fabric::rdma {

namespace {

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
    return {bytes.begin(),
            bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), ConnectParameters::max_private_bytes))};
}

}  // namespace

InProcessQueuePair::InProcessQueuePair(std::shared_ptr<InProcessNetwork::Impl> network,
                                       std::shared_ptr<InProcessLink> link, unsigned side, Reactor& reactor,
                                       Address peer)
    : network_(std::move(network)),
      link_(std::move(link)),
      side_(side),
      reactor_(reactor),
      peer_(std::move(peer)),
      connect_timer_([this] {
          if (state_ != State::requested) return;
          state_ = State::error;
          handler_->failed(
              Error(Errc::timed_out, fmt::format("{}: no answer to the request for a connection", peer_.to_string())));
      }),
      receiver_timer_([this] { retried(); }),
      retry_timer_([this] {
          if (executed_ + arrived_ == sends_.count && executed_ == 0) return;  // it waits for the receiver
          if (completed_seen_ == completed_ && sends_.count != 0) {
              if (executed_ == 0) return fail_work(WorkStatus::retry_exceeded);
              // It was carried out, and nobody knows.
              complete(sends_.at(0), WorkStatus::retry_exceeded);
              sends_.pop();
              --executed_;
              return enter_error();
          }
          completed_seen_ = completed_;
          if (sends_.count != 0) retry_timer_.arm(reactor_, reactor_.now() + link_->courier->retry_time());
      }) {
    link_->ends[side_] = this;
    auto domain = network_->domain(reactor_, side_);
    keys_ = domain.get();
    domain_ = std::move(domain);
}

InProcessQueuePair::~InProcessQueuePair() {
    if (side_ == 1 && state_ == State::requested) reject({});
    told_end_ = true;
    // An acceptor may be about to answer.
    if (side_ == 0 && state_ == State::requested)
        link_->carry(1, [](InProcessQueuePair& acceptor) { acceptor.enter_error(); });
    disconnect();
    link_->ends[side_] = nullptr;
    if (completions_ != nullptr)
        completions_->release(shape_.max_sends + shape_.max_receives, &untaken_sends_, &untaken_receives_);
    InProcessQueuePair* const other = link_->ends[1];
    if (side_ == 0 && link_->courier == nullptr && other != nullptr && other->handler_ != nullptr)
        other->handler_->orphaned();
}

void InProcessQueuePair::begin(bool listened) {
    // Nothing travels for this: it cannot be lost.
    reactor_.post([link = link_, listened] {
        if (link->ends[0] == nullptr) return;
        InProcessQueuePair& self = *link->ends[0];
        if (listened) return self.handler_->resolved();
        self.state_ = State::error;
        self.handler_->failed(
            Error(Errc::unreachable, fmt::format("{}: nobody in this process listens there", self.peer_.to_string())));
    });
}

Result<> InProcessQueuePair::create(const QueuePairShape& shape, CompletionQueue& completions) {
    const Limits& limits = keys_->limits();
    const auto check = [](const char* what, std::uint32_t value, std::uint32_t most) -> Result<> {
        if (value <= most) return {};
        return fail(Errc::not_supported,
                    fmt::format("a queue pair with {} {}; the device has at most {}", value, what, most));
    };
    const std::uint32_t most_pieces = std::min<std::uint32_t>(limits.max_pieces, 16);
    for (const auto& checked : {check("work requests to send", shape.max_sends, limits.max_work_requests),
                                check("receives", shape.max_receives, limits.max_work_requests),
                                check("pieces of a send", shape.max_send_pieces, most_pieces),
                                check("pieces of a receive", shape.max_receive_pieces, most_pieces)})
        if (!checked) return checked;
    auto& queue = static_cast<InProcessCompletionQueue&>(completions);
    if (!queue.reserve(shape.max_sends + shape.max_receives))
        return fail(Errc::no_space, "the completion queue has too few entries left for a queue pair");
    completions_ = &queue;
    shape_ = shape;
    sends_.works.resize(shape.max_sends);
    receives_.works.resize(shape.max_receives);
    return {};
}

void InProcessQueuePair::connect(const ConnectParameters& parameters, Duration bound) noexcept {
    parameters_ = parameters;
    parameters_.private_data = {};
    state_ = State::requested;
    connect_timer_.arm(reactor_, reactor_.now() + bound);
    auto service = network_->find(peer_.to_string());
    const auto request = [link = link_, network = network_, service, address = peer_, reactor = &reactor_,
                          bytes = copy_of(parameters.private_data)] {
        if (link->ends[0] == nullptr) return;
        std::shared_lock<std::shared_mutex> lock;
        if (service != nullptr) lock = std::shared_lock(service->mutex);
        if (service == nullptr || !service->open) {
            link->tell(0, [](InProcessQueuePair& self) { self.was_rejected(reject_invalid_service_id, {}); });
            return;
        }
        Reactor& home = link->courier == nullptr ? *reactor : *service->reactor;
        auto end = std::make_unique<InProcessQueuePair>(network, link, 1, home, address);
        end->state_ = State::requested;
        service->requested(std::move(end), bytes);
    };
    Reactor* const there = link_->courier == nullptr || service == nullptr ? &reactor_ : service->reactor;
    if (link_->courier == nullptr) return there->post(request);
    link_->courier->carry(link_->id, 0, [request, there] { there->post(request); });
}

Result<> InProcessQueuePair::accept(const ConnectParameters& parameters) noexcept {
    if (state_ != State::requested || completions_ == nullptr)
        return fail(Errc::closed, fmt::format("{}: there is no request any more to accept", peer_.to_string()));
    parameters_ = parameters;
    parameters_.private_data = {};
    state_ = State::accepted;
    link_->tell(0, [bytes = copy_of(parameters.private_data)](InProcessQueuePair& connector) {
        connector.was_accepted(bytes);
    });
    return {};
}

void InProcessQueuePair::was_accepted(std::vector<std::byte> private_data) {
    if (state_ != State::requested) {
        // Too late: the acceptor is told.
        link_->carry(1 - side_, [](InProcessQueuePair& acceptor) { acceptor.enter_error(); });
        return;
    }
    connect_timer_.cancel();
    state_ = State::ready;
    link_->tell(1, [](InProcessQueuePair& acceptor) { acceptor.became_ready(); });
    const auto link = link_;
    handler_->accepted(private_data);
    if (link->ends[0] != nullptr) link->ends[0]->pump();
}

void InProcessQueuePair::became_ready() noexcept {
    if (state_ != State::accepted) return;
    state_ = State::ready;
    const auto link = link_;
    if (handler_ != nullptr) handler_->established();
    if (link->ends[1] != nullptr) link->ends[1]->pump();
}

void InProcessQueuePair::reject(std::span<const std::byte> private_data) noexcept {
    if (state_ != State::requested) return;
    state_ = State::error;
    link_->tell(0, [bytes = copy_of(private_data)](InProcessQueuePair& connector) {
        connector.was_rejected(reject_consumer_defined, bytes);
    });
}

void InProcessQueuePair::was_rejected(std::uint16_t reason, std::vector<std::byte> private_data) {
    if (state_ != State::requested) return;
    connect_timer_.cancel();
    state_ = State::error;
    handler_->rejected(reason, private_data);
}

void InProcessQueuePair::disconnect() noexcept {
    if (state_ != State::ready && state_ != State::accepted) {
        state_ = State::error;
        return;
    }
    enter_error();
}

/// Also when the peer says so, or fails. What is outstanding is flushed; both sides are told, once each.
void InProcessQueuePair::enter_error() noexcept {
    if (state_ == State::error) return;
    state_ = State::error;
    receiver_timer_.cancel();
    retry_timer_.cancel();
    for (; sends_.count != 0; sends_.pop()) complete(sends_.at(0), WorkStatus::flushed);
    for (; receives_.count != 0; receives_.pop()) complete(receives_.at(0), WorkStatus::flushed);
    executed_ = arrived_ = 0;
    link_->carry(1 - side_, [](InProcessQueuePair& peer) { peer.enter_error(); });
    if (told_end_) return;
    told_end_ = true;
    const auto link = link_;
    reactor_.post([link, side = side_] {
        InProcessQueuePair* const self = link->ends[side];
        if (self != nullptr && self->handler_ != nullptr) self->handler_->disconnected();
    });
}

}  // namespace mqblk::fabric::rdma
