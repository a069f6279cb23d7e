// SPDX-License-Identifier: Apache-2.0
//
// IoQueue: one hardware queue, that is one reply queue of the controller and the way to its request port. A request's
// tag is its SMID, its frame, its chain frame; its context is the payload behind it: no list, nothing to look up, no
// lock shared with other queues. (Where there is one reply queue for everything, it is shared with the control path.)
// All that touches the hardware is within a gate, which the control path closes to have the hardware to itself;
// meanwhile requests wait. What went out ends by its reply, or in recover() after a reset.
#pragma once

#include "block/driver.h"
#include "block/gate.h"
#include "block/queue.h"
#include "driver/megaraid/command_index.h"
#include "driver/megaraid/command_port.h"
#include "driver/megaraid/shared_replies.h"
#include "pci/function.h"

#include <mqblk/error.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace mqblk::driver::megaraid {

class Controller;

/// What a request needs here, in one allocation with it.
struct Context {
    enum class State : std::uint8_t {
        idle,
        sent,     ///< the firmware has it
        waiting,  ///< to be sent again
    };
    Gathered gathered;
    block::Request* next = nullptr;  ///< that waits
    std::uint16_t smid = 0;
    State state = State::idle;
    std::uint8_t retries = 0;  ///< after an answer
    std::uint8_t resets = 0;   ///< that it was lost in
    bool direct = true;        ///< the map may be followed
    bool late = false;         ///< its recovery has begun
    bool cancelled = false;
    bool doubted = false;     ///< a reply came that was none of its own
    std::uint8_t doubts = 0;  ///< and then it was late: so often
};

class GateLeave {
  public:
    explicit GateLeave(block::Gate& gate) noexcept : gate_(gate) {}
    ~GateLeave() { gate_.leave(); }
    GateLeave(const GateLeave&) = delete;
    GateLeave& operator=(const GateLeave&) = delete;

  private:
    block::Gate& gate_;
};

class IoQueue final : public block::HardwareQueue {
  public:
    static constexpr unsigned max_retries = 5;
    static constexpr unsigned max_resets = 3;
    static constexpr unsigned max_doubts = 2;

    /// Of reply queue `vector`, 0 where it is shared. The error names the function.
    [[nodiscard]] static Result<std::unique_ptr<IoQueue>> create(Controller& controller, block::Queue& queue,
                                                                 unsigned vector);
    ~IoQueue() override;

    void prepare(block::Request&) override;
    block::Issue queue(block::Request&, bool last) noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    block::Expired timeout(block::Request&) noexcept override;
    void cancel_all(Status) noexcept override;

    // The control path's, on its own thread, under the controller's lock of queues.

    void close_gate() noexcept { gate_.close(block::Gate::quiesced); }
    void open_gate() noexcept { gate_.open(block::Gate::quiesced); }
    [[nodiscard]] bool inside() const noexcept { return gate_.inside(); }
    /// What it begins with.
    void adopt(std::uint32_t epoch, const std::shared_ptr<FewerCommands>& fewer);
    /// Which of what was sent has been answered before a reset. The gate is closed.
    void collect() noexcept;
    /// On the queue's thread: the gate is open again.
    void wake();
    /// There are answers.
    void nudge() noexcept { queue_.reactor().wake(); }
    /// Requests that the firmware has, or that wait to be sent.
    [[nodiscard]] unsigned in_flight() const noexcept { return queue_.in_flight(); }

  private:
    IoQueue(Controller& controller, block::Queue& queue, unsigned vector);
    [[nodiscard]] bool up_to_date() const noexcept;
    [[nodiscard]] block::Issue not_taken(block::Request&) const noexcept;
    [[nodiscard]] bool take_index(block::Request&, Context&) noexcept;
    void send(block::Request&, Context&) noexcept;
    [[nodiscard]] unsigned take_replies() noexcept;
    [[nodiscard]] unsigned take_shared_replies() noexcept;
    [[nodiscard]] bool sleep_on_shared() noexcept;
    void replied(std::uint16_t smid) noexcept;
    /// False: it is still the firmware's.
    [[nodiscard]] bool answered(block::Request&, Context&) noexcept;
    void failed(block::Request&, Context&, std::uint8_t mfi_status, std::uint8_t scsi_status) noexcept;
    void give_index_back(Context&) noexcept;
    void finish(block::Request&, Context&, Status) noexcept;
    void wait_to_send(block::Request&, Context&) noexcept;
    void send_waiting() noexcept;
    void go_on() noexcept;
    void recover() noexcept;
    void cancel_late() noexcept;
    void report_late(const block::Request&, Context&) noexcept;
    void index_came_free() noexcept;

    Controller& controller_;
    CommandPort& port_;
    CommandMemory& memory_;
    block::Queue& queue_;
    const unsigned vector_;
    ReplyQueue& replies_;
    SharedReplies* const shared_;  ///< null: the reply queue is this queue's own
    block::Gate gate_;
    CommandIndex index_;
    std::uint32_t epoch_ = 0;
    block::Request* waiting_first_ = nullptr;
    block::Request* waiting_last_ = nullptr;
    std::unique_ptr<pci::BouncePool> bounce_;  ///< null: the controller reaches all memory
    std::unique_ptr<pci::Interrupt> interrupt_;
    std::atomic<bool> index_free_{false};
    bool index_awaited_ = false;
    std::vector<std::uint8_t> answered_;  ///< by SMID; used between a reset and recover()
    Status cancel_status_ = Status::aborted;
    Timer cancel_;
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< for what was posted
};

}  // namespace mqblk::driver::megaraid
