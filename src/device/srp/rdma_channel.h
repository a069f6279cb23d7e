// SPDX-License-Identifier: Apache-2.0
//
// RdmaChannel: one connection of an initiator: an RDMA queue pair, its credits, the commands that came by it. Several
// with the same pair of port names make one I_T nexus. Everything but where it says so is its reactor's thread's.
//
// Invariants: for every credit that the initiator has, a receive is posted; a command has one answer, or none if it was
// aborted, whose credit then goes with the next answer; of requests to the initiator at most one is unanswered. SRP
// rev. 16a, chapters 5 and 6.
#pragma once

#include "device/scsi/nexus.h"
#include "device/srp/command.h"
#include "device/srp/login.h"
#include "device/srp/units.h"
#include "device/srp/worker.h"
#include "fabric/rdma/queue_pair.h"
#include "memory/buffer.h"
#include "reactor/reactor.h"

#include <mqblk/error.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::device::srp {

class Target;

/// What a task management request, or another initiator's reservation, ends.
struct AbortOrder {
    std::uint64_t lun = 0;
    std::optional<std::uint64_t> tag{};  ///< one command of the channel; nothing: all of the LUN
    std::shared_ptr<void> ended{};       ///< given up when they have
};

class RdmaChannel final : public Poller, private fabric::rdma::QueuePairHandler {
  public:
    struct Parts {
        Target& target;
        std::shared_ptr<const UnitTable> units;
        std::shared_ptr<Worker> worker;
        std::unique_ptr<fabric::rdma::QueuePair> queue_pair;
        wire::srp::LoginReq request;
        LoginGrant grant;
        std::uint32_t queue_depth;
        std::uint64_t id;
    };
    explicit RdmaChannel(Parts);
    ~RdmaChannel() override;  ///< at once: what is outstanding is given up

    /// Answers the login. The error says what is missing.
    [[nodiscard]] Result<> accept();
    void reject(wire::srp::RejectReason) noexcept;
    /// It has ended, and commands of it may still change the disk. Any thread.
    [[nodiscard]] bool lingers() const noexcept { return lingers_.load(); }
    /// Ends it: no answer goes out any more, and when nothing is outstanding the target destroys it. Idempotent.
    void end(const char* why) noexcept;
    /// Ends what the order names of what is here now, and drops its token when that has happened.
    void abort(AbortOrder order) noexcept { abort_before(std::move(order), numbers_ + 1); }
    /// The task management request in slot `index`, of that number, may be answered.
    void task_ended(unsigned index, std::uint64_t number) noexcept;

    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;

    // Any thread.
    [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }
    [[nodiscard]] const wire::srp::PortId& initiator() const noexcept { return initiator_; }
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

  private:
    enum Kind : std::uint32_t { kind_receive, kind_answer, kind_move, kind_request };  // of work: its id's high half
    static constexpr std::uint32_t spare_receives = 2;  // for answers to requests of the target
    static constexpr std::uint32_t move_depth = 256;    // RDMA READs and WRITEs outstanding
    static constexpr std::uint32_t answer_bytes = 128;
    static constexpr unsigned most_completions = 64;  // of a pass

    // rdma_channel.cpp: its life.
    void established() noexcept override;
    void disconnected() noexcept override;
    void orphaned() noexcept override;
    [[nodiscard]] Result<> set_up();
    void completed(const fabric::rdma::WorkCompletion&) noexcept;
    void settle() noexcept;
    [[nodiscard]] std::string name() const;
    [[nodiscard]] static std::uint64_t work_id(Kind kind, std::uint32_t index) noexcept {
        return std::uint64_t{kind} << 32 | index;
    }

    // receive.cpp: what the initiator sends.
    void received(std::uint32_t receive, std::uint32_t bytes) noexcept;
    void take_queued() noexcept;
    [[nodiscard]] bool take_credit() noexcept;
    void take_unit(std::uint32_t receive, std::uint32_t bytes) noexcept;
    void take_command(SrpCommand&, std::span<const std::byte> unit) noexcept;
    void plan(SrpCommand&, const wire::srp::CmdView&) noexcept;
    void begin(SrpCommand&) noexcept;
    [[nodiscard]] scsi::Nexus* nexus_of(unsigned unit) noexcept;
    [[nodiscard]] std::byte* receive_data(std::uint32_t receive) const noexcept;
    void post_receive(std::uint32_t receive) noexcept;
    [[nodiscard]] SrpCommand* take_slot() noexcept;

    // transfer.cpp: data.
    [[nodiscard]] wire::srp::Descriptor descriptor_of(const SrpCommand&, std::uint32_t index) const noexcept;
    void want_table(SrpCommand&) noexcept;
    void have_table_memory(SrpCommand&) noexcept;
    void have_table(SrpCommand&) noexcept;
    void want_data(SrpCommand&) noexcept;
    [[nodiscard]] bool lend(SrpCommand&) noexcept;
    void have_data_memory(SrpCommand&) noexcept;
    void move(SrpCommand&, std::uint32_t bytes) noexcept;
    void post_moves() noexcept;
    [[nodiscard]] bool post_move(SrpCommand&) noexcept;
    void move_completed(SrpCommand&) noexcept;
    void execute(SrpCommand&) noexcept;
    void executed(SrpCommand&) noexcept;
    void release(SrpCommand&) noexcept;

    // answer.cpp
    void refuse(SrpCommand&, const char* why) noexcept;
    void answer(SrpCommand&) noexcept;
    void send_answer(SrpCommand&, std::uint32_t bytes) noexcept;
    void end_silently(SrpCommand&) noexcept;
    void free(SrpCommand&) noexcept;
    void give_owed_credits() noexcept;
    [[nodiscard]] wire::srp::Rsp& prepare_answer(SrpCommand&) noexcept;

    // tasks.cpp
    void take_task(SrpCommand&, std::span<const std::byte> unit) noexcept;
    void answer_task(SrpCommand&, wire::srp::ResponseCode) noexcept;
    void abort_before(AbortOrder, std::uint64_t before) noexcept;
    void abort_command(SrpCommand&) noexcept;
    void abort_unit(unsigned unit) noexcept;
    void look_at_orders() noexcept;

    Target& target_;
    const std::shared_ptr<const UnitTable> units_;
    const std::shared_ptr<Worker> worker_;
    Reactor& reactor_;
    const wire::srp::LoginReq login_;
    const LoginGrant grant_;
    const wire::srp::PortId initiator_;
    const std::uint32_t depth_;
    const std::uint64_t id_;
    const std::shared_ptr<InitiatorShare> share_;

    memory::Buffer memory_;  // units, then answers, then the target's own request
    std::uint32_t memory_key_ = 0;
    std::size_t receive_stride_ = 0, receive_pad_ = 0, answers_at_ = 0;
    std::vector<std::uint32_t> received_bytes_;
    std::vector<SrpCommand> commands_;
    SrpCommand* free_ = nullptr;
    unsigned used_ = 0;  // slots
    std::uint64_t numbers_ = 0;
    std::deque<std::uint32_t> queued_;  // units that came before there was a slot, or a connection
    SrpCommand* moving_first_ = nullptr;
    SrpCommand** moving_last_ = &moving_first_;
    unsigned moves_ = 0;       // works posted and not completed
    std::uint32_t limit_ = 0;  // requests that the initiator may still send
    std::uint32_t owed_credits_ = 0;
    bool request_open_ = false;  // one of the target's is unanswered
    bool established_ = false, ending_ = false, retired_ = false;
    std::atomic<bool> lingers_{false};
    struct PendingOrder {
        AbortOrder order;
        std::uint64_t before;  // commands with lower numbers
    };
    [[nodiscard]] static bool concerns(const PendingOrder&, const SrpCommand&) noexcept;
    std::vector<PendingOrder> orders_;
    /// A unit's request to abort names its nexus by a place in here.
    struct UnitPlace {
        RdmaChannel* channel;
        unsigned unit;
    };
    std::vector<UnitPlace> places_;
    std::vector<std::unique_ptr<scsi::Nexus>> nexuses_;  // by unit; null: not opened yet
    std::unique_ptr<fabric::rdma::CompletionQueue> completions_;
    std::unique_ptr<fabric::rdma::QueuePair> queue_pair_;
};

}  // namespace mqblk::device::srp
