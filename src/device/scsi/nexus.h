// SPDX-License-Identifier: Apache-2.0
//
// Nexus: one initiator's way to a LogicalUnit, in one reactor: its channel to the device, its pending unit attentions,
// its data buffer (READ BUFFER). Any number of commands may be outstanding. Everything here is the reactor's thread's.
// SAM-5 (nexus, unit attention: 5.14), SPC-4, SBC-3.
#pragma once

#include "device/scsi/command.h"
#include "device/scsi/logical_unit.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mqblk {
class Reactor;
}

namespace mqblk::device::scsi {

class Nexus {
  public:
    [[nodiscard]] static Result<std::unique_ptr<Nexus>> open(std::shared_ptr<LogicalUnit>, Reactor&);
    Nexus(std::shared_ptr<LogicalUnit>, std::unique_ptr<Channel>);  ///< for open()
    /// What is outstanding is ended first, as aborted; its `done` runs.
    ~Nexus();
    Nexus(const Nexus&) = delete;
    Nexus& operator=(const Nexus&) = delete;

    /// Checks all that can be checked before data moves.
    [[nodiscard]] Plan plan(Command&) noexcept;
    /// Carries out a planned command whose data is there, or has room.
    void execute(Command&) noexcept;

    /// Progress of what is outstanding; completions run from within. Part of every pass while there is any.
    unsigned poll() noexcept { return channel_->poll(); }
    [[nodiscard]] unsigned outstanding() const noexcept { return outstanding_; }  ///< executed and not done

    /// The next command that can be told is told. At most 8 are remembered, each once.
    void attend(std::uint16_t code) noexcept;

    /// Sense data of an answer in the format that the initiator chose. Returns the bytes, none without sense.
    [[nodiscard]] std::size_t build_sense(const Command&,
                                          std::span<std::uint8_t, wire::scsi::descriptor_sense_bytes>) const noexcept;

    // For the commands.

    [[nodiscard]] LogicalUnit& unit() const noexcept { return *unit_; }
    /// Null when the nexus is at its end: what would be submitted is aborted.
    [[nodiscard]] Channel* channel() const noexcept { return closing_ ? nullptr : channel_.get(); }
    /// Its answer is set.
    void complete(Command& command) noexcept {
        --outstanding_;
        command.done(command);
    }
    /// Takes the first pending unit attention; 0 if there is none.
    [[nodiscard]] std::uint16_t take_attention() noexcept;
    /// This initiator changed the modes itself.
    void saw_modes() noexcept { modes_seen_ = unit_->mode_generation(); }

    /// What WRITE BUFFER keeps for READ BUFFER.
    static constexpr std::size_t data_buffer_bytes = 4096;
    [[nodiscard]] std::span<std::byte> data_buffer() noexcept { return data_buffer_; }

    /// Memory for commands that move data without the initiator's (VERIFY, WRITE SAME): one command at a time has it,
    /// the others wait in order. True: `command` has it now; else its step is called when it has.
    static constexpr std::size_t workspace_bytes = 64 * 1024;
    [[nodiscard]] bool claim_workspace(Command& command) noexcept;
    void give_back_workspace() noexcept;
    [[nodiscard]] std::span<std::byte> workspace() noexcept { return workspace_; }

  private:
    void look_for_changes() noexcept;

    const std::shared_ptr<LogicalUnit> unit_;
    bool closing_ = false;
    unsigned outstanding_ = 0;
    std::uint64_t sectors_seen_;
    std::uint32_t modes_seen_;
    unsigned attention_count_ = 0;
    std::array<std::uint16_t, 8> attentions_{};
    std::array<std::byte, data_buffer_bytes> data_buffer_{};
    std::vector<std::byte> workspace_;
    Command* workspace_owner_ = nullptr;
    Command* waiting_first_ = nullptr;
    Command** waiting_last_ = &waiting_first_;
    std::unique_ptr<Channel> channel_;  ///< its end runs completions, which use all of the above
};

}  // namespace mqblk::device::scsi
