// SPDX-License-Identifier: Apache-2.0
//
// Faults on demand: what the card does wrong, and at which command. A fault is data; FaultList says which of them a
// command meets. Commands are counted from 1 when the card is attached; those of the driver's start-up count.
#pragma once

#include "base/clock.h"
#include "base/fault_text.h"
#include "wire/scsi.h"
#include "wire/skd.h"

#include <mqblk/error.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace mqblk::device::skd {

enum class FaultKind : std::uint8_t {
    medium_error,          ///< reads and writes fail; of any blocks unless the fault says which
    scsi_status,           ///< ends with `status` and, for CHECK CONDITION, `sense`; nothing is moved
    lost_completion,       ///< carried out, never told
    late_completion,       ///< told `duration` later
    wrong_tag,             ///< told with a tag that nobody has
    duplicate_completion,  ///< told twice, the second time `duration` later
    drive_state,           ///< the card enters `state`, for `duration`, then is online again; zero: it stays there.
                           ///< In `soft_reset` its firmware restarts, and is in state init after `duration`
    disappear,             ///< pulled out, for `duration`; zero: for good
    lost_message,          ///< the next mailbox message of type `message` (none: any) is not answered
};

struct Fault {
    FaultKind kind = FaultKind::medium_error;
    std::uint64_t command = 0;          ///< strikes at this command; 0: at the next that it fits
    std::uint64_t count = 1;            ///< how often, from there on; 0: for ever
    std::uint64_t lba = 0, blocks = 0;  ///< only reads and writes that touch these meet it; no blocks: any command
    wire::scsi::Status status = wire::scsi::Status::check_condition;
    wire::scsi::Sense sense{};
    wire::skd::DriveState state = wire::skd::DriveState::busy;
    wire::skd::MessageType message = wire::skd::MessageType::none;
    Duration duration{};
};

/// As people write them: KIND[@COMMAND[xCOUNT]][,KEY=VALUE]..., COUNT 0 for ever; COMMAND 0, or no @: the next that it
/// fits. fault_help() has the kinds and their keys. An lba alone is one block. Numbers may be hexadecimal (0x...). The
/// error names what is wrong and what is allowed.
[[nodiscard]] Result<Fault> parse_fault(std::string_view text);

[[nodiscard]] std::vector<FaultHelp> fault_help();

/// Those that have not yet struck as often as they should.
class FaultList {
  public:
    void add(const Fault& fault) { faults_.push_back(fault); }
    void clear() noexcept { faults_.clear(); }
    [[nodiscard]] bool empty() const noexcept { return faults_.empty(); }

    /// Calls `strike(const Fault&)` for each fault that command `number` with this CDB meets.
    template <class Fn>
    void for_command(std::uint64_t number, const wire::scsi::Cdb& cdb, Fn&& strike) {
        for (std::size_t i = 0; i < faults_.size();) {
            if (!meets(faults_[i], number, cdb)) {
                ++i;
                continue;
            }
            const Fault fault = faults_[i];
            if (!spend(i)) ++i;
            strike(fault);
        }
    }
    /// Whether the answer to a message of this type gets lost.
    [[nodiscard]] bool loses_answer(wire::skd::MessageType type) noexcept;

  private:
    [[nodiscard]] static bool meets(const Fault&, std::uint64_t number, const wire::scsi::Cdb&) noexcept;
    /// It strikes. Whether that was the last time: it is gone.
    bool spend(std::size_t index) noexcept;

    std::vector<Fault> faults_;
};

}  // namespace mqblk::device::skd
