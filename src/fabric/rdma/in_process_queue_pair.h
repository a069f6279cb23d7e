// SPDX-License-Identifier: Apache-2.0
//
// A queue pair in this process, and the link between two of them. A send queue holds work in order: first what has been
// carried out and waits for its acknowledgement, then what has arrived at the peer and waits for it to be ready, then
// what is on its way. Without a courier all of that happens within post_…(). One thread for both ends.
#pragma once

#include "fabric/rdma/in_process.h"
#include "fabric/rdma/in_process_domain.h"
#include "reactor/reactor.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::fabric::rdma {

class InProcessQueuePair;

/// What both ends have in common. It outlives them while something is on its way.
struct InProcessLink : std::enable_shared_from_this<InProcessLink> {
    InProcessLink(Courier* how, std::uint64_t number) : courier(how), id(number) {}

    Courier* const courier;
    const std::uint64_t id;
    std::array<InProcessQueuePair*, 2> ends{};  ///< 0: the connector; null: not there yet, or gone
    std::vector<Segment> near, far;             ///< scratch of one copy

    /// `fn(InProcessQueuePair&)` of the side `to`, if it is there when it arrives.
    template <class Fn>
    void carry(unsigned to, Fn fn);
    /// The same, from a pass of that side's reactor.
    template <class Fn>
    void tell(unsigned to, Fn fn);
};

class InProcessQueuePair final : public QueuePair {
  public:
    InProcessQueuePair(std::shared_ptr<InProcessNetwork::Impl>, std::shared_ptr<InProcessLink>, unsigned side, Reactor&,
                       Address peer);
    ~InProcessQueuePair() override;

    void set_handler(QueuePairHandler& handler) noexcept override { handler_ = &handler; }
    Reactor& reactor() noexcept override { return reactor_; }
    const std::shared_ptr<Domain>& domain() const noexcept override { return domain_; }
    std::string peer() const override { return peer_.to_string(); }

    Result<> create(const QueuePairShape&, CompletionQueue&) override;
    void connect(const ConnectParameters&, Duration bound) noexcept override;
    Result<> accept(const ConnectParameters&) noexcept override;
    void reject(std::span<const std::byte> private_data) noexcept override;
    void disconnect() noexcept override;

    bool post_receive(std::uint64_t id, std::span<const LocalPiece> to) noexcept override;
    bool post_send(std::uint64_t id, std::span<const LocalPiece> from, bool signaled) noexcept override;
    bool post_read(std::uint64_t id, std::span<const LocalPiece> to, const RemotePlace& from,
                   bool signaled) noexcept override;
    bool post_write(std::uint64_t id, std::span<const LocalPiece> from, const RemotePlace& to,
                    bool signaled) noexcept override;
    bool post_register(std::uint64_t id, Region& region, const PageList& list, std::uint8_t access,
                       bool signaled) noexcept override;
    bool post_invalidate(std::uint64_t id, std::uint32_t key, bool signaled) noexcept override;

    /// Connector: from the beginning.
    void begin(bool listened);

  private:
    enum class State : std::uint8_t {
        idle,       ///< neither connected nor connecting
        requested,  ///< connector: the request is on its way. Acceptor: it is there
        accepted,   ///< acceptor: receives; the connector has not said yet that it is ready
        ready,
        error,
    };
    struct Work {
        std::uint64_t id = 0;
        WorkOp op = WorkOp::send;
        bool signaled = true;
        std::uint8_t pieces = 0;
        RemotePlace remote{};
        std::array<LocalPiece, 16> local{};
    };
    struct WorkRing {
        std::vector<Work> works;
        std::size_t head = 0, count = 0;
        [[nodiscard]] Work& at(std::size_t index) noexcept {
            const std::size_t place = head + index;
            return works[place < works.size() ? place : place - works.size()];
        }
        void pop() noexcept {
            if (++head == works.size()) head = 0;
            --count;
        }
    };

    /// Room comes back when completions are taken.
    [[nodiscard]] bool has_room_to_send() const noexcept {
        return completions_ != nullptr && sends_.count + untaken_sends_ < shape_.max_sends;
    }
    [[nodiscard]] bool post(WorkOp op, std::uint64_t id, std::span<const LocalPiece> pieces, const RemotePlace& remote,
                            bool signaled) noexcept;
    [[nodiscard]] bool local(WorkOp op, std::uint64_t id, bool signaled, bool done) noexcept;
    void arrived() noexcept;
    void pump() noexcept;
    /// False: the peer is not ready, and it is to be tried again.
    [[nodiscard]] bool execute(Work&) noexcept;
    [[nodiscard]] bool execute_send(Work&, std::uint64_t bytes, InProcessQueuePair& peer) noexcept;
    void execute_access(Work&, std::uint64_t bytes, InProcessQueuePair& peer) noexcept;
    [[nodiscard]] bool resolve_local(const Work&, std::uint8_t access, std::vector<Segment>& to) noexcept;
    void executed() noexcept;
    void acknowledged() noexcept;
    void wait_for_receiver() noexcept;
    void complete(const Work&, WorkStatus, std::uint32_t bytes = 0) noexcept;
    void fail_work(WorkStatus) noexcept;  ///< the oldest that was not carried out
    void enter_error() noexcept;
    void request_arrived(std::span<const std::byte> private_data);
    void was_accepted(std::vector<std::byte> private_data);
    void was_rejected(std::uint16_t reason, std::vector<std::byte> private_data);
    void became_ready() noexcept;
    void retried() noexcept;
    [[nodiscard]] InProcessQueuePair* peer_end() const noexcept { return link_->ends[1 - side_]; }
    [[nodiscard]] bool receives() const noexcept { return state_ == State::accepted || state_ == State::ready; }

    const std::shared_ptr<InProcessNetwork::Impl> network_;
    const std::shared_ptr<InProcessLink> link_;
    const unsigned side_;
    Reactor& reactor_;
    const Address peer_;
    std::shared_ptr<Domain> domain_;
    InProcessDomain* keys_ = nullptr;  ///< the same
    QueuePairHandler* handler_ = nullptr;
    InProcessCompletionQueue* completions_ = nullptr;
    QueuePairShape shape_;
    ConnectParameters parameters_;  ///< without the private data
    State state_ = State::idle;
    bool told_end_ = false;
    WorkRing sends_, receives_;
    std::size_t executed_ = 0, arrived_ = 0;  ///< of sends_, from the front
    std::size_t waits_ = 0;                   ///< of the oldest for a receive
    std::size_t completed_seen_ = 0, completed_ = 0;
    unsigned untaken_sends_ = 0, untaken_receives_ = 0;  ///< completions that lie in the completion queue
    Timer connect_timer_, receiver_timer_, retry_timer_;

    friend struct InProcessNetwork::Impl;
};

}  // namespace mqblk::fabric::rdma
