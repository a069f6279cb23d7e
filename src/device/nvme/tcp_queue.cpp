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
      timer_([this] { timer_expired(); }) {
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
    so_far_.bytes_in += received;
    if (received > 0 && stream_.partial()) guard_progress();
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
    so_far_.bytes_out += sent;
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
        stream_.connection().arm(false);
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
    timer_.cancel();
    wire::nvme_tcp::PduRules rules = stream_.rules();
    rules.max_capsule_data = std::min(std::max(core_->in_capsule_bytes(), wire::nvme_tcp::admin_capsule_bytes),
                                      fabric::NvmeTcpStream::max_in_place);
    stream_.set_rules(rules);
}

TcpQueue::Owed TcpQueue::owed() const noexcept {
    Owed now = so_far_;
    now.data = transfers_used_ > 0;
    now.reading = stream_.unsent();
    now.pdu = stream_.partial();
    return now;
}

// A host that owes data, or does not read its answers, holds buffers that others wait for; one that begins a PDU and
// lets the rest drip holds a connection. One timer, armed while something is owed, looks at what has come of it: no
// cost for each command.
void TcpQueue::guard_progress() noexcept {
    if (!connected_ || ending_ || timer_.armed()) return;
    const Owed now = owed();
    if (!now.data && !now.reading && !now.pdu) return;
    owed_before_ = now;
    timer_.arm(worker_.reactor, worker_.reactor.now() + stall_limit);
}

/// Why the host is given up, or null. Each rule: it was owed before, it is still, none was completed meanwhile, and
/// hardly a byte has moved. A PDU is to be complete within three times stall_limit of its first byte, whatever moves.
const char* TcpQueue::stalled() noexcept {
    const Owed& before = owed_before_;
    const Owed now = owed();
    if (before.data && now.data && now.transfers == before.transfers && now.bytes_in - before.bytes_in < stall_bytes)
        return "the host does not send the data it was asked for, or too slowly";
    if (before.reading && now.reading && now.sent == before.sent && now.bytes_out - before.bytes_out < stall_bytes)
        return "the host does not read its answers, or too slowly";
    if (before.pdu && now.pdu && now.pdus == before.pdus) {
        if (std::exchange(slow_pdu_, now.pdus) != now.pdus) slow_times_ = 0;
        if (++slow_times_ >= pdu_stalls) return "the host began a PDU and did not end it in time";
    }
    return nullptr;
}

void TcpQueue::timer_expired() noexcept {
    if (ending_) {
        stream_.retire();
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
        if (command.state == TcpCommand::State::waiting) worker_.pool(command.from_reserve).cancel(command.buffer);
        core_->abandon(command.core);
        free(command);
    }
    transfers_ = {};
    transfers_used_ = 0;
    free_transfer_ = 0;
}

void TcpQueue::settle() noexcept {
    if (!settled_) {
        settled_ = true;
        timer_.cancel();
        abandon_unbegun();
        if (core_) core_->disconnect();
        if (stream_.terminated()) {
            timer_.arm(worker_.reactor, worker_.reactor.now() + linger);
            stream_.flush();
        } else if (draining_ && stream_.open()) {
            stream_.drop_data();  // where they were to go was given up
            timer_.arm(worker_.reactor, worker_.reactor.now() + drain_limit);
        } else {
            stream_.retire();
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
