// SPDX-License-Identifier: Apache-2.0
//
// RDMA in this process, without a device: queue pairs that do what an adapter does, with its checks (keys, bounds,
// access rights, receivers that are not ready, queue pairs in error and what they flush) and without its copies: data
// go from one end's memory straight into the other's. Both ends of a connection live on one thread: without a courier
// in the very reactor of whoever connects; with one, in the listener's, which takes turns with it.
#pragma once

#include "fabric/rdma/queue_pair.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace mqblk::fabric::rdma {

/// Decides when, and whether, what one end of a connection sends arrives at the other. Without one it arrives at once.
class Courier {
  public:
    virtual ~Courier() = default;
    /// Runs `arrive` later, in order for each connection and side (0: the connector), or never.
    virtual void carry(std::uint64_t connection, unsigned from_side, std::function<void()> arrive) = 0;
    /// How long a queue pair waits in all for what does not arrive.
    [[nodiscard]] virtual Duration retry_time() const noexcept = 0;
};

struct InProcessOptions {
    Limits limits{};
    /// Asked before each registration; true: it fails, as a device may have it. Any thread. Empty: none does.
    std::function<bool()> refuse_registration{};
};

class InProcessNetwork final : public Network {
  public:
    /// The courier outlives the network and its queue pairs.
    explicit InProcessNetwork(InProcessOptions options = {}, Courier* courier = nullptr);
    ~InProcessNetwork() override;  ///< its listeners and queue pairs are gone

    /// Any thread.
    std::unique_ptr<QueuePair> open(Reactor& reactor, const Address& to, QueuePairHandler&, Duration bound) override;
    /// Any name and port that nobody listens at. The listener is not destroyed from within `requested`.
    Result<std::unique_ptr<QueuePairListener>> listen(Reactor& reactor, const Address&, Requested requested) override;

    struct Impl;

  private:
    std::shared_ptr<Impl> impl_;
};

}  // namespace mqblk::fabric::rdma
