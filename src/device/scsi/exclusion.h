// SPDX-License-Identifier: Apache-2.0
//
// Exclusion: one command has the unit's data to itself while it runs. Every nexus is told to hold its writes back; when
// those in progress have ended, on whatever thread, the command's step runs on its own thread; its end lets the held
// ones go. Commands that want it run one after another. Others pay a look at a plain field of their nexus for it.
// COMPARE AND WRITE (SBC-3 5.2) needs it, and PREEMPT, whose answer means that no write of a preempted initiator can
// still reach the medium.
//
// Invariant: the command at the head of the line is the only one whose step has been called and not ended.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace mqblk::device::scsi {

class Nexus;
struct Command;

class Exclusion : public std::enable_shared_from_this<Exclusion> {
  public:
    // Nexus, on its own thread.
    /// Returns whether writes are being held now.
    [[nodiscard]] bool attach(Nexus&);
    void detach(Nexus&);
    /// A nexus closes: returns those of its commands that wait and will not be called, chained by Command::next. One
    /// that runs is not among them.
    [[nodiscard]] Command* abandon(Nexus&);

    /// `command.step` runs on its nexus's thread, not within this call, when no write is in progress in the unit.
    void begin(Command& command);
    /// The command is done with it. Before it is completed.
    void end(Command& command);
    /// For the token that nexuses hold while they drain: the writes of `turn` have ended everywhere. Any thread.
    void drained(std::uint64_t turn);

    /// Runs fn(nexus) on the thread of each nexus, unless it is gone by then. Any thread.
    void for_each(const std::function<void(Nexus&)>& fn);

  private:
    [[nodiscard]] std::shared_ptr<void> start_turn_locked();
    [[nodiscard]] std::shared_ptr<void> next_turn_locked();
    void run(std::uint64_t turn);
    void post_locked(const std::function<void(Nexus&)>& fn);

    std::mutex mutex_;
    std::vector<Nexus*> nexuses_;
    Command* first_ = nullptr;
    Command* last_ = nullptr;
    bool running_ = false;    // the first one's step has been called
    std::uint64_t turn_ = 0;  // of the first one
};

}  // namespace mqblk::device::scsi
