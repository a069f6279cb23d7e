// SPDX-License-Identifier: Apache-2.0
//
// IoQueue: one I/O queue of a controller in the reactor of the thread that uses it. It connects by itself whenever the
// association is up, and outlives any number of connections: commands that were on a lost one are sent again on the
// next, a bounded number of times, or end when the association does. Data path in io_queue.cpp, connection and recovery
// in io_queue_connect.cpp.
#pragma once

#include "block/driver.h"
#include "block/queue.h"
#include "driver/nvme/association.h"
#include "driver/nvme/io_map.h"
#include "driver/nvme/owned_task.h"
#include "driver/nvme/queue_pair.h"
#include "reactor/reactor.h"

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk::driver::nvme {

class IoQueue final : public block::HardwareQueue, private QueuePairEvents, private Association::Member {
  public:
    static constexpr unsigned max_retries = 5;      ///< of one command, whatever the reason
    static constexpr unsigned max_segments = 1024;  ///< of one request

    /// `index` from 0; the queue's identifier on the wire is one more.
    IoQueue(std::shared_ptr<Association>, unsigned index, unsigned depth, block::Queue&, Reactor&);
    ~IoQueue() override;

    void prepare(block::Request&) override;
    block::Issue queue(block::Request&, bool last) noexcept override;
    void commit() noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    block::Expired timeout(block::Request&) noexcept override;
    void cancel_all(Status) noexcept override;

  private:
    enum class Phase : std::uint8_t {
        down,  ///< no connection: the association is down, or this one was lost and reported
        connecting,
        live,
        unreachable,  ///< connecting failed for longer than the loss time: commands fail while it goes on trying
        ended,
    };

    // Data path.
    Capsule* find(std::uint16_t command_id) noexcept override;
    void completed(Capsule&, const wire::nvme::Completion&) noexcept override;
    void set_segments(const block::Request&, Capsule&) noexcept;
    block::Issue not_live(block::Request&) const noexcept;
    void send(block::Request&, Capsule&) noexcept;
    void failed(block::Request&, Capsule&, std::uint16_t status) noexcept;
    void finish(block::Request&, Capsule&, Status) noexcept;
    static block::Request& request_of(Capsule& capsule) noexcept {
        return *(reinterpret_cast<block::Request*>(&capsule) - 1);
    }

    // Connection and recovery.
    void association_changed() noexcept override;
    void start_connecting();
    Task<void> connect();
    void settle();
    void connect_failed();
    void go_live();
    void resend_waiting() noexcept;
    void connection_lost(std::string reason) noexcept;
    void drop_connection() noexcept;
    void end_all(Status) noexcept;
    [[nodiscard]] std::uint16_t queue_id() const noexcept { return static_cast<std::uint16_t>(index_ + 1); }

    const std::shared_ptr<Association> association_;
    const unsigned index_;
    const unsigned depth_;
    const CommandIds ids_;
    block::Queue& queue_;
    Reactor& reactor_;

    std::unique_ptr<QueuePair> pair_;
    Phase phase_ = Phase::down;
    unsigned in_pair_ = 0;         ///< calls into the pair that are running: it must not be destroyed meanwhile
    bool cancel_pending_ = false;  ///< cancel_all() came from within such a call
    Status cancel_status_ = Status::aborted;
    Capsule* submitting_ = nullptr;  ///< set while its submit() runs: a completion within it ends queue() with `done`
    bool submitted_done_ = false;
    std::unique_ptr<Segment[]> lists_;  ///< room for each tag's data list where the bio's own does not do

    Association::View view_;  ///< of the epoch that this connection belongs to
    Capsule connect_;
    wire::nvme::Completion connect_answer_;
    struct ConnectMemory;
    std::unique_ptr<ConnectMemory> connect_memory_;
    OwnedTask connecting_;
    std::string connect_failure_;      ///< empty: it succeeded
    bool controller_unknown_ = false;  ///< the target does not know the controller any more
    bool queue_taken_ = false;         ///< the target still has the last connection of this queue
    unsigned times_taken_ = 0;         ///< in a row
    unsigned failures_ = 0;            ///< in a row
    Time first_failure_{};
    Timer settle_, again_, retry_;
};

}  // namespace mqblk::driver::nvme
