// SPDX-License-Identifier: Apache-2.0
//
// QueueCore: what a TargetQueue is inside. It plans and executes the commands of one queue and counts them; what each
// command means is in the files commands.h lists. Its reactor's thread only, but for commands() and reactor().
#pragma once

#include "device/nvme/controller.h"
#include "device/nvme/instance.h"
#include "device/nvme/target_queue.h"
#include "device/nvme/worker.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace mqblk::device::nvme {

/// TargetCommand::state.
enum CommandState : std::uint8_t {
    command_idle,
    command_planned,  ///< the transport moves its data
    command_executing,
    command_loaned,  ///< responded to; the transport still sends from media memory
};

class QueueCore : public std::enable_shared_from_this<QueueCore> {
  public:
    QueueCore(Target::Impl&, Reactor&, unsigned port, TargetQueue::Events&, bool allow_lending);
    ~QueueCore();
    /// Lets go of controller and worker: on the queue's thread, before the last reference.
    void shut() noexcept;

    [[nodiscard]] Plan plan(TargetCommand&) noexcept;
    void execute(TargetCommand&) noexcept;
    void abandon(TargetCommand&) noexcept;
    void release(TargetCommand&) noexcept;
    void disconnect() noexcept;
    void give_up(TargetCommand&) noexcept;
    unsigned poll() noexcept { return worker_->poll(); }
    /// Takes a command out that waits for memory, here or in the transport; false: none with this identifier does.
    [[nodiscard]] bool abort(std::uint16_t command_id) noexcept;
    /// The association is over: the transport is told, once.
    void close(std::uint16_t status) noexcept;

    // For the commands' files.

    /// Ends a command that plan() admitted: completion, counters, respond.
    void complete(TargetCommand&, std::uint16_t status) noexcept;
    /// plan()'s answer for a command that fails at once.
    [[nodiscard]] Plan refuse(TargetCommand&, std::uint16_t status) noexcept;
    /// plan()'s answer for one that may go on, if its SGL describes just these bytes.
    [[nodiscard]] Plan admit(TargetCommand&, Direction, std::uint32_t bytes) noexcept;
    /// Connect went well: from now on this is queue `queue_id` of `controller`.
    void attach(std::shared_ptr<Controller>, std::shared_ptr<Instance>, std::uint16_t queue_id, std::uint16_t depth,
                bool flow_control) noexcept;
    void detach() noexcept;

    [[nodiscard]] Target::Impl& target() const noexcept { return target_; }
    [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }
    [[nodiscard]] Worker& worker() const noexcept { return *worker_; }
    [[nodiscard]] Controller* controller() const noexcept { return controller_.get(); }
    [[nodiscard]] unsigned port() const noexcept { return port_; }
    [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
    void set_peer(std::string address) { peer_ = std::move(address); }
    [[nodiscard]] std::uint16_t queue_id() const noexcept { return queue_id_; }
    [[nodiscard]] std::uint16_t depth() const noexcept { return depth_; }
    [[nodiscard]] bool flow_control() const noexcept { return flow_control_; }
    [[nodiscard]] bool lending() const noexcept { return lending_; }
    /// The initiator is in this process.
    [[nodiscard]] bool loop() const noexcept { return loop_; }
    [[nodiscard]] std::uint32_t in_capsule_bytes() const noexcept { return in_capsule_bytes_; }
    [[nodiscard]] unsigned outstanding() const noexcept { return outstanding_; }
    [[nodiscard]] unsigned loans() const noexcept { return loans_; }
    /// Commands received; any thread.
    [[nodiscard]] std::uint64_t commands() const noexcept { return commands_.load(std::memory_order_relaxed); }

    /// The first half of a fused pair that was planned last, if the second has not come yet.
    TargetCommand* fused_first = nullptr;
    bool fused_first_failed = false;  ///< it was refused just now

  private:
    [[nodiscard]] std::uint16_t check_sgl(const wire::nvme::Command&, Direction, std::uint32_t bytes) const noexcept;
    void break_fused() noexcept;
    void let_go_if_idle() noexcept;
    void fill_completion(TargetCommand&, std::uint16_t status) const noexcept;

    Target::Impl& target_;
    Reactor& reactor_;
    TargetQueue::Events& events_;
    std::shared_ptr<Worker> worker_;
    std::shared_ptr<Controller> controller_;  // null before Connect
    std::shared_ptr<Instance> instance_;      // until nothing sent to this queue can have an effect any more
    std::atomic<std::uint64_t> commands_{0};
    unsigned outstanding_ = 0;
    unsigned loans_ = 0;
    std::uint32_t in_capsule_bytes_;
    std::uint16_t queue_id_ = 0;
    std::uint16_t depth_;
    std::uint16_t sq_head_ = 0;
    bool flow_control_ = true;
    const bool lending_;
    const bool loop_;  // the initiator is in this process: SGLs are its memory
    bool closed_ = false;
    bool disconnected_ = false;
    const unsigned port_;
    std::string peer_;
};

}  // namespace mqblk::device::nvme
