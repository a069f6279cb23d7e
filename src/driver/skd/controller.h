// SPDX-License-Identifier: Apache-2.0
//
// Controller: one card and what goes on between it and the driver besides requests: the registers, the handshake, the
// state machine's actions, its own commands, the completion ring. The requests are the IoQueue's, which is there while
// channels are. Everything runs on the thread of the reactor that the card was given (a shared reactor: under its
// lock); nobody else touches the card.
#pragma once

#include "driver/skd/completions.h"
#include "driver/skd/internal_commands.h"
#include "driver/skd/interrupts.h"
#include "driver/skd/options.h"
#include "driver/skd/states.h"
#include "pci/function.h"
#include "reactor/reactor.h"

#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::driver::skd {

class IoQueue;

class Controller final : private InterruptEvents {
  public:
    /// Of every stop: how long the cache may take, and how often the reset is looked after.
    static constexpr Duration sync_bound = std::chrono::seconds(10);
    static constexpr Duration stop_step = std::chrono::milliseconds(100);
    static constexpr unsigned stop_steps = 10;

    /// Registers and memory; the card is not begun. The error names the function and the remedy.
    [[nodiscard]] static Result<std::unique_ptr<Controller>> create(std::unique_ptr<pci::Function> function,
                                                                    Reactor& reactor, const Options& options);
    ~Controller();  ///< stop() was called; there is no queue
    Controller(const Controller&) = delete;
    Controller& operator=(const Controller&) = delete;

    // Beginning and end, by whoever runs the reactor meanwhile: it is run from within.

    /// Until the card is online. Bounded.
    [[nodiscard]] Result<> start();
    void stop() noexcept;

    // The queue's.

    void attach(IoQueue* queue) noexcept { queue_ = queue; }
    [[nodiscard]] Admission admission() const noexcept { return admission_; }
    /// Before that, no request's time counts.
    [[nodiscard]] Time online_since() const noexcept { return online_since_; }
    /// Commands that the card takes at once.
    [[nodiscard]] unsigned depth() const noexcept { return depth_; }
    void ring(std::uint64_t doorbell) noexcept { bar_.write64(wire::skd::reg::q_command, doorbell); }
    /// What the ring holds goes to its owners. Returns how much there was.
    unsigned drain() noexcept;
    /// Before a sleep: completions wake the reactor from now on. False: there are some.
    [[nodiscard]] bool listen();
    /// The card does not answer: it is reset, and what it had is sent again or fails (IoQueue::recover).
    void give_up_on_card(const char* why);
    /// A completion said so.
    void busy_imminent();
    /// How requests end that the card will not serve.
    [[nodiscard]] Status failure() const noexcept;

    // For people and tests.

    [[nodiscard]] DriverState state() const noexcept { return states_.state(); }
    [[nodiscard]] wire::skd::DriveState drive_state() const noexcept { return drive_; }
    [[nodiscard]] const DiskFacts& facts() const noexcept { return commands_.facts(); }
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> details() const;
    [[nodiscard]] pci::Function& function() noexcept { return *function_; }
    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    struct Counters {
        std::uint64_t restarts = 0, mismatches = 0, smart_alerts = 0;
    };
    [[nodiscard]] Counters& counters() noexcept { return counters_; }

  private:
    Controller(std::unique_ptr<pci::Function> function, pci::Bar bar, Reactor& reactor, const Options& options);
    [[nodiscard]] Result<> prepare();

    // InterruptEvents.
    void completions_posted() override;
    void state_changed() override;
    void message_came() override;

    // controller_states.cpp
    void act(Actions actions);
    void look_at_drive();
    void tick();
    void reset_card();
    void cut_off();
    void fail_when_quiet();
    void send_commands();
    void send_internal();
    void internal_completed(const Completion& completion, const wire::skd::ErrorEntry& error);
    void states_changed();
    void tell_stall();
    [[nodiscard]] Error start_failure() const;

    // Handshake.
    void send_message(wire::skd::MessageType type, std::uint16_t data = 0) noexcept;
    void answered(std::uint32_t word);

    const Options options_;
    Reactor& reactor_;
    const std::unique_ptr<pci::Function> function_;
    const pci::Bar bar_;
    IoQueue* queue_ = nullptr;
    Admission admission_ = Admission::fail;
    unsigned depth_;
    Time online_since_{};
    CompletionReader completions_;

    States states_;
    wire::skd::DriveState drive_ = wire::skd::DriveState::offline;
    wire::skd::MessageType last_message_ = wire::skd::MessageType::none;
    std::uint8_t protocol_ = 0;
    std::uint32_t hardware_version_ = 0;
    bool begun_ = false;
    bool stalled_ = false;   ///< people were told that requests wait
    bool given_up_ = false;  ///< start() ends, whatever the card says afterwards
    bool synced_ = false;
    pci::DmaMemory ring_memory_;
    InternalCommands commands_;
    Interrupts interrupts_;
    Timer tick_, pause_, quiet_;
    Counters counters_;
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< for what was posted
};

}  // namespace mqblk::driver::skd
