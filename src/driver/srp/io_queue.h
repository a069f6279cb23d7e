// SPDX-License-Identifier: Apache-2.0
//
// IoQueue: one hardware queue, that is one channel to the target in the reactor of the thread that uses it. A request's
// tag is its SRP tag and its slot. It connects by itself and outlives any number of connections: requests that were on
// a lost one are sent again on the next, a bounded number of times, or fail when there is none for too long. A request
// of more descriptors than the target takes goes in several commands, one after another. Data path in io_queue.cpp,
// connection and recovery in io_queue_recovery.cpp.
#pragma once

#include "block/driver.h"
#include "block/queue.h"
#include "driver/srp/channel.h"
#include "driver/srp/session.h"
#include "reactor/reactor.h"

#include <cstdint>
#include <memory>

namespace mqblk::driver::srp {

struct Context {
    enum class State : std::uint8_t {
        idle,
        sent,     ///< the target has it
        waiting,  ///< to be sent (again)
    };
    block::Request* next = nullptr;  ///< that waits
    std::uint64_t done_bytes = 0;    ///< by commands before the one that is out
    std::uint64_t sent_bytes = 0;    ///< by this one
    State state = State::idle;
    std::uint8_t retries = 0;  ///< after an answer
    std::uint8_t resets = 0;   ///< connections that it was lost with
    bool external = false;     ///< its table does not fit its command
    bool late = false;         ///< its abort is out, or waits for its turn
    bool cancelled = false;
};

class IoQueue final : public block::HardwareQueue, private ChannelEvents {
  public:
    static constexpr unsigned max_retries = 5;
    static constexpr unsigned max_resets = 3;
    static constexpr Duration busy_pause = std::chrono::milliseconds(20);
    static constexpr Duration first_delay = std::chrono::milliseconds(100);  ///< before connecting again at once
    static constexpr Duration cancel_bound = std::chrono::seconds(1);

    IoQueue(std::shared_ptr<Session>, unsigned index, block::Queue&, Reactor&);
    ~IoQueue() override;

    void prepare(block::Request&) override;
    block::Issue queue(block::Request&, bool last) noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    block::Expired timeout(block::Request&) noexcept override;
    void cancel_all(Status) noexcept override;

  private:
    enum class Phase : std::uint8_t {
        connecting,
        live,
        failing,  ///< no connection for so long that requests fail, while it goes on trying
        given_up,
    };
    static constexpr std::uint64_t task_tag_bit = 0x80000000;  ///< of tags of task management
    static constexpr std::uint32_t no_tag = ~0u;
    enum class Sent : std::uint8_t { yes, not_now, never };

    // Data path.
    [[nodiscard]] Sent send(block::Request&, Context&) noexcept;
    struct Described;
    [[nodiscard]] bool describe_data(block::Request&, Context&, Described&) noexcept;
    [[nodiscard]] bool describe_parameters(block::Request&, Described&) noexcept;
    void put_descriptors(unsigned slot, std::uint32_t count, std::uint64_t bytes, Described&) noexcept;
    [[nodiscard]] std::uint64_t piece_that_fits(const block::Request&, std::uint64_t from,
                                                unsigned pieces) const noexcept;
    [[nodiscard]] std::uint32_t descriptors_in_unit() const noexcept;
    [[nodiscard]] bool external_allowed() const noexcept;
    void answered(const wire::srp::RspView&) noexcept override;
    void ended(block::Request&, Context&, const wire::srp::RspView&) noexcept;
    [[nodiscard]] bool may_not_fetch(const Context&) const noexcept;
    void learn_no_external() noexcept;
    void send_again(block::Request&, Context&, bool pause) noexcept;
    void finish(block::Request&, Context&, Status) noexcept;
    [[nodiscard]] std::uint64_t tag_of(const block::Request&) const noexcept;

    // Recovery.
    void channel_live() noexcept override;
    void channel_lost(const Error& why) noexcept override;
    void may_send() noexcept override;
    void open_channel();
    void pass_time() noexcept;
    void wait_to_send(block::Request&, Context&, bool pause) noexcept;
    void take_from_waiting(const block::Request&) noexcept;
    void send_waiting() noexcept;
    void look_again() noexcept;
    void end_all(Status) noexcept;
    void abort_late() noexcept;
    [[nodiscard]] bool send_abort(block::Request&) noexcept;
    void abort_answered(const wire::srp::RspView&) noexcept;
    void forget_abort() noexcept;

    const std::shared_ptr<Session> session_;
    const Options& options_;
    const unsigned index_;
    block::Queue& queue_;
    Reactor& reactor_;
    std::unique_ptr<Channel> channel_;
    Phase phase_ = Phase::connecting;
    Time lost_since_{};
    unsigned on_wire_ = 0;
    unsigned failures_ = 0;  ///< of connecting, in a row
    bool refused_ = false;   ///< a request was: whoever waits is told when it can go on
    bool paused_ = false;
    block::Request* waiting_first_ = nullptr;
    block::Request* waiting_last_ = nullptr;
    block::Request* abort_ = nullptr;     ///< the reserved request of one that is out
    std::uint32_t aborted_tag_ = no_tag;  ///< of the command that it is for, while that is out
    std::uint16_t aborted_generation_ = 0;
    Status cancel_status_ = Status::aborted;
    Timer connect_, loss_, pause_, abort_timer_, starved_, cancel_;
};

}  // namespace mqblk::driver::srp
