// SPDX-License-Identifier: Apache-2.0
//
// QueuePair: one submission and completion queue at a target, whatever carries it. The admin queue and every I/O queue
// hold one; implementations are TcpQueuePair and LoopQueuePair. Capsule: one command on such a queue with its data; it
// lies in the request's payload, or in the admin queue's slots.
//
// A pair never recovers. Whatever the target does wrong makes it lost(), for good, with the reason; the owner sees that
// after poll() or commit(), destroys the pair, and knows of every command still outstanding by itself.
#pragma once

#include "driver/nvme/data_cursor.h"
#include "driver/nvme/drain.h"
#include "fabric/loop.h"
#include "wire/nvme.h"

#include <cstdint>
#include <string>

namespace mqblk::driver::nvme {

enum class Transfer : std::uint8_t { none, to_target, to_host };

struct Capsule {
    /// Where a command stands. Only `sent` ones may be named by the target.
    enum class State : std::uint8_t { idle, sent, waiting };

    fabric::LoopCommand loop;  ///< the command itself and the whole of its data
    DataCursor cursor;         ///< next byte to receive, or to send in answer to an R2T
    std::uint32_t moved = 0;   ///< bytes received so far, or sent for
    Transfer transfer = Transfer::none;
    State state = State::idle;
    bool data_wrong = false;  ///< a data digest did not fit: ends with Data Transfer Error
    bool last_data = false;   ///< data with LAST_PDU came: no more may follow
    bool aborting = false;    ///< it was late once, or is not wanted any more; an Abort is on its way
    bool cancelled = false;   ///< not wanted any more: it is not sent again
    std::uint8_t retries = 0;
    Time retry_at{};           ///< while it waits: not before
    std::uint8_t unsent = 0;   ///< transfers that the connection has not taken whole: its memory is in use
    Segment flat{nullptr, 0};  ///< the data when it is one piece
    wire::nvme::DsmRange range;

    [[nodiscard]] wire::nvme::Command& command() noexcept { return loop.command; }
    [[nodiscard]] std::uint32_t bytes() const noexcept { return static_cast<std::uint32_t>(loop.data_bytes); }

    /// Sets the data: `list` holds `bytes` in all and stays until the command is over.
    void set_data(Transfer direction, Segments list, std::uint64_t bytes) noexcept {
        transfer = direction;
        loop.data = list;
        loop.data_bytes = bytes;
    }
    void set_flat(Transfer direction, void* data, std::uint64_t bytes) noexcept {
        flat = {static_cast<std::byte*>(data), bytes};
        set_data(direction, Segments(&flat, 1), bytes);
    }
    void set_no_data() noexcept { set_data(Transfer::none, {}, 0); }

    /// Before every sending, the first and those that repeat it on a new connection.
    void rewind() noexcept {
        cursor = DataCursor(loop.data);
        moved = 0;
        data_wrong = last_data = aborting = false;
        unsent = 0;
        state = State::sent;
    }
};

/// What a queue pair tells its owner; always from within its poll() or submit().
class QueuePairEvents {
  public:
    /// The command of this identifier if it was sent and has not completed, else null: the target lies.
    [[nodiscard]] virtual Capsule* find(std::uint16_t command_id) noexcept = 0;
    /// It is over; the pair has forgotten it. Submitting from within is allowed, destroying the pair is not.
    virtual void completed(Capsule&, const wire::nvme::Completion&) noexcept = 0;

  protected:
    ~QueuePairEvents() = default;
};

class QueuePair {
  public:
    virtual ~QueuePair() = default;  ///< closes; touches no capsule's data afterwards and calls no event
    QueuePair() = default;
    QueuePair(const QueuePair&) = delete;
    QueuePair& operator=(const QueuePair&) = delete;

    /// Takes a command that was rewound and whose SQE is complete but for its data pointer. On a lost pair it does
    /// nothing.
    virtual void submit(Capsule&) noexcept = 0;
    /// Pushes out what was submitted.
    virtual void commit() noexcept = 0;
    /// Completions. Returns how many events it handled.
    virtual unsigned poll() noexcept = 0;
    virtual bool prepare_sleep() noexcept = 0;
    /// Gives the pair up: touches no capsule's data afterwards and calls no event; only to be destroyed. What was sent
    /// may still be carried out until the connection is over.
    [[nodiscard]] virtual Parting part() noexcept = 0;

    [[nodiscard]] bool lost() const noexcept { return lost_; }
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

  protected:
    void lose(std::string reason) {
        if (lost_) return;
        lost_ = true;
        reason_ = std::move(reason);
    }

  private:
    bool lost_ = false;
    std::string reason_;
};

}  // namespace mqblk::driver::nvme
