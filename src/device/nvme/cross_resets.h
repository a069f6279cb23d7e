// SPDX-License-Identifier: Apache-2.0
//
// The Cross-Controller Resets that one controller was asked for. Each ends the controller it names and is answered when
// that one's instance is gone: in the command itself if that does not take long, else in the log page, with an event.
// Both lists are bounded. Admin reactor's thread only. NVMe 2.3, sections 5.4.3, 5.2.12.3.1.
#pragma once

#include "base/clock.h"
#include "device/nvme/target_queue.h"
#include "reactor/reactor.h"
#include "wire/nvme_cross_reset.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mqblk::device::nvme {

class Controller;
class PageWindow;

class CrossResets {
  public:
    static constexpr unsigned limit = 4;         ///< CCRL: under way at once
    static constexpr unsigned most_logged = 16;  ///< entries of the log page
    /// A command is held for so long; the host's own time-outs for admin commands are far longer.
    static constexpr Duration longest_hold = std::chrono::seconds(1);

    explicit CrossResets(Controller& owner) noexcept : owner_(owner) {}

    /// Between them everything below works. stop() ends the commands that are held.
    void start(Reactor& reactor);
    void stop() noexcept;

    void execute(TargetCommand&) noexcept;
    void gone(const wire::nvme::ControllerInstance&) noexcept;
    /// Takes the held command with this identifier out, for Abort; the reset itself goes on. Null: none.
    [[nodiscard]] TargetCommand* take(std::uint16_t command_id) noexcept;
    void write_log(PageWindow&) const noexcept;
    void forget_ended() noexcept;

  private:
    struct Entry {
        wire::nvme::ControllerInstance impacted;
        TargetCommand* held;  ///< null: it was answered, and this is an entry of the log page
        Time answer_by;
        bool ended = false;
    };
    [[nodiscard]] std::uint16_t check(const wire::nvme::ControllerInstance&) const noexcept;
    void held_long_enough() noexcept;
    void answer(TargetCommand&, bool ended) noexcept;

    Controller& owner_;
    Reactor* reactor_ = nullptr;
    std::optional<Timer> timer_;  ///< for the oldest that is held
    std::vector<Entry> entries_;  ///< oldest first
};

}  // namespace mqblk::device::nvme
