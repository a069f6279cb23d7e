// SPDX-License-Identifier: Apache-2.0
//
// Faults on demand: what the controller does wrong, and at which command. A fault is data; FaultList says which of them
// a command meets. Commands are request descriptors, counted from 1 when the controller is attached; those of the
// driver's start-up count.
#pragma once

#include "base/clock.h"
#include "base/fault_text.h"
#include "wire/megaraid_mpi.h"
#include "wire/scsi.h"

#include <mqblk/error.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace mqblk::device::megaraid {

enum class FaultKind : std::uint8_t {
    // At an I/O.
    medium_error,          ///< reads and writes that touch [lba, lba + blocks) fail; without blocks any does
    scsi_status,           ///< ends with `status` and, for CHECK CONDITION, `sense`; nothing is moved
    io_failed,             ///< ends with the MFI status `status`
    lost_completion,       ///< carried out, never told; an abort finds it
    late_completion,       ///< told `duration` later: one slow disk, with `disk` and a count of 0
    duplicate_completion,  ///< told twice, the second time `duration` later
    // At any command.
    firmware_fault,  ///< the firmware goes to state FAULT, and a reset helps; for good if `permanent`
    pull_disk,       ///< `disk` is gone, for `duration`; zero: for good. The host is told by events
    // At the next of their kind.
    slow_dcmd,       ///< a DCMD, `opcode` or any, takes `duration`
    refuse_dcmd,     ///< … is answered with `status`
    wrong_abort,     ///< a task management request is answered with `response`, and nothing is done
    fewer_commands,  ///< after the next reset the firmware takes only `commands`
};

struct Fault {
    FaultKind kind = FaultKind::medium_error;
    std::uint64_t command = 0;  ///< strikes at this command; 0: at the next that it fits
    std::uint64_t count = 1;    ///< how often, from there on; 0: for ever
    std::uint64_t lba = 0, blocks = 0;
    std::optional<std::uint16_t> disk{}, volume{};  ///< only I/O to these; neither: to all
    std::uint8_t status = 2;                        ///< scsi::Status or MfiStatus
    wire::scsi::Sense sense{};
    std::uint32_t opcode = 0;  ///< 0: any
    wire::megaraid::TaskResponse response = wire::megaraid::TaskResponse::complete;
    std::uint32_t commands = 0;
    bool permanent = false;
    Duration duration{};
};

/// As people write them: KIND[@COMMAND[xCOUNT]][,KEY=VALUE]..., COUNT 0 for ever; COMMAND 0, or no @: the next that it
/// fits. fault_help() has the kinds and their keys. An lba alone is one block. Numbers may be hexadecimal (0x...). The
/// error names what is wrong and what is allowed.
[[nodiscard]] Result<Fault> parse_fault(std::string_view text);
[[nodiscard]] std::vector<FaultHelp> fault_help();

/// What an I/O is, for faults.
struct IoFacts {
    std::uint64_t number = 0;
    bool is_volume = false;
    std::uint16_t id = 0;
    const wire::scsi::Cdb* cdb = nullptr;
};

/// Those that have not yet struck as often as they should.
class FaultList {
  public:
    void add(const Fault& fault) { faults_.push_back(fault); }
    void clear() noexcept { faults_.clear(); }
    [[nodiscard]] bool empty() const noexcept { return faults_.empty(); }

    /// Calls `strike(const Fault&)` for each fault that this I/O meets.
    template <class Fn>
    void for_io(const IoFacts& io, Fn&& strike) {
        for (std::size_t i = 0; i < faults_.size();) {
            if (!meets(faults_[i], io)) {
                ++i;
                continue;
            }
            const Fault fault = faults_[i];
            if (!spend(i)) ++i;
            strike(fault);
        }
    }
    /// The next fault of this kind that command `number` meets, for those that are not an I/O's.
    [[nodiscard]] std::optional<Fault> take(FaultKind kind, std::uint64_t number, std::uint32_t opcode = 0) noexcept;

  private:
    [[nodiscard]] static bool meets(const Fault&, const IoFacts&) noexcept;
    /// It strikes. Whether that was the last time: it is gone.
    bool spend(std::size_t index) noexcept;

    std::vector<Fault> faults_;
};

}  // namespace mqblk::device::megaraid
