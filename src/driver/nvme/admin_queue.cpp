// SPDX-License-Identifier: Apache-2.0
//
// Slots, identifiers and time-outs of the admin queue. A completion may resume a coroutine that closes the queue, so
// the pair is let go only when no call into it is running, and the queue itself is held while it calls out.
#include "driver/nvme/admin_queue.h"

#include "driver/nvme/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace mqblk::driver::nvme {

using wire::nvme::Completion;

namespace {
constexpr Duration longest_drain = std::chrono::seconds(30);  // TCP transport 1.0, section 3.5
}

struct AdminQueue::Slot {
    Slot(AdminQueue& queue, std::uint32_t number) : tag(number), timer([this, &queue] { queue.expired(*this); }) {}

    Capsule capsule;
    const std::uint32_t tag;
    std::uint16_t generation = 0;
    std::string_view what;
    Duration timeout{};
    Done done;
    Timer timer;

    [[nodiscard]] std::uint16_t command_id() const noexcept {
        return static_cast<std::uint16_t>(tag | static_cast<std::uint32_t>(generation) << id_bits);
    }
};

AdminQueue::AdminQueue(Reactor& reactor, std::string target, std::function<void(std::string)> lost)
    : reactor_(reactor), target_(std::move(target)), lost_(std::move(lost)), tags_(depth, reserved), tag_user_(tags_) {
    slots_.reserve(depth);
    for (unsigned i = 0; i < depth; ++i) slots_.push_back(std::make_unique<Slot>(*this, i));
}

AdminQueue::~AdminQueue() {
    lost_ = nullptr;
    close(Error(Errc::closed, fmt::format("the admin queue to {} was closed", target_)));
}

void AdminQueue::attach(std::unique_ptr<QueuePair> pair) {
    pair_ = std::move(pair);
    if (!closed_) reactor_.add(*this);
}

void AdminQueue::submit(const Order& order, Done done) {
    if (closed_ || pair_ == nullptr) {
        done(mqblk::fail(Errc::closed, fmt::format("{}: the connection to {} is closed", order.what, target_)));
        return;
    }
    const std::uint32_t tag = order.on_reserved_tag ? tag_user_.get_reserved() : tag_user_.get();
    if (tag == block::TagSet::none) {
        done(mqblk::fail(Errc::no_space, fmt::format("{}: {} admin commands to {} are outstanding already", order.what,
                                                     depth, target_)));
        return;
    }
    Slot& slot = *slots_[tag];
    ++slot.generation;
    slot.what = order.what;
    slot.timeout = order.timeout;
    slot.done = std::move(done);
    Capsule& capsule = slot.capsule;
    capsule = Capsule{};
    capsule.loop.command = order.command;
    capsule.loop.command.command_id = slot.command_id();
    capsule.loop.command.flags = wire::nvme::flag_psdt_sgl;
    if (order.transfer != Transfer::none) capsule.set_flat(order.transfer, order.data.data, order.data.bytes);
    capsule.rewind();
    if (order.timeout > Duration::zero()) {
        slot.timer.arm(reactor_, std::min(reactor_.now() + order.timeout, deadline_));
    }
    ++in_pair_;
    pair_->submit(capsule);
    if (pair_) pair_->commit();
    --in_pair_;
}

Task<Result<Completion>> AdminQueue::execute(Order order) {
    const auto self = shared_from_this();
    // Shared with the callback, which comes even if this coroutine was destroyed while it waited.
    struct Answer {
        Promise<Result<Completion>> promise;
        bool wanted = true;
    };
    const auto answer = std::make_shared<Answer>();
    struct Withdraw {
        Answer& of;
        ~Withdraw() { of.wanted = false; }
    } const withdraw{*answer};
    submit(order, [answer](Result<Completion> result) {
        if (answer->wanted) answer->promise.set(std::move(result));
    });
    co_return co_await answer->promise;
}

Task<Result<Completion>> AdminQueue::require(Order order) {
    auto result = co_await execute(order);
    if (result) {
        const std::uint16_t status = wire::nvme::status_of(*result);
        if ((status & wire::nvme::status::code_mask) != 0) co_return std::unexpected(status_error(order.what, status));
    }
    co_return result;
}

Capsule* AdminQueue::find(std::uint16_t command_id) noexcept {
    Slot& slot = *slots_[command_id & (depth - 1)];
    if (slot.capsule.state != Capsule::State::sent || slot.command_id() != command_id) return nullptr;
    return &slot.capsule;
}

void AdminQueue::completed(Capsule& capsule, const Completion& completion) noexcept {
    Slot& slot = *slots_[capsule.command().command_id & (depth - 1)];
    finish(slot, completion);
}

void AdminQueue::finish(Slot& slot, Result<Completion> result) {
    slot.timer.cancel();
    slot.capsule.state = Capsule::State::idle;
    const Done done = std::exchange(slot.done, nullptr);
    tag_user_.put(slot.tag);
    if (done) done(std::move(result));
}

unsigned AdminQueue::poll() noexcept {
    if (pair_ == nullptr) return 0;
    const auto self = shared_from_this();
    ++in_pair_;
    const unsigned events = pair_->poll();
    if (pair_) pair_->commit();
    --in_pair_;
    if (closed_) {
        part();
    } else if (pair_->lost()) {
        fail(pair_->reason());
    }
    return events;
}

bool AdminQueue::prepare_sleep() noexcept {
    return pair_ == nullptr || pair_->prepare_sleep();
}

void AdminQueue::expired(Slot& slot) {
    const auto milliseconds = [](Duration duration) {
        return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    };
    if (reactor_.now() >= deadline_) {
        fail(fmt::format("no answer to {}; all of connecting may take {} ms", slot.what, milliseconds(bound_)));
    } else {
        fail(fmt::format("no answer to {} within {} ms", slot.what, milliseconds(slot.timeout)));
    }
}

void AdminQueue::fail(std::string reason) {
    if (closed_) return;
    const auto self = shared_from_this();
    const auto lost = std::exchange(lost_, nullptr);
    close(Error(Errc::protocol, fmt::format("{}: {}", target_, reason)));
    if (lost) lost(std::move(reason));
}

void AdminQueue::part() {
    if (pair_ == nullptr) return;
    Parting parting = pair_->part();
    pair_.reset();
    if (parting.connection) {
        drain_ = std::make_unique<Drain>(reactor_, std::move(parting.connection), longest_drain, nullptr);
    }
}

void AdminQueue::close(const Error& why) {
    if (closed_) return;
    closed_ = true;
    reactor_.remove(*this);
    if (in_pair_ == 0) part();
    for (const auto& slot : slots_) {
        if (slot->capsule.state == Capsule::State::sent) finish(*slot, std::unexpected(why));
    }
}

Error status_error(std::string_view what, std::uint16_t status) {
    return Error(errc_of_status(status),
                 fmt::format("{} failed with status {:#x} ({})", what, status, status_text(status)));
}

}  // namespace mqblk::driver::nvme
