// SPDX-License-Identifier: Apache-2.0
//
// The driver's own commands, on the reserved tags: management frames, SCSI commands that ask a disk about itself, task
// management or what the generation has instead. The control path has them to itself, so they need no lock and cannot
// starve; it waits for one at a time, and others stay with the firmware until something happens (events, maps). A
// command that was waited for in vain keeps its tag and its memory until the controller is reset: the firmware may
// still write there. The control reactor's.
#pragma once

#include "base/task.h"
#include "driver/megaraid/command_port.h"
#include "reactor/reactor.h"
#include "wire/megaraid_mfi.h"
#include "wire/scsi.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace mqblk::driver::megaraid {

struct Outcome {
    enum class End : std::uint8_t {
        answered,
        timed_out,
        lost,  ///< there was a reset, or there will be: the firmware is in fault, or the end has come
    };
    End end = End::lost;
    std::uint8_t status = 0;       ///< MfiStatus, or TaskResponse
    std::uint8_t scsi_status = 0;  ///< of a SCSI command
    std::uint16_t smid = 0;  ///< whose frame and sense data hold the rest, until the next command; 0: it was not sent

    [[nodiscard]] bool ok() const noexcept { return end == End::answered && status == 0; }
};

class InternalCommands {
  public:
    /// What a pended command is for.
    enum class Pended : std::uint8_t { event, ld_map, pd_map };
    static constexpr unsigned pended_count = 3;

    /// `posts` is called before each command is posted.
    InternalCommands(Reactor& reactor, CommandPort& port, std::function<void()> posts)
        : reactor_(reactor), port_(port), posts_(std::move(posts)) {}

    // One at a time. Nobody else waits.

    [[nodiscard]] Task<Outcome> dcmd(std::uint32_t opcode, wire::megaraid::Mailbox mailbox, Transfer data,
                                     Duration bound);
    /// `direct`: as the map says, else through the firmware.
    [[nodiscard]] Task<Outcome> scsi(const Route& route, bool direct, wire::scsi::Cdb cdb, Transfer data,
                                     Duration bound);
    [[nodiscard]] Task<Outcome> task(const Route& route, wire::megaraid::TaskType type, std::uint16_t smid,
                                     Duration bound);

    /// Stays with the firmware; pended() tells of its end. Nothing if it is with the firmware already.
    void pend(Pended what, std::uint32_t opcode, wire::megaraid::Mailbox mailbox, Transfer data);
    /// The status of a pended command that has ended, once.
    [[nodiscard]] std::optional<std::uint8_t> take_pended(Pended what) noexcept;

    /// The firmware has answered. False: there is no such command, or it has not.
    [[nodiscard]] bool completed(std::uint16_t smid) noexcept;
    /// Who waits has waited long enough: the outcome is lost.
    void abandon_wait() noexcept;
    /// The firmware has none of them any more.
    void forget_all() noexcept;

  private:
    struct Slot {
        bool sent = false;
        std::optional<Pended> pended{};
    };
    [[nodiscard]] std::uint16_t take() noexcept;  ///< 0: all are in use
    /// It is about to be posted.
    void posting(std::uint16_t smid);
    [[nodiscard]] Task<Outcome> wait(std::uint16_t smid, Duration bound);

    Reactor& reactor_;
    CommandPort& port_;
    const std::function<void()> posts_;
    std::array<Slot, reserved_tags> slots_{};
    std::array<std::optional<std::uint8_t>, pended_count> ended_{};
    std::uint16_t waited_for_ = 0;
    Promise<Outcome>* waiter_ = nullptr;
};

}  // namespace mqblk::driver::megaraid
