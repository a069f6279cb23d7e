// SPDX-License-Identifier: Apache-2.0
//
// The start-up and recovery of a card as a state machine over tables: what the driver does when the card's state
// changes, when a time is up, when a step of its own has ended. It touches no hardware and has no clock; it says what
// is to be done. Every state that waits has a bound, all that follow one another without the card coming online have
// one together, and what restarts without ever coming online does so a bounded number of times, so every request ends.
//
// What a card may still be doing decides what may end: a request whose memory it may touch ends only after a soft
// reset that it has acknowledged (recover), or when it is cut off from memory (cut_off); after that it is reset before
// it is used again.
#pragma once

#include "base/clock.h"
#include "wire/skd.h"

#include <cstdint>

namespace mqblk::driver::skd {

enum class DriverState : std::uint8_t {
    idle,       ///< not begun, or the card says that it is offline
    starting,   ///< reset and handshake
    wait_boot,  ///< the firmware boots
    online,
    busy,
    busy_imminent,  ///< the card said that it is about to be
    busy_erase,
    busy_sanitize,
    restarting,  ///< reset under way; what it had goes out again afterwards
    syncing,     ///< at the end: the cache is being written
    stopping,
    fault,
    disappeared,
    protocol_mismatch,
};
inline constexpr unsigned driver_state_count = 14;
[[nodiscard]] const char* to_string(DriverState) noexcept;
[[nodiscard]] const char* to_string(wire::skd::DriveState) noexcept;

/// What happens to a new request.
enum class Admission : std::uint8_t { take, hold, fail };
[[nodiscard]] Admission admission_of(DriverState) noexcept;

/// To be done, in this order; bits.
enum Action : std::uint8_t {
    reset_card = 1,      ///< forget what was pending and write the reset bit
    recover = 2,         ///< the card has nothing of ours any more: send again, or fail what was sent too often
    cut_off = 4,         ///< keep the card from memory, then fail all that is outstanding
    send_init = 8,       ///< begin the handshake
    send_commands = 16,  ///< begin the internal commands, unless they run
    close_gates = 32,    ///< no more interrupts
};
using Actions = std::uint8_t;

class States {
  public:
    static constexpr Duration start_bound = std::chrono::seconds(8);
    static constexpr Duration boot_bound = std::chrono::seconds(90);
    static constexpr Duration busy_at_start_bound = std::chrono::seconds(60);
    static constexpr Duration busy_bound = std::chrono::minutes(20);
    static constexpr Duration sanitize_bound = std::chrono::seconds(3);
    static constexpr Duration restart_bound = std::chrono::minutes(4);
    static constexpr Duration commands_bound = std::chrono::seconds(8);
    /// Of all states in a row in which requests wait: busy for as long as that may be, then a restart by itself.
    static constexpr Duration longest_wait = busy_bound + restart_bound;
    static constexpr unsigned max_restarts = 16;  ///< in a row without coming online

    [[nodiscard]] DriverState state() const noexcept { return state_; }
    [[nodiscard]] Admission admission() const noexcept { return admission_of(state_); }
    /// When tick() has something to say; never if nothing waits.
    [[nodiscard]] Time due() const noexcept { return due_ < commands_due_ ? due_ : commands_due_; }

    /// The first look at the card.
    [[nodiscard]] Actions begin(wire::skd::DriveState, Time now) noexcept;
    /// It is in another state, or says that it is.
    [[nodiscard]] Actions drive_changed(wire::skd::DriveState, Time now) noexcept;
    /// Now and then.
    [[nodiscard]] Actions tick(Time now) noexcept;
    /// A request is late, or the card answers nonsense.
    [[nodiscard]] Actions restart(Time now) noexcept;
    /// The card's protocol is not ours.
    [[nodiscard]] Actions mismatched() noexcept;
    /// A completion said that the card is about to be busy.
    void imminent(Time now) noexcept;
    /// The internal commands are through; `drive` is the card's state now.
    void commands_done(wire::skd::DriveState drive, Time now) noexcept;
    /// The end: `sync` where the cache is to be written first.
    void stop(bool sync) noexcept;

  private:
    /// A state that has no bound: nobody waits in it.
    void settle(DriverState next) noexcept {
        state_ = next;
        due_ = limit_ = never;
    }
    void wait_in(DriverState next, Time now, Duration bound) noexcept;
    [[nodiscard]] Actions apply(Actions, Time now) noexcept;

    DriverState state_ = DriverState::idle;
    Time due_ = never;           ///< of the state
    Time commands_due_ = never;  ///< of the internal commands
    Time limit_ = never;         ///< no change of the card's state moves due_ beyond it
    unsigned restarts_ = 0;
    bool abandoned_ = false;  ///< it was cut off and may still believe in commands that have ended here
};

}  // namespace mqblk::driver::skd
