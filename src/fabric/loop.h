// SPDX-License-Identifier: Apache-2.0
//
// A queue pair between initiator and target in one process: capsules pass by pointer, data by segment list, nothing is
// copied here. The initiator sees LoopTarget and LoopQueue; the target implements them. Commands and completions are
// the NVMe ones (wire/nvme.h), Connect and properties included, as on every fabric.
#pragma once

#include "wire/nvme.h"

#include <mqblk/bio.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>

namespace mqblk {
class Reactor;
}

namespace mqblk::fabric {

/// The initiator owns it, in its request's payload, until `done` runs.
struct LoopCommand {
    wire::nvme::Command command;
    Segments data;  ///< host memory: source of a write, room for a read
    std::uint64_t data_bytes = 0;
    /// Runs on the queue's thread, from poll() or from within submit().
    void (*done)(LoopCommand&, const wire::nvme::Completion&) noexcept = nullptr;
    void* context = nullptr;  ///< the initiator's
};

class LoopQueue {
  public:
    virtual ~LoopQueue() = default;  ///< disconnects: what is outstanding is ended with an abort status first
    virtual void submit(LoopCommand&) noexcept = 0;
    virtual unsigned poll() noexcept = 0;
    virtual bool prepare_sleep() noexcept = 0;
    /// Called from poll() when the target ends the association (shut down, keep-alive, fatal error).
    virtual void on_closed(void (*closed)(void*) noexcept, void* context) noexcept = 0;
};

class LoopTarget {
  public:
    virtual ~LoopTarget() = default;
    /// A new queue in the calling thread's reactor; its first command must be Connect.
    [[nodiscard]] virtual Result<std::unique_ptr<LoopQueue>> open_queue(Reactor&) = 0;
};

}  // namespace mqblk::fabric
