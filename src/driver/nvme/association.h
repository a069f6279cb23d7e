// SPDX-License-Identifier: Apache-2.0
//
// Association: what the I/O queues of a controller, each on its own thread, and its control path, on the control
// reactor, say to each other. The control path raises it when a controller is ready for I/O queues, lowers it when the
// controller was lost, and ends it for good. Each change has an epoch: a report about an older one is of no interest.
// Any thread; nothing here is touched per I/O.
#pragma once

#include "base/clock.h"
#include "driver/nvme/transport.h"

#include <mqblk/status.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mqblk::driver::nvme {

/// Who connects: the same on every queue of a controller.
struct HostIdentity {
    std::string nqn;
    std::array<std::uint8_t, 16> id{};
};

class Association {
  public:
    enum class Mode : std::uint8_t {
        down,  ///< being connected or reset: commands wait
        up,    ///< I/O queues may connect
        ended  ///< for good: commands end with `end_status`
    };
    struct View {
        Mode mode = Mode::down;
        Status end_status = Status::removed;
        std::uint64_t epoch = 0;
        std::uint16_t controller_id = 0;
        std::uint32_t in_capsule_bytes = 0;
        unsigned queues = 0;                     ///< I/O queues that the target grants now
        unsigned depth = 0;                      ///< commands in each, at most
        std::array<Duration, 3> retry_delays{};  ///< that a completion may ask for: CRDT1 to 3; zero: not stated
    };
    /// What never changes.
    struct Terms {
        std::shared_ptr<const Transport> transport;
        std::string subsystem_nqn;
        HostIdentity host;
        Duration connect_timeout{}, reconnect_delay{}, loss_timeout{};
        bool flow_control = false;
    };
    /// How I/O queues reach the control path. Any thread, also from within Member calls.
    struct Control {
        std::function<void(std::uint64_t epoch, std::string reason)> lost;
        std::function<void(std::uint64_t epoch, std::uint16_t queue_id, std::uint16_t command_id)> abort;
    };
    /// An I/O queue as others see it. `changed` runs on its thread, from a pass of its reactor, until it left.
    class Member {
      public:
        virtual void association_changed() noexcept = 0;

      protected:
        ~Member() = default;
    };

    Association(Terms, Control);

    [[nodiscard]] const Terms& terms() const noexcept { return terms_; }
    [[nodiscard]] const Control& control() const noexcept { return control_; }
    [[nodiscard]] View view() const;

    // For the control path.
    /// Of the view given, what describes the controller.
    void raise(const View& controller);
    void lower();
    void end(Status);
    /// Queues whose commands of the last association may still be carried out, as far as anyone knows.
    [[nodiscard]] unsigned may_act() const;

    // For an I/O queue, on its thread.
    void join(Member&, Reactor&);
    void leave(Member&);
    /// An identifier among those granted in this epoch, `wanted` if it is free. 0: all are in use, or the epoch is
    /// over.
    [[nodiscard]] std::uint16_t take_queue_id(std::uint64_t epoch, std::uint16_t wanted);
    void give_queue_id(std::uint64_t epoch, std::uint16_t id);
    /// Before the first command is sent on a connection of this epoch. False: the epoch is over, nothing may be sent.
    [[nodiscard]] bool begin_io(std::uint64_t epoch);
    /// After the last one was answered, or cannot have an effect any more.
    void end_io(std::uint64_t epoch);

  private:
    /// Outlives the member: what was posted before it left finds it gone.
    struct Handle {
        Member* member;
        Reactor* reactor;
    };
    void announce();

    const Terms terms_;
    const Control control_;
    mutable std::mutex mutex_;
    View view_;
    std::uint64_t up_epoch_ = 0;  ///< the last that was up
    unsigned acting_ = 0;         ///< of its queues: begun and not ended
    std::vector<bool> ids_taken_;
    std::vector<std::shared_ptr<Handle>> members_;
};

}  // namespace mqblk::driver::nvme
