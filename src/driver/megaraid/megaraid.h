// SPDX-License-Identifier: Apache-2.0
//
// The driver of MegaRAID SAS controllers, of the Fusion generation and of the MFI generation before it, whatever way
// leads to the controller. Its disks and
// volumes share hardware queues and one space of tags, as the controller's commands are its own, not its disks'.
#pragma once

#include "driver/megaraid/options.h"
#include "driver/megaraid/route.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mqblk {
class Reactor;
namespace block {
class QueueSet;
}
namespace pci {
class Function;
}
}  // namespace mqblk

namespace mqblk::driver::megaraid {

class MegaraidDriver;

/// Where a controller's control path lives: start-up, events, recovery, its model if it has one.
struct Control {
    Reactor* reactor = nullptr;
    /// Returns when `done` is true (whoever sets it notifies): waits for the thread that runs the reactor, or runs it.
    std::function<void(const std::atomic<bool>& done)> wait;
    /// The thread that runs the reactor, if it is this controller's own. Let go of last.
    std::shared_ptr<void> thread;
};

/// The reactor has a thread of its own.
[[nodiscard]] Control threaded_control(Reactor& reactor, std::shared_ptr<void> thread);
/// The caller's thread runs it: for tests and simulation.
[[nodiscard]] Control turned_control(Reactor& reactor);

struct UnitName {
    Kind kind = Kind::disk;
    std::uint16_t id = 0;
    std::string model, serial;
    std::uint64_t bytes = 0;
    std::uint32_t block_bytes = 512;
    std::optional<unsigned> raid_level{};  ///< of a volume, where the firmware tells
};

/// An opened controller. Any thread but the control reactor's. The controller lives until this and the last device and
/// channel are gone; whoever lets go last waits until its caches are written.
class Adapter {
  public:
    /// Starts the controller. Blocks until its disks are known or an error is; bounded by the options. `function` was
    /// made in the control reactor, or may be destroyed there. The error names the function and the remedy.
    [[nodiscard]] static Result<std::shared_ptr<Adapter>> open(std::unique_ptr<pci::Function> function, Control control,
                                                               const Options& options);
    ~Adapter();

    /// What is left of an adapter when it is gone: the controller, as long as a device or channel keeps it.
    class Trace {
      public:
        /// Another adapter of the same controller. Null where it is closed: then that has come to its end, and the
        /// function is free for others. Not from the control reactor's thread.
        [[nodiscard]] std::shared_ptr<Adapter> again() const;

      private:
        friend class Adapter;
        std::weak_ptr<MegaraidDriver> driver_;
        std::weak_ptr<block::QueueSet> set_;
        std::shared_ptr<std::atomic<bool>> closed_;
    };
    [[nodiscard]] Trace trace() const;

    [[nodiscard]] std::vector<UnitName> units() const;
    /// What it says of itself, in order, by name.
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> details() const;
    /// The same Device for all who ask while somebody has it. The error says what there is.
    [[nodiscard]] Result<std::shared_ptr<Device>> device(Kind kind, unsigned id);

    struct Counters {
        std::uint64_t resets = 0, aborts = 0, target_resets = 0, mismatches = 0, sent_again = 0, events = 0;
    };
    [[nodiscard]] Counters counters() const;
    [[nodiscard]] unsigned queues() const noexcept;
    /// Commands at once, of all queues and disks.
    [[nodiscard]] unsigned depth() const noexcept;

  private:
    Adapter(std::shared_ptr<MegaraidDriver> driver, std::shared_ptr<block::QueueSet> set);

    std::shared_ptr<MegaraidDriver> driver_;
    std::shared_ptr<block::QueueSet> set_;
};

}  // namespace mqblk::driver::megaraid
