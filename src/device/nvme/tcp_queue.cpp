// SPDX-License-Identifier: Apache-2.0
//
// The life of a target queue's connection: polled, resting, ending. Everything that ends it only notes so; settle(), at
// the end of a pass, gives up what the core has not begun, tells the core, and lets the queue go when the last command
// has come back. The host reads the end of the connection only then: it may take that for a sign that nothing it sent
// there can have an effect any more. NVM Express TCP Transport Specification 1.0, sections 3.3.1, 3.5 (termination).
#include "device/nvme/tcp_queue.h"

#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace mqblk::device::nvme {

namespace {

wire::nvme_tcp::PduRules before_initialization() noexcept {
    wire::nvme_tcp::PduRules rules;
    rules.sender = wire::nvme_tcp::Sender::host;
    return rules;
}

}  // namespace

TcpQueue::TcpQueue(TcpWorker& worker, std::unique_ptr<fabric::Connection> connection)
    : worker_(worker),
      stream_(std::move(connection), worker.streams, *this, before_initialization()),
      timer_([this] { timer_expired(); }),
      unread_timer_([this] { look_at_unread(); }) {
    stream_.connection().on_ready([this] {
        blocked_ = 0;
        activate();
    });
    timer_.arm(worker_.reactor, worker_.reactor.now() + worker_.options.handshake);
    worker_.reactor.add(*this);
}

TcpQueue::~TcpQueue() = default;

unsigned TcpQueue::poll() noexcept {
    const std::size_t received = stream_.receive();
    if (received > 0 && stream_.partial()) guard_progress();
    if (received == 0 && !stream_.readable() && !unread_timer_.armed()) {
        unread_timer_.arm(worker_.reactor, worker_.reactor.now() + unread_look);
    }
    unsigned events = received > 0 ? 1 : 0;
    if (core_) events += core_->poll();
    send();
    if (ending_) {
        settle();
    } else if (events > 0 || busy() || stream_.unsent()) {
        quiet_ = 0;
    } else if (++quiet_ >= quiet_passes) {
        rest();
    }
    return events;
}

// A host that reads takes more within a few passes; for one that does not, the socket says when.
void TcpQueue::send() noexcept {
    if (blocked_ >= blocked_passes) return;
    const std::size_t sent = stream_.flush();
    if (sent > 0 || !stream_.blocked()) {
        blocked_ = 0;
    } else if (++blocked_ == blocked_passes) {
        stream_.connection().arm(true);
        guard_progress();
    }
}

bool TcpQueue::prepare_sleep() noexcept {
    if (ending_ && !settled_) return false;
    if (!busy() && !stream_.unsent()) {
        rest();
    } else if (stream_.open()) {
        if (stream_.readable()) {
            stream_.connection().arm(false);
        }
        if (stream_.blocked()) stream_.connection().arm(true);
        guard_progress();
    }
    return !core_ || core_->prepare_sleep();
}

// Out of the list of pollers, without buffers, until the host sends something or an event is reported to it.
void TcpQueue::rest() noexcept {
    resting_ = true;
    worker_.reactor.remove(*this);
    if (!stream_.open()) return;
    stream_.rest();
    if (transfers_used_ == 0) {
        transfers_ = {};
        free_transfer_ = 0;
    }
    stream_.connection().arm(false);
    guard_progress();
}

void TcpQueue::activate() noexcept {
    if (!resting_ || retired_) return;
    resting_ = false;
    quiet_ = 0;
    worker_.reactor.add(*this);
}

void TcpQueue::end(const char* why) noexcept {
    if (ending_) return;
    ending_ = true;
    if (why != nullptr) log_limited(why, fmt::format("NVMe/TCP connection {} closed: {}", name(), why));
    activate();
}

void TcpQueue::on_violation(const Violation& violation) noexcept {
    log_limited(violation.what, fmt::format("NVMe/TCP connection {} terminated: {} (FES {}, FEI {:#x})", name(),
                                            violation.what, static_cast<unsigned>(violation.fes), violation.fei));
    end(nullptr);
}

void TcpQueue::on_closed(int error_number) noexcept {
    if (!ending_ && log_enabled(LogLevel::info)) {
        log_info(fmt::format("NVMe/TCP connection closed by its host{}{}", error_number != 0 ? ": " : "",
                             error_number != 0 ? std::strerror(error_number) : ""));
    }
    end(nullptr);
    if (settled_) give_up_begun();
    activate();
}

void TcpQueue::shutdown() noexcept {
    if (ending_) return;
    draining_ = connected_ && (busy() || stream_.unsent());
    end(nullptr);
}

void TcpQueue::close(std::uint16_t why_status) noexcept {
    if (worker_.target_ends()) return shutdown();  // its admin queue was only the first to go
    log_info(fmt::format("NVMe/TCP connection {} closed by its controller, status {:#x}", name(), why_status));
    end(nullptr);
}

std::string TcpQueue::name() const {
    const std::string peer = stream_.open() ? stream_.connection().peer() : std::string("to a host that left");
    return connected_ ? fmt::format("{} (host {}, queue {})", peer, core_->peer_nqn(), core_->queue_id()) : peer;
}

void TcpQueue::note_connected() noexcept {
    connected_ = true;
    host_share_ = worker_.share_of(core_->peer_nqn());
    timer_.cancel();
    wire::nvme_tcp::PduRules rules = stream_.rules();
    rules.max_capsule_data = std::min(std::max(core_->in_capsule_bytes(), wire::nvme_tcp::admin_capsule_bytes),
                                      fabric::NvmeTcpStream::max_in_place);
    stream_.set_rules(rules);
}

bool TcpQueue::anything_owed() const noexcept {
    return transfers_used_ > 0 || so_far_.answers > so_far_.answers_taken || stream_.partial();
}

bool TcpQueue::owes_transfer_before(std::uint64_t number) const noexcept {
    return std::ranges::any_of(transfers_, [number](const Transfer& transfer) {
        return transfer.command != nullptr && transfer.number < number;
    });
}

// A host that owes data, or does not read its answers, holds buffers that others wait for; one that begins a PDU and
// lets the rest drip holds a connection. One timer, armed while something is owed, with time for all that is owed then:
// no cost for each command.
void TcpQueue::guard_progress() noexcept {
    if (!connected_ || ending_ || timer_.armed() || !anything_owed()) return;
    owed_before_ = so_far_;
    owed_before_.pdu = stream_.partial();
    const Duration for_bytes = std::chrono::seconds(so_far_.bytes / stall_rate);
    timer_.arm(worker_.reactor, worker_.reactor.now() + stall_limit + for_bytes);
}

/// Why the host is given up, or null. All that was owed when the timer was armed is to be done, whatever has moved: so
/// data are there whole within twice the time that the timer had, counted from their R2T. A PDU is to be complete
/// within three times of it.
const char* TcpQueue::stalled() noexcept {
    const Owed& before = owed_before_;
    if (owes_transfer_before(before.asked)) return "the host does not send the data it was asked for, or too slowly";
    if (so_far_.answers_taken < before.answers) return "the host does not read its answers, or too slowly";
    if (before.pdu && stream_.partial() && so_far_.pdus == before.pdus) {
        if (std::exchange(slow_pdu_, so_far_.pdus) != so_far_.pdus) slow_times_ = 0;
        if (++slow_times_ >= pdu_stalls) return "the host began a PDU and did not end it in time";
    }
    return nullptr;
}

// What is held leaves no memory to read into, so the socket is not watched; but a host that has gone wants nothing of
// what it sent any more.
void TcpQueue::look_at_unread() noexcept {
    if (!ending_ && stream_.open() && !stream_.readable() && stream_.connection().peer_left()) on_closed(0);
}

void TcpQueue::timer_expired() noexcept {
    if (ending_) {
        stream_.retire();
        give_up_begun();
        activate();
    } else if (!connected_) {
        end("no Connect within the time that is allowed for it");
    } else if (const char* const why = stalled()) {
        end(why);
    } else {
        guard_progress();
    }
}

void TcpQueue::abandon_unbegun() noexcept {
    if (current_ != nullptr && current_->state == TcpCommand::State::refused) free(*current_);
    current_ = nullptr;
    while (unbegun_ != nullptr) {
        TcpCommand& command = *unbegun_;
        unlist(command);
        if (command.state == TcpCommand::State::waiting) worker_.shares(command.from_reserve).cancel(command.buffer);
        core_->abandon(command.core);
        free(command);
    }
    transfers_ = {};
    transfers_used_ = 0;
    free_transfer_ = 0;
}

// Nobody will read their answers: what waits for a turn at a backend ends without one.
void TcpQueue::give_up_begun() noexcept {
    if (!core_ || core_->outstanding() == 0) return;
    worker_.commands.for_each([this](TcpCommand& command) {
        if (command.queue == this && command.state == TcpCommand::State::executing) core_->give_up(command.core);
    });
    core_->drop_given_up();
}

void TcpQueue::settle() noexcept {
    if (!settled_) {
        settled_ = true;
        timer_.cancel();
        unread_timer_.cancel();
        abandon_unbegun();
        if (core_) core_->disconnect();
        if (stream_.terminated()) {
            timer_.arm(worker_.reactor, worker_.reactor.now() + linger);
            stream_.flush();
            give_up_begun();
        } else if (draining_ && stream_.open()) {
            stream_.drop_data();  // where they were to go was given up
            timer_.arm(worker_.reactor, worker_.reactor.now() + drain_limit);
        } else {
            stream_.retire();
            give_up_begun();
        }
    }
    if (commands_ > 0 || (core_ && (core_->outstanding() > 0 || core_->loans() > 0))) return;
    if (stream_.open()) {
        if (stream_.unsent()) return;
        if (!std::exchange(half_closed_, true)) {
            stream_.connection().shutdown();
            if (draining_) timer_.arm(worker_.reactor, worker_.reactor.now() + farewell);
        }
        rest();
        return;
    }
    if (retired_) return;
    retired_ = true;
    timer_.cancel();
    worker_.reactor.remove(*this);
    worker_.retire(*this);
}

}  // namespace mqblk::device::nvme
