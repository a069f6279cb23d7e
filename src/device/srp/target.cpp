// SPDX-License-Identifier: Apache-2.0
#include "device/srp/target.h"

#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace mqblk::device::srp {

using wire::srp::LoginReq;
using wire::srp::RejectReason;

/// Given up by each channel when what a task ends there has ended.
class TaskToken {
  public:
    TaskToken(Target& target, std::uint64_t channel, unsigned index, std::uint64_t number)
        : target_(target), channel_(channel), index_(index), number_(number) {}
    ~TaskToken() { target_.task_ended(channel_, index_, number_); }
    TaskToken(const TaskToken&) = delete;
    TaskToken& operator=(const TaskToken&) = delete;

  private:
    Target& target_;
    const std::uint64_t channel_;
    const unsigned index_;
    const std::uint64_t number_;
};

Result<std::unique_ptr<Target>> Target::create(TargetOptions options, std::vector<UnitConfig> units) {
    auto table = UnitTable::create(std::move(units), options.max_transfer_bytes);
    if (!table) return std::unexpected(table.error());
    return std::make_unique<Target>(std::move(options), std::move(*table));
}

Target::Target(TargetOptions options, std::shared_ptr<const UnitTable> units)
    : options_(std::move(options)), units_(std::move(units)) {}

Target::~Target() {
    assert(channels_.empty());
}

Result<fabric::Address> Target::listen(fabric::rdma::Network& network, Reactor& reactor,
                                       const fabric::Address& address) {
    auto listener = network.listen(
        reactor, address, [this](std::unique_ptr<fabric::rdma::QueuePair> pair, std::span<const std::byte> data) {
            requested(std::move(pair), data);
        });
    if (!listener) return std::unexpected(listener.error());
    const auto taken = (*listener)->address();
    const std::lock_guard lock(mutex_);
    listening_.push_back({&reactor, std::move(*listener)});
    return taken;
}

void Target::stop_listening(Reactor& reactor) {
    std::vector<Listening> ended;  // its end waits for requests that are being handled, which want the mutex
    const std::lock_guard lock(mutex_);
    for (auto& entry : listening_) {
        if (entry.reactor == &reactor) ended.push_back(std::move(entry));
    }
    std::erase_if(listening_, [](const Listening& entry) { return entry.listener == nullptr; });
}

void Target::requested(std::unique_ptr<fabric::rdma::QueuePair> pair, std::span<const std::byte> private_data) {
    // RDMA CM leaves 56 bytes, InfiniBand's own CM 92.
    const bool rdma_cm = private_data.size() < sizeof(LoginReq);
    const auto request = wire::srp::decode_login_req(private_data, rdma_cm);
    if (!request) {
        log_limited("srp: malformed login",
                    fmt::format("SRP login from {} rejected: {}", pair->peer(), request.error()));
        const auto rejection = make_rejection({}, RejectReason::unable_to_establish);
        return pair->reject(std::as_bytes(std::span(&rejection, 1)));
    }
    const auto channel = log_in(pair, *request);
    if (channel) return;
    log_limited("srp: login rejected",
                fmt::format("SRP login from {} rejected: {}", pair ? pair->peer() : "an initiator",
                            wire::srp::to_words(channel.error())));
    const auto rejection = make_rejection(request->tag, channel.error());
    if (pair) pair->reject(std::as_bytes(std::span(&rejection, 1)));
}

/// Under the lock.
std::expected<LoginGrant, RejectReason> Target::decide(const LoginReq& request) const {
    if (ending_) return std::unexpected(RejectReason::unable_to_establish);
    if (channels_.size() >= options_.max_connections) return std::unexpected(RejectReason::insufficient_resources);
    const auto present = std::ranges::count_if(
        channels_, [&](const auto& entry) { return entry.second->initiator() == request.initiator_port; });
    // What its initiator sends again must not be overtaken by what it lost: it comes back when that has ended.
    const bool lingers = std::ranges::any_of(channels_, [&](const auto& entry) {
        return entry.second->lingers() && entry.second->initiator() == request.initiator_port;
    });
    if (lingers) return std::unexpected(RejectReason::insufficient_resources);
    return decide_login(request, options_.login, static_cast<unsigned>(present));
}

std::expected<std::shared_ptr<RdmaChannel>, RejectReason> Target::log_in(std::unique_ptr<fabric::rdma::QueuePair>& pair,
                                                                         const LoginReq& request) {
    {
        // Whom nothing is granted costs no memory.
        const std::lock_guard lock(mutex_);
        if (const auto grant = decide(request); !grant) return std::unexpected(grant.error());
    }
    const auto worker = worker_for(*pair);
    if (!worker) return std::unexpected(RejectReason::insufficient_resources);
    std::shared_ptr<RdmaChannel> channel;
    {
        // From the decision until it is in the list: of two logins one comes first.
        const std::lock_guard lock(mutex_);
        const auto grant = decide(request);
        if (!grant) return std::unexpected(grant.error());
        if (grant->ends_others) {
            for (const auto& [id, other] : channels_) {
                if (!(other->initiator() == request.initiator_port)) continue;
                other->reactor().post([weak = std::weak_ptr(other)] {
                    if (const auto there = weak.lock()) there->end("its initiator has logged in anew");
                });
            }
        }
        channel = std::make_shared<RdmaChannel>(RdmaChannel::Parts{*this, units_, *worker, std::move(pair), request,
                                                                   *grant, options_.login.queue_depth, next_id_});
        channels_[next_id_++] = channel;
    }
    if (const auto accepted = channel->accept(); !accepted) {
        log_limited("srp: no resources", fmt::format("SRP login: {}", accepted.error().message()));
        channel->reject(RejectReason::insufficient_resources);
        erase(channel->id());
        return std::unexpected(RejectReason::insufficient_resources);
    }
    return channel;
}

Result<std::shared_ptr<Worker>> Target::worker_for(fabric::rdma::QueuePair& pair) {
    const auto& domain = pair.domain();
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(workers_, [](const auto& entry) { return entry.second.expired(); });
        if (const auto known = workers_.find(domain.get()); known != workers_.end()) {
            if (auto worker = known->second.lock()) return worker;
        }
    }
    auto worker = Worker::create(domain, pair.reactor(), options_.buffer_bytes, options_.max_transfer_bytes);
    if (!worker) {
        log_limited("srp: no memory", fmt::format("SRP login: {}", worker.error().message()));
        return worker;
    }
    const std::lock_guard lock(mutex_);
    workers_[domain.get()] = *worker;
    return worker;
}

void Target::retire(RdmaChannel& channel) {
    channel.reactor().post([this, id = channel.id()] { erase(id); });
}

void Target::erase(std::uint64_t id) {
    std::shared_ptr<RdmaChannel> gone;  // its end takes the mutex
    {
        const std::lock_guard lock(mutex_);
        const auto found = channels_.find(id);
        if (found == channels_.end()) return;
        gone = std::move(found->second);
        channels_.erase(found);
    }
    gone.reset();
    finish_shutdown();
}

void Target::finish_shutdown() {
    std::function<void()> done;
    {
        const std::lock_guard lock(mutex_);
        if (!ending_ || !channels_.empty()) return;
        done = std::exchange(shut_down_, nullptr);
    }
    if (done) done();
}

void Target::shutdown(std::function<void()> done) {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
        shut_down_ = std::move(done);
        for (const auto& [id, channel] : channels_) {
            channel->reactor().post([weak = std::weak_ptr(channel)] {
                if (const auto there = weak.lock()) there->end(nullptr);
            });
        }
    }
    finish_shutdown();
}

void Target::leave(Reactor& reactor) {
    std::vector<std::shared_ptr<RdmaChannel>> gone;
    {
        const std::lock_guard lock(mutex_);
        for (auto& [id, channel] : channels_) {
            if (&channel->reactor() == &reactor) gone.push_back(std::move(channel));
        }
        std::erase_if(channels_, [](const auto& entry) { return entry.second == nullptr; });
    }
    gone.clear();
    finish_shutdown();
}

unsigned Target::connections() const {
    const std::lock_guard lock(mutex_);
    return static_cast<unsigned>(channels_.size());
}

std::shared_ptr<void> Target::make_task_token(const RdmaChannel& channel, unsigned index, std::uint64_t number) {
    return std::make_shared<TaskToken>(*this, channel.id(), index, number);
}

void Target::abort_elsewhere(const RdmaChannel& from, const AbortOrder& order, bool of_all_initiators) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, channel] : channels_) {
        if (channel.get() == &from || !(of_all_initiators || channel->initiator() == from.initiator())) continue;
        channel->reactor().post([weak = std::weak_ptr(channel), order] {
            if (const auto there = weak.lock()) there->abort(order);
        });
    }
}

void Target::task_ended(std::uint64_t channel, unsigned index, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = channels_.find(channel);
    if (found == channels_.end()) return;
    found->second->reactor().post([weak = std::weak_ptr(found->second), index, number] {
        if (const auto there = weak.lock()) there->task_ended(index, number);
    });
}

}  // namespace mqblk::device::srp
