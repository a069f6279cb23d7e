// SPDX-License-Identifier: Apache-2.0
//
// Nexus: one initiator's way to a LogicalUnit, in one reactor: its channel to the device, what it may do while the unit
// is reserved, its data buffer (READ BUFFER). An initiator that comes by several channels has a nexus for each, and one
// Initiator for all. Any number of commands may be outstanding. Everything here is the reactor's thread's.
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

struct CommandInfo;

class Nexus {
  public:
    /// For an initiator without a name, the only way of its to this unit.
    [[nodiscard]] static Result<std::unique_ptr<Nexus>> open(std::shared_ptr<LogicalUnit>, Reactor&);
    /// `initiator`: the unit's (LogicalUnit::initiator).
    [[nodiscard]] static Result<std::unique_ptr<Nexus>> open(std::shared_ptr<LogicalUnit>, Reactor&,
                                                             std::shared_ptr<Initiator> initiator);
    /// For open().
    Nexus(std::shared_ptr<LogicalUnit>, Reactor&, std::shared_ptr<Initiator>, std::unique_ptr<Channel>);
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
    void attend(std::uint16_t code) noexcept { initiator_->attend(code); }

    /// Nobody wants the end of an executed command any more: what has not begun of it does not. It still ends.
    void cancel(Command&) noexcept;
    /// Ends at once, as aborted, what was cancelled and waits before the device.
    void drop_cancelled() noexcept { channel_->drop_cancelled(); }
    /// Who carries commands to this nexus is asked to cancel all of them (PREEMPT AND ABORT of another initiator).
    void on_abort(void (*abort)(void*) noexcept, void* context) noexcept {
        abort_ = abort;
        abort_context_ = context;
    }
    void abort_all() noexcept {
        if (abort_ != nullptr) abort_(abort_context_);
    }

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
        if (command.writes) {
            command.writes = false;
            if (--writes_ == 0 && drained_) [[unlikely]]
                drained_.reset();
        }
        command.done(command);
    }
    [[nodiscard]] Initiator& initiator() const noexcept { return *initiator_; }
    /// This initiator changed the modes itself.
    void saw_modes() noexcept { initiator_->modes_seen.store(unit_->mode_generation(), std::memory_order_relaxed); }

    // For Exclusion.

    [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }
    [[nodiscard]] std::weak_ptr<char> alive() const noexcept { return alive_; }
    /// No write is begun from now on; `drained` is given up when none is in progress.
    void hold_writes(std::shared_ptr<void> drained) noexcept;
    void let_writes_go() noexcept;

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
    [[nodiscard]] bool is_excluded(const CommandInfo&, const wire::scsi::Cdb&) noexcept;
    void abort_chain(Command* first) noexcept;

    const std::shared_ptr<LogicalUnit> unit_;
    Reactor& reactor_;
    const std::shared_ptr<Initiator> initiator_;
    bool closing_ = false;
    Access access_ = Access::all;  // as of access_epoch_
    std::uint32_t access_epoch_ = 0;
    unsigned outstanding_ = 0;
    unsigned writes_ = 0;  // begun and not ended
    unsigned holds_ = 0;   // exclusions that hold them
    Command* held_first_ = nullptr;
    Command** held_last_ = &held_first_;
    std::shared_ptr<void> drained_;  // given up when writes_ is 0
    void (*abort_)(void*) noexcept = nullptr;
    void* abort_context_ = nullptr;
    std::shared_ptr<char> alive_ = std::make_shared<char>();  // tasks posted to it look whether it is there still
    std::array<std::byte, data_buffer_bytes> data_buffer_{};
    std::vector<std::byte> workspace_;
    Command* workspace_owner_ = nullptr;
    Command* waiting_first_ = nullptr;
    Command** waiting_last_ = &waiting_first_;
    std::unique_ptr<Channel> channel_;  ///< its end runs completions, which use all of the above
};

}  // namespace mqblk::device::scsi
