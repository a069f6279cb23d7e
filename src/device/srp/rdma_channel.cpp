// SPDX-License-Identifier: Apache-2.0
//
// A connection's life: login answered, receives posted, completions taken; its end, when nothing of it is in the SCSI
// disk, nor in the RDMA device, any more.
#include "device/srp/rdma_channel.h"

#include "base/log.h"
#include "device/srp/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace mqblk::device::srp {

using fabric::rdma::WorkCompletion;
using fabric::rdma::WorkStatus;

namespace {
constexpr std::size_t sector_mask = 511;
}

RdmaChannel::RdmaChannel(Parts parts)
    : target_(parts.target),
      units_(std::move(parts.units)),
      worker_(std::move(parts.worker)),
      reactor_(parts.queue_pair->reactor()),
      login_(parts.request),
      grant_(parts.grant),
      initiator_(parts.request.initiator_port),
      depth_(parts.queue_depth),
      id_(parts.id),
      share_(worker_->share_of(initiator_)),
      nexuses_(units_->entries().size()),
      queue_pair_(std::move(parts.queue_pair)) {
    queue_pair_->set_handler(*this);
}

RdmaChannel::~RdmaChannel() {
    ending_ = retired_ = true;
    reactor_.remove(*this);
    queue_pair_.reset();  // from here on nothing touches memory, and nothing completes
    for (SrpCommand& command : commands_) {
        command.works = 0;
        command.aborted = true;
        if (command.state == SrpCommand::State::waiting_table) worker_->tables().shares().cancel(command.table_request);
        if (command.state == SrpCommand::State::waiting_data) worker_->data().shares().cancel(command.data_request);
    }
    nexuses_.clear();  // ends what they have
    for (SrpCommand& command : commands_) release(command);
    completions_.reset();
    if (memory_key_ != 0) worker_->domain().unregister(memory_key_);
}

Result<> RdmaChannel::set_up() {
    const std::uint32_t receives = depth_ + spare_receives;
    const std::uint32_t slots = 2 * depth_ + spare_receives;
    const std::size_t unit_bytes = grant_.it_iu_bytes;
    // Immediate data begin on a sector's boundary of memory: disks take them where they are.
    receive_pad_ = grant_.immediate_offset ? -std::size_t{*grant_.immediate_offset} & sector_mask : 0;
    receive_stride_ = (receive_pad_ + unit_bytes + sector_mask) & ~sector_mask;
    answers_at_ = receives * receive_stride_;
    auto memory = memory::Buffer::allocate(answers_at_ + (std::size_t{slots} + 1) * answer_bytes);
    if (!memory) return std::unexpected(memory.error());
    memory_ = std::move(*memory);
    memory_key_ = worker_->domain().register_range(memory_.data(), memory_.size(), fabric::rdma::access_local_write);
    if (memory_key_ == 0) return fail(Errc::no_space, "the RDMA device does not register memory for a connection");

    commands_ = std::vector<SrpCommand>(slots);
    for (std::uint32_t i = slots; i-- > 0;) {
        SrpCommand& command = commands_[i];
        command.index = static_cast<std::uint16_t>(i);
        command.channel = this;
        command.next = std::exchange(free_, &command);
    }
    received_bytes_.resize(receives);
    places_.resize(nexuses_.size());
    for (unsigned i = 0; i < places_.size(); ++i) places_[i] = {this, i};

    // Answers, tables, data, and a request of the target's own.
    const std::uint32_t sends = 2 * slots + move_depth + 1;
    auto completions = worker_->domain().make_completion_queue(receives + sends);
    if (!completions) return std::unexpected(completions.error());
    completions_ = std::move(*completions);
    return queue_pair_->create({.max_sends = sends, .max_receives = receives}, *completions_);
}

Result<> RdmaChannel::accept() {
    if (auto ready = set_up(); !ready) return ready;
    for (std::uint32_t i = 0; i < received_bytes_.size(); ++i) post_receive(i);
    limit_ = depth_;
    const auto answer = std::as_bytes(std::span(&grant_.answer, 1));
    if (auto accepted = queue_pair_->accept({.private_data = answer}); !accepted) return accepted;
    reactor_.add(*this);
    return {};
}

void RdmaChannel::reject(wire::srp::RejectReason reason) noexcept {
    const auto rejection = make_rejection(login_.tag, reason);
    queue_pair_->reject(std::as_bytes(std::span(&rejection, 1)));
}

void RdmaChannel::established() noexcept {
    established_ = true;
}

void RdmaChannel::disconnected() noexcept {
    end(nullptr);
}

void RdmaChannel::orphaned() noexcept {
    target_.drop(*this);
}

std::string RdmaChannel::name() const {
    return fmt::format("{} (initiator port {:016x}{:016x})", queue_pair_->peer(), initiator_.first.value(),
                       initiator_.second.value());
}

void RdmaChannel::end(const char* why) noexcept {
    if (ending_) return;
    ending_ = true;
    if (why != nullptr) log_limited(why, fmt::format("SRP connection of {} ended: {}", name(), why));
    queue_pair_->disconnect();
    queued_.clear();
    for (SrpCommand& command : commands_) {
        if (command.state == SrpCommand::State::task) {
            free(command);
        } else if (command.state != SrpCommand::State::free) {
            abort_command(command);
        }
    }
    for (const auto& nexus : nexuses_) {
        if (nexus) nexus->drop_cancelled();
    }
    lingers_ = used_ > 0;
}

void RdmaChannel::settle() noexcept {
    if (!ending_ || retired_ || used_ > 0) return;
    retired_ = true;
    target_.retire(*this);
}

unsigned RdmaChannel::poll() noexcept {
    std::array<WorkCompletion, most_completions> batch;
    const unsigned count = completions_->poll(batch);
    for (unsigned i = 0; i < count; ++i) completed(batch[i]);
    unsigned events = count;
    for (const auto& nexus : nexuses_) {
        if (nexus && nexus->outstanding() > 0) events += nexus->poll();
    }
    take_queued();
    post_moves();
    give_owed_credits();
    settle();
    return events;
}

bool RdmaChannel::prepare_sleep() noexcept {
    return completions_->arm();
}

void RdmaChannel::completed(const WorkCompletion& completion) noexcept {
    const auto kind = static_cast<Kind>(completion.id >> 32);
    const auto index = static_cast<std::uint32_t>(completion.id);
    const bool good = completion.status == WorkStatus::success;
    if (!good && completion.status != WorkStatus::flushed) {
        log_limited("srp: RDMA error", fmt::format("SRP connection of {}: {}", name(), to_string(completion.status)));
        end(nullptr);
    } else if (!good) {
        end(nullptr);
    }
    switch (kind) {
        case kind_receive:
            if (good && !ending_) received(index, completion.bytes);
            return;
        case kind_answer:
            return free(commands_[index]);
        case kind_move:
            return move_completed(commands_[index]);
        case kind_request:
            return;
    }
}

}  // namespace mqblk::device::srp
