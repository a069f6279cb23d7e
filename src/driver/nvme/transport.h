// SPDX-License-Identifier: Apache-2.0
//
// Transport: how queue pairs to one target come about. It holds what is the same for all of a controller's queues, is
// constant, and may be used by many threads at once, each in its own reactor.
#pragma once

#include "base/clock.h"
#include "base/task.h"
#include "driver/nvme/queue_pair.h"
#include "fabric/connection.h"

#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk {
class Reactor;
}

namespace mqblk::driver::nvme {

class Transport {
  public:
    struct Queue {
        unsigned depth;                  ///< most commands at once
        std::uint32_t in_capsule_bytes;  ///< largest write whose data travels with its command
        Duration timeout;                ///< for all of open()
    };

    static constexpr std::uint32_t admin_capsule_bytes = 8192;  ///< in-capsule data on the admin queue

    virtual ~Transport() = default;

    /// A queue pair that is ready for its Connect command and lives in `reactor`. `events` outlives it. The task may be
    /// destroyed while it waits: then nothing is left behind.
    [[nodiscard]] virtual Task<Result<std::unique_ptr<QueuePair>>> open(Reactor& reactor, QueuePairEvents& events,
                                                                        Queue queue) const = 0;

    [[nodiscard]] virtual const std::string& target() const noexcept = 0;  ///< "127.0.0.1:4420", "this process"
    [[nodiscard]] virtual const std::string& name() const noexcept = 0;    ///< "tcp", "loop"
};

struct TcpSettings {
    fabric::Address address;
    bool header_digest = false, data_digest = false;
};
/// `network` outlives it.
[[nodiscard]] std::shared_ptr<const Transport> tcp_transport(fabric::Network& network, TcpSettings);
[[nodiscard]] std::shared_ptr<const Transport> loop_transport(std::shared_ptr<fabric::LoopTarget>);

}  // namespace mqblk::driver::nvme
