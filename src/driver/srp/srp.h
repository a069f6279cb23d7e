// SPDX-License-Identifier: Apache-2.0
//
// The SRP initiator, over whatever RDMA network. All LUNs of a target share its channels, one for each hardware queue.
#pragma once

#include "base/task.h"
#include "driver/srp/options.h"
#include "fabric/connection.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace mqblk {
class Reactor;
namespace block {
class QueueSet;
}
namespace fabric::rdma {
class Network;
}
}  // namespace mqblk

namespace mqblk::driver::srp {

struct Session;

/// A target that was logged in to. Any thread. Its devices keep what they need of it.
class Initiator {
  public:
    /// In `reactor`, where nothing is left of it afterwards. `holds`: what the network lives on, let go of last. The
    /// error names the target, what it said, and the remedy.
    [[nodiscard]] static Task<Result<std::shared_ptr<Initiator>>> connect(Reactor& reactor,
                                                                          fabric::rdma::Network& network,
                                                                          fabric::Address address, Options options,
                                                                          std::shared_ptr<void> holds);
    explicit Initiator(std::shared_ptr<Session>);  ///< for connect()
    ~Initiator();

    [[nodiscard]] std::vector<unsigned> luns() const;
    /// The same Device for all who ask while somebody has it. The error says which LUNs there are.
    [[nodiscard]] Result<std::shared_ptr<Device>> device(unsigned lun);

    struct Counters {
        std::uint64_t commands = 0, external = 0, pieces = 0, aborts = 0, reconnects = 0, requeued = 0, fallbacks = 0;
    };
    [[nodiscard]] Counters counters() const;
    [[nodiscard]] unsigned channels() const noexcept;

  private:
    const std::shared_ptr<Session> session_;
    const std::shared_ptr<block::QueueSet> set_;
    std::mutex mutex_;
    std::vector<std::pair<unsigned, std::weak_ptr<Device>>> devices_;
};

}  // namespace mqblk::driver::srp
