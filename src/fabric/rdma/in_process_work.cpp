// SPDX-License-Identifier: Apache-2.0
//
// The data path of RDMA in this process: what an adapter does with work that it is given.
#include "fabric/rdma/in_process_queue_pair.h"
#include "fabric/rdma/in_process_tell.h"
#include "memory/segments.h"

#include <algorithm>

namespace mqblk::fabric::rdma {

namespace {

constexpr Duration receiver_pause = std::chrono::milliseconds(10);
constexpr std::uint8_t retry_without_end = 7;

}  // namespace

bool InProcessQueuePair::post_receive(std::uint64_t id, std::span<const LocalPiece> to) noexcept {
    if (completions_ == nullptr || receives_.count + untaken_receives_ >= shape_.max_receives ||
        to.size() > shape_.max_receive_pieces)
        return false;
    Work& work = receives_.at(receives_.count++);
    work.id = id;
    work.op = WorkOp::receive;
    work.pieces = static_cast<std::uint8_t>(to.size());
    std::copy(to.begin(), to.end(), work.local.begin());
    if (state_ == State::error) {
        complete(work, WorkStatus::flushed);
        --receives_.count;
        return true;
    }
    // Somebody may wait for it.
    if (InProcessQueuePair* const peer = peer_end(); peer != nullptr && peer->waits_ != 0) peer->pump();
    return true;
}

bool InProcessQueuePair::post_send(std::uint64_t id, std::span<const LocalPiece> from, bool signaled) noexcept {
    return post(WorkOp::send, id, from, {}, signaled);
}
bool InProcessQueuePair::post_read(std::uint64_t id, std::span<const LocalPiece> to, const RemotePlace& from,
                                   bool signaled) noexcept {
    return post(WorkOp::read, id, to, from, signaled);
}
bool InProcessQueuePair::post_write(std::uint64_t id, std::span<const LocalPiece> from, const RemotePlace& to,
                                    bool signaled) noexcept {
    return post(WorkOp::write, id, from, to, signaled);
}

bool InProcessQueuePair::post(WorkOp op, std::uint64_t id, std::span<const LocalPiece> pieces,
                              const RemotePlace& remote, bool signaled) noexcept {
    if (!has_room_to_send() || pieces.size() > shape_.max_send_pieces) return false;
    Work& work = sends_.at(sends_.count++);
    work.id = id;
    work.op = op;
    work.signaled = signaled;
    work.remote = remote;
    work.pieces = static_cast<std::uint8_t>(pieces.size());
    std::copy(pieces.begin(), pieces.end(), work.local.begin());
    if (state_ == State::error) {
        complete(work, WorkStatus::flushed);
        --sends_.count;
        return true;
    }
    if (link_->courier == nullptr) {
        ++arrived_;
        pump();
        return true;
    }
    if (!retry_timer_.armed()) {
        completed_seen_ = completed_;
        retry_timer_.arm(reactor_, reactor_.now() + link_->courier->retry_time());
    }
    link_->courier->carry(link_->id, side_, [link = link_, side = side_] {
        if (link->ends[side] != nullptr) link->ends[side]->arrived();
    });
    return true;
}

/// Work that an adapter does by itself, in order with what was posted before: nothing of it can be seen earlier.
bool InProcessQueuePair::local(WorkOp op, std::uint64_t id, bool signaled, bool done) noexcept {
    const Work work{.id = id, .op = op, .signaled = signaled};
    if (!done) {
        complete(work, WorkStatus::local_protection_error);
        enter_error();
    } else if (signaled) {
        complete(work, WorkStatus::success);
    }
    return true;
}

bool InProcessQueuePair::post_register(std::uint64_t id, Region& region, const PageList& list, std::uint8_t access,
                                       bool signaled) noexcept {
    if (!has_room_to_send()) return false;
    if (keys_->refuses()) return false;
    if (state_ == State::error) {
        complete({.id = id, .op = WorkOp::register_pages}, WorkStatus::flushed);
        return true;
    }
    const std::uint32_t key = keys_->keys().map(region.key, list, access);
    if (key != 0) region.key = key;
    return local(WorkOp::register_pages, id, signaled, key != 0);
}

bool InProcessQueuePair::post_invalidate(std::uint64_t id, std::uint32_t key, bool signaled) noexcept {
    if (!has_room_to_send()) return false;
    // Also in error: a queue pair that is gone leaves no key that is valid.
    const bool done = keys_->keys().invalidate(key);
    if (state_ == State::error) {
        complete({.id = id, .op = WorkOp::invalidate}, WorkStatus::flushed);
        return true;
    }
    return local(WorkOp::invalidate, id, signaled, done);
}

void InProcessQueuePair::arrived() noexcept {
    if (state_ == State::error) return;
    if (executed_ + arrived_ < sends_.count) ++arrived_;
    pump();
}

void InProcessQueuePair::pump() noexcept {
    while (state_ == State::ready && arrived_ != 0) {
        if (!execute(sends_.at(executed_))) return;
    }
}

bool InProcessQueuePair::execute(Work& work) noexcept {
    InProcessQueuePair* const peer = peer_end();
    if (peer == nullptr || peer->state_ == State::error) {
        // It has left, and word of that is on its way.
        fail_work(WorkStatus::retry_exceeded);
        return true;
    }
    if (!peer->receives()) return false;
    std::uint64_t bytes = 0;
    for (unsigned i = 0; i < work.pieces; ++i) bytes += work.local[i].bytes;
    if (work.op == WorkOp::send) return execute_send(work, bytes, *peer);
    execute_access(work, bytes, *peer);
    return true;
}

bool InProcessQueuePair::resolve_local(const Work& work, std::uint8_t access, std::vector<Segment>& to) noexcept {
    to.clear();
    for (unsigned i = 0; i < work.pieces; ++i) {
        const LocalPiece& piece = work.local[i];
        if (piece.bytes == 0) continue;
        if (!keys_->keys().resolve(piece.key, reinterpret_cast<std::uintptr_t>(piece.data), piece.bytes, access, to))
            return false;
    }
    return true;
}

bool InProcessQueuePair::execute_send(Work& work, std::uint64_t bytes, InProcessQueuePair& peer) noexcept {
    if (peer.receives_.count == 0) {
        wait_for_receiver();
        return state_ == State::error;
    }
    waits_ = 0;
    receiver_timer_.cancel();
    Work& receive = peer.receives_.at(0);
    std::uint64_t room = 0;
    for (unsigned i = 0; i < receive.pieces; ++i) room += receive.local[i].bytes;
    if (!resolve_local(work, 0, link_->near)) {
        fail_work(WorkStatus::local_protection_error);
        return true;
    }
    const bool fits = bytes <= room;
    if (!fits || !peer.resolve_local(receive, access_local_write, link_->far)) {
        peer.complete(receive, fits ? WorkStatus::local_protection_error : WorkStatus::local_length_error);
        peer.receives_.pop();
        fail_work(fits ? WorkStatus::remote_operation_error : WorkStatus::remote_invalid_request);
        return true;
    }
    memory::copy(Segments(link_->far), Segments(link_->near));
    peer.complete(receive, WorkStatus::success, static_cast<std::uint32_t>(bytes));
    peer.receives_.pop();
    executed();
    return true;
}

void InProcessQueuePair::execute_access(Work& work, std::uint64_t bytes, InProcessQueuePair& peer) noexcept {
    const bool reads = work.op == WorkOp::read;
    if (bytes > keys_->limits().max_message_bytes) return fail_work(WorkStatus::local_length_error);
    if (!resolve_local(work, reads ? std::uint8_t{access_local_write} : std::uint8_t{0}, link_->near))
        return fail_work(WorkStatus::local_protection_error);
    link_->far.clear();
    if (bytes != 0 && !peer.keys_->keys().resolve(
                          work.remote.key, work.remote.address, bytes,
                          reads ? std::uint8_t{access_remote_read} : std::uint8_t{access_remote_write}, link_->far))
        return fail_work(WorkStatus::remote_access_error);
    if (reads)
        memory::copy(Segments(link_->near), Segments(link_->far));
    else
        memory::copy(Segments(link_->far), Segments(link_->near));
    executed();
}

/// The oldest one that had not been.
void InProcessQueuePair::executed() noexcept {
    --arrived_;
    ++executed_;
    if (link_->courier == nullptr) return acknowledged();
    link_->courier->carry(link_->id, 1 - side_, [link = link_, side = side_] {
        if (link->ends[side] != nullptr) link->ends[side]->acknowledged();
    });
}

void InProcessQueuePair::acknowledged() noexcept {
    if (state_ == State::error || executed_ == 0) return;
    if (const Work& work = sends_.at(0); work.signaled) complete(work, WorkStatus::success);
    sends_.pop();
    --executed_;
    ++completed_;
}

void InProcessQueuePair::wait_for_receiver() noexcept {
    if (parameters_.rnr_retry_count < retry_without_end && waits_ > parameters_.rnr_retry_count)
        return fail_work(WorkStatus::rnr_retry_exceeded);
    if (waits_ == 0) waits_ = 1;
    if (parameters_.rnr_retry_count < retry_without_end && !receiver_timer_.armed())
        receiver_timer_.arm(reactor_, reactor_.now() + receiver_pause);
}

void InProcessQueuePair::retried() noexcept {
    if (state_ != State::ready || waits_ == 0) return;
    ++waits_;
    pump();
}

void InProcessQueuePair::complete(const Work& work, WorkStatus status, std::uint32_t bytes) noexcept {
    completions_->push({.id = work.id, .op = work.op, .status = status, .bytes = bytes},
                       work.op == WorkOp::receive ? untaken_receives_ : untaken_sends_);
}

void InProcessQueuePair::fail_work(WorkStatus status) noexcept {
    // What was carried out before it is over, as its acknowledgement would have come first.
    for (; executed_ != 0; --executed_) {
        if (const Work& work = sends_.at(0); work.signaled) complete(work, WorkStatus::success);
        sends_.pop();
    }
    if (sends_.count != 0) {
        complete(sends_.at(0), status);
        sends_.pop();
    }
    enter_error();
}

}  // namespace mqblk::fabric::rdma
