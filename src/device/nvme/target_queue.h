// SPDX-License-Identifier: Apache-2.0
//
// The seam between the target's core (subsystems, controllers, commands) and its transports (tcp, loop, later PCIe). A
// transport owns connections, command slots and data buffers; the core owns what a command means. For each capsule, in
// order of arrival: plan() says which data must move, the transport moves it, execute() carries the command out, and
// `respond` is called once. Everything here belongs to one reactor.
#pragma once

#include "wire/nvme.h"

#include <mqblk/bio.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk {
class Reactor;
}

namespace mqblk::device::nvme {

class QueueCore;
class Target;
struct NamespaceChannel;  // the core's: one namespace as this reactor sees it

/// One command slot of a transport. Reused; the core's part is reset by plan().
struct TargetCommand {
    // The transport's.
    wire::nvme::Command command;
    Segments data;  ///< after plan(): memory of plan.bytes; filled before execute() for host-to-controller
    void (*respond)(TargetCommand&) noexcept = nullptr;  ///< `completion` is set; may run within execute()
    void* transport = nullptr;

    // The core's. The transport reads `completion`, and `direct` if the plan says `lent`.
    wire::nvme::Completion completion;
    Segment direct{nullptr, 0};  ///< media memory lent in place of a buffer
    QueueCore* queue = nullptr;
    NamespaceChannel* channel = nullptr;
    void (*step)(TargetCommand&) noexcept = nullptr;  ///< takes the end of a bio, for commands of several
    TargetCommand* next = nullptr;                    ///< in the list that holds it
    TargetCommand* fused = nullptr;                   ///< the other half of a fused pair
    TargetCommand* next_pair = nullptr;               ///< of a first half: the pair that waits for this one to end
    std::uint64_t position = 0;                       ///< how far a command of several bios has come
    std::uint32_t bytes = 0;                          ///< of data, as planned
    std::uint16_t failure = 0;                        ///< found between plan() and execute(): the command ends with it
    std::uint8_t state = 0;
    bool changes_media = false;  ///< it is a write to its channel
    bool counted = false;        ///< its channel counts it as busy
    Segment piece{nullptr, 0};   ///< memory of the core's own that a bio uses
    Bio bio;
};

enum class Direction : std::uint8_t { none, to_controller, to_host };

struct Plan {
    Direction direction = Direction::none;
    std::uint32_t bytes = 0;   ///< data to move; equals what the command's SGL states
    std::uint16_t status = 0;  ///< not 0: the command fails with this (status << 1 not applied); no data moves except
                               ///< in-capsule data, which the transport drops; completion is set, respond yourself
    bool lent = false;         ///< command.direct is the memory to use: send from it, or receive into it
    std::uint32_t memory_mask = 0;  ///< of command.data: address and length of each piece have these bits clear
};

/// One queue pair of the target: admin or I/O once Connect was carried out.
class TargetQueue {
  public:
    /// What the core tells the transport.
    struct Events {
        virtual ~Events() = default;
        /// The association is over (keep-alive expired, fatal controller state, subsystem removed): close. Same thread.
        virtual void close(std::uint16_t why_status) noexcept = 0;
        /// An Abort asks for the planned command with this identifier. True: it waited for memory, and was abandoned
        /// and responded to as aborted. A transport that lets nothing wait has nothing to abort.
        virtual bool abort(std::uint16_t command_id) noexcept {
            static_cast<void>(command_id);
            return false;
        }
    };

    /// `port` selects which subsystems and hosts are visible; `allow_lending` is off where digests need stable data.
    TargetQueue(Target&, Reactor&, unsigned port, Events&, bool allow_lending);
    /// All commands have been responded to and all loans released (outstanding() == 0, loans() == 0).
    ~TargetQueue();
    TargetQueue(const TargetQueue&) = delete;
    TargetQueue& operator=(const TargetQueue&) = delete;

    [[nodiscard]] Plan plan(TargetCommand&) noexcept;
    void execute(TargetCommand&) noexcept;
    /// The transport is done with the memory that a read was lent, its data being sent: after `respond`, once for each
    /// command planned with `lent` and Direction::to_host that went through execute(). Until then the loan keeps the
    /// namespace's device open and counts in loans().
    void release(TargetCommand&) noexcept;
    /// The transport gives a planned command up before execute() (connection lost, data digest wrong). Its completion
    /// lacks nothing but a status, for a transport that responds all the same.
    void abandon(TargetCommand&) noexcept;

    /// Nobody waits for these commands any more: after give_up() for each, drop_given_up() ends, by and by, those that
    /// a backend has not begun. For commands in execute().
    void give_up(TargetCommand&) noexcept;
    void drop_given_up() noexcept;

    /// Progress of the backends of this reactor; part of every pass. Returns events handled.
    unsigned poll() noexcept;
    bool prepare_sleep() noexcept;
    /// Sleeps until something has ended in a backend of this reactor; false if nothing is there to wait for. Only for a
    /// transport that must not return before its commands have ended.
    bool wait() noexcept;

    /// The connection is gone: held commands (asynchronous events, fused first halves) are responded to with an abort
    /// status, which the transport discards; commands in a backend follow when it is done. The controller is told.
    void disconnect() noexcept;

    [[nodiscard]] unsigned outstanding() const noexcept;    ///< planned and not yet responded to
    [[nodiscard]] unsigned loans() const noexcept;          ///< reads lent, executed and not yet released
    [[nodiscard]] bool connected() const noexcept;          ///< Connect succeeded
    [[nodiscard]] std::uint16_t queue_id() const noexcept;  ///< after Connect
    [[nodiscard]] std::uint16_t depth() const noexcept;     ///< SQSIZE + 1 after Connect; 32 before
    [[nodiscard]] bool flow_control() const noexcept;       ///< false: SQHD is not maintained, SUCCESS may be used
    [[nodiscard]] std::uint32_t in_capsule_bytes() const noexcept;  ///< largest in-capsule data now
    [[nodiscard]] std::string peer_nqn() const;                     ///< host NQN after Connect, for logs

    /// Who is at the other end ("127.0.0.1:51234"), for Target::controllers(); before Connect is carried out.
    void set_peer(std::string address);

  private:
    std::shared_ptr<QueueCore> core_;
};

}  // namespace mqblk::device::nvme
