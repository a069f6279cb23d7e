// SPDX-License-Identifier: Apache-2.0
//
// QueuePair: a reliable connection (RC) and how to have one. Where queue pairs come from: a Network, of verbs
// (fabric/rdma/verbs.h) or in this process (fabric/rdma/in_process.h); whoever speaks a protocol over them cannot tell
// which it has. Nothing blocks. A queue pair belongs to one reactor's thread. InfiniBand Architecture Specification,
// volume 1: transport 9.7, queue pair states 10.3, connection management 12.
#pragma once

#include "base/clock.h"
#include "fabric/connection.h"
#include "fabric/rdma/domain.h"
#include "fabric/rdma/work.h"

#include <mqblk/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace mqblk {
class Reactor;
}

namespace mqblk::fabric::rdma {

struct QueuePairShape {
    std::uint32_t max_sends = 64;  ///< work requests other than receives; freed when they, or a later one, completed
    std::uint32_t max_receives = 64;
    std::uint32_t max_send_pieces = 1;
    std::uint32_t max_receive_pieces = 1;
};

/// What both ends of a connection ask for.
struct ConnectParameters {
    static constexpr std::size_t max_private_bytes = 196;  ///< of the longest message, the acceptance

    std::span<const std::byte> private_data{};
    std::uint8_t responder_resources = 4;  ///< RDMA reads of the peer's at once
    std::uint8_t initiator_depth = 4;      ///< own ones
    std::uint8_t retry_count = 7;          ///< of messages that the peer does not acknowledge
    std::uint8_t rnr_retry_count = 7;      ///< while the peer has posted no receive; 7: without end
};

/// Reasons of a rejection (12.6.7.2), those that something can be said about.
enum RejectReason : std::uint16_t {
    reject_no_queue_pair = 1,
    reject_invalid_service_id = 8,
    reject_stale_connection = 10,
    reject_port_and_cm_redirect = 24,
    reject_port_redirect = 25,
    reject_consumer_defined = 28,  ///< the private data says why
};

/// News of a queue pair, each from a pass of its reactor; not from within its functions. Private data is valid during
/// the call. The handler may destroy the queue pair.
class QueuePairHandler {
  public:
    /// Connector: the device is known. create(), post receives, connect().
    virtual void resolved() noexcept {}
    /// Connector: the connection stands.
    virtual void accepted(std::span<const std::byte> private_data) noexcept { static_cast<void>(private_data); }
    virtual void rejected(std::uint16_t reason, std::span<const std::byte> private_data) noexcept {
        static_cast<void>(reason);
        static_cast<void>(private_data);
    }
    /// Connector: nobody there, no device, no answer in time. The error names the address.
    virtual void failed(const Error&) noexcept {}
    /// Acceptor: the connection stands. Messages may have arrived before this.
    virtual void established() noexcept {}
    /// The connection is at its end, or will never be: by disconnect(), by the peer, by an error. Once. What was
    /// outstanding is or will be flushed.
    virtual void disconnected() noexcept {}
    /// Acceptor in this process, in the reactor of the other end, which has gone: the reactor may be about to go, too.
    /// Whatever lives in it is to be let go of now; the last news there is, and the one that does not come from a pass.
    virtual void orphaned() noexcept {}

  protected:
    ~QueuePairHandler() = default;
};

class QueuePair {
  public:
    virtual ~QueuePair() = default;  ///< disconnects at once. No completion of it arrives afterwards.

    virtual void set_handler(QueuePairHandler&) noexcept = 0;
    [[nodiscard]] virtual Reactor& reactor() noexcept = 0;
    /// Of its device: the same for all queue pairs of one reactor, device and side. Connector: after resolved().
    [[nodiscard]] virtual const std::shared_ptr<Domain>& domain() const noexcept = 0;
    [[nodiscard]] virtual std::string peer() const = 0;
    /// Of the peer's port, as the network has it; zero where it has none.
    [[nodiscard]] virtual std::array<std::byte, 16> peer_gid() const noexcept { return {}; }
    [[nodiscard]] virtual std::array<std::byte, 16> local_gid() const noexcept { return {}; }

    // Connecting.

    /// Its completions arrive in `completions`, of its own domain. Once, before receives are posted.
    [[nodiscard]] virtual Result<> create(const QueuePairShape&, CompletionQueue& completions) = 0;
    /// Connector. `bound`: of the answer.
    virtual void connect(const ConnectParameters&, Duration bound) noexcept = 0;
    /// Acceptor: one of these, at any time after the request.
    [[nodiscard]] virtual Result<> accept(const ConnectParameters&) noexcept = 0;
    /// Consumer defined. The queue pair is of no more use.
    virtual void reject(std::span<const std::byte> private_data) noexcept = 0;
    /// Everything outstanding is flushed. Idempotent.
    virtual void disconnect() noexcept = 0;

    // Work. False: the queue is full, there are too many pieces, or there is no queue yet; nothing was posted. Work of
    // one queue starts in order; a send arrives after the writes before it. All memory stays until it has completed.
    // Errors complete always, success only of what is `signaled`; after an error everything is flushed.

    virtual bool post_receive(std::uint64_t id, std::span<const LocalPiece> to) noexcept = 0;
    virtual bool post_send(std::uint64_t id, std::span<const LocalPiece> from, bool signaled = true) noexcept = 0;
    /// From the peer's memory.
    virtual bool post_read(std::uint64_t id, std::span<const LocalPiece> to, const RemotePlace& from,
                           bool signaled = true) noexcept = 0;
    /// Into the peer's memory. Of no pieces: only its completion comes.
    virtual bool post_write(std::uint64_t id, std::span<const LocalPiece> from, const RemotePlace& to,
                            bool signaled = true) noexcept = 0;
    /// The region, whose key is not valid, becomes the list; its key changes at once and is valid for what is posted
    /// afterwards. The list is copied.
    virtual bool post_register(std::uint64_t id, Region& region, const PageList& list, std::uint8_t access,
                               bool signaled = false) noexcept = 0;
    /// The region's key is not valid any more.
    virtual bool post_invalidate(std::uint64_t id, std::uint32_t key, bool signaled = false) noexcept = 0;
};

class QueuePairListener {
  public:
    virtual ~QueuePairListener() = default;
    [[nodiscard]] virtual Address address() const = 0;
};

class Network {
  public:
    virtual ~Network() = default;

    /// A queue pair on its way to `to`: resolved() or failed() comes within `bound`.
    [[nodiscard]] virtual std::unique_ptr<QueuePair> open(Reactor& reactor, const Address& to, QueuePairHandler&,
                                                          Duration bound) = 0;

    /// `requested` runs with each request for a connection and its private data: on `reactor`'s thread or, in this
    /// process without simulation, on the connector's, several at once. QueuePair::reactor() says where the queue pair
    /// lives. It is given a handler there and then, and accepted or rejected then or later; destroying it rejects.
    using Requested = std::function<void(std::unique_ptr<QueuePair>, std::span<const std::byte> private_data)>;
    [[nodiscard]] virtual Result<std::unique_ptr<QueuePairListener>> listen(Reactor& reactor, const Address&,
                                                                            Requested requested) = 0;
};

}  // namespace mqblk::fabric::rdma
