// SPDX-License-Identifier: Apache-2.0
//
// Target: an SRP target over devices. It listens on any number of RDMA networks; each connection lives in the reactor
// that its network gives it. SRP rev. 16a.
#pragma once

#include "device/srp/login.h"
#include "device/srp/rdma_channel.h"
#include "device/srp/units.h"
#include "fabric/rdma/queue_pair.h"

#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace mqblk::device::srp {

struct TargetOptions {
    LoginRules login;
    std::uint32_t max_transfer_bytes = 8u << 20;  ///< of one command
    std::size_t buffer_bytes = 64u << 20;         ///< for data on their way, of each reactor and RDMA device
    unsigned max_connections = 1024;
};

class Target {
  public:
    [[nodiscard]] static Result<std::unique_ptr<Target>> create(TargetOptions, std::vector<UnitConfig>);
    Target(TargetOptions, std::shared_ptr<const UnitTable>);  ///< for create()
    /// Listeners and connections are gone: see shutdown() and leave().
    ~Target();

    /// Returns the address really taken. On `reactor`'s thread.
    [[nodiscard]] Result<fabric::Address> listen(fabric::rdma::Network&, Reactor& reactor, const fabric::Address&);
    /// Listens no more, where it did on `reactor`; its thread, or any where requests come on the connector's.
    void stop_listening(Reactor& reactor);
    /// Ends all connections; `done` runs, on any thread, when the last one is gone. Once. Any thread.
    void shutdown(std::function<void()> done);
    /// Destroys at once the connections that live in `reactor`, which is about to go. Its thread, from outside a pass.
    void leave(Reactor& reactor);

    [[nodiscard]] unsigned connections() const;  ///< any thread
    [[nodiscard]] const UnitTable& units() const noexcept { return *units_; }
    [[nodiscard]] const TargetOptions& options() const noexcept { return options_; }

    // RdmaChannel, on its own thread.

    /// It is done: destroyed in a later pass.
    void retire(RdmaChannel&);
    /// Destroys it now.
    void drop(RdmaChannel& channel) { erase(channel.id()); }
    /// When all copies are gone, the task in that slot of the channel is told.
    [[nodiscard]] std::shared_ptr<void> make_task_token(const RdmaChannel&, unsigned index, std::uint64_t number);
    /// Has the other channels of the same initiator, or all of them, carry out the order. The caller has the token,
    /// too.
    void abort_elsewhere(const RdmaChannel& from, const AbortOrder& order, bool of_all_initiators);

  private:
    friend class TaskToken;
    struct Listening {
        Reactor* reactor;
        std::unique_ptr<fabric::rdma::QueuePairListener> listener;
    };
    void requested(std::unique_ptr<fabric::rdma::QueuePair>, std::span<const std::byte> private_data);
    [[nodiscard]] Result<std::shared_ptr<Worker>> worker_for(fabric::rdma::QueuePair&);
    [[nodiscard]] std::expected<LoginGrant, wire::srp::RejectReason> decide(const wire::srp::LoginReq&) const;
    [[nodiscard]] std::expected<std::shared_ptr<RdmaChannel>, wire::srp::RejectReason> log_in(
        std::unique_ptr<fabric::rdma::QueuePair>&, const wire::srp::LoginReq&);
    void task_ended(std::uint64_t channel, unsigned index, std::uint64_t number);
    void erase(std::uint64_t id);
    void finish_shutdown();

    const TargetOptions options_;
    const std::shared_ptr<const UnitTable> units_;
    std::vector<Listening> listening_;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::shared_ptr<RdmaChannel>> channels_;
    std::map<fabric::rdma::Domain*, std::weak_ptr<Worker>> workers_;
    std::uint64_t next_id_ = 1;
    bool ending_ = false;
    std::function<void()> shut_down_;
};

}  // namespace mqblk::device::srp
