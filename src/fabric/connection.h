// SPDX-License-Identifier: Apache-2.0
//
// A byte stream between two ends, and how to get one. Non-blocking throughout: a call does what it can now. A
// connection belongs to one reactor. Implementations: tcp (fabric/tcp.h) and simulated (fabric/simulated.h); whoever
// speaks a protocol over it cannot tell which it has.
#pragma once

#include "base/clock.h"
#include "base/task.h"

#include <mqblk/bio.h>
#include <mqblk/error.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mqblk {

class Reactor;

namespace fabric {

/// What one send or receive did. `bytes` > 0 is progress; otherwise `state` says why there was none.
struct IoResult {
    enum State : std::uint8_t { progress, would_block, closed, failed };
    std::size_t bytes = 0;
    State state = would_block;
    int error_number = 0;  ///< for `failed`
};

class Connection {
  public:
    virtual ~Connection() = default;  ///< closes at once; unsent bytes may be lost

    /// Fills the segments in order. Several per call (readv).
    virtual IoResult receive(Segments) noexcept = 0;
    /// Takes bytes from the segments in order. `more`: further bytes follow at once, do not push yet.
    virtual IoResult send(Segments, bool more = false) noexcept = 0;

    /// Calls `ready` once, from a pass of the reactor, when receive (or, with for_write, send) may make progress or the
    /// stream has ended. Idempotent while armed. Not needed while the owner polls.
    virtual void arm(bool for_write) = 0;
    virtual void on_ready(std::function<void()> ready) = 0;

    /// Half-close: the peer reads the end of the stream after what was sent.
    virtual void shutdown() noexcept = 0;

    /// The peer has ended the connection, as far as that can be told without reading what it sent before.
    [[nodiscard]] virtual bool peer_left() const noexcept { return false; }
    [[nodiscard]] virtual std::string peer() const = 0;  ///< "127.0.0.1:51234"
    [[nodiscard]] virtual std::string local() const = 0;
};

struct Address {
    std::string host;  ///< name, IPv4 or IPv6 without brackets
    std::uint16_t port = 0;
    [[nodiscard]] std::string to_string() const;  ///< "host:port", "[v6]:port"
    [[nodiscard]] static Result<Address> parse(std::string_view text, std::uint16_t default_port);
};

class Listener {
  public:
    virtual ~Listener() = default;                      ///< stops listening; accepted connections live on
    [[nodiscard]] virtual Address address() const = 0;  ///< with the port that was really taken
};

/// Where connections come from: the operating system's network, or a simulated one.
class Network {
  public:
    virtual ~Network() = default;

    /// Ends with a connection that lives in `reactor`, or with an error that names the address and the reason.
    [[nodiscard]] virtual Task<Result<std::unique_ptr<Connection>>> connect(Reactor&, Address, Duration timeout) = 0;

    /// `accepted` runs in `reactor`. To hand a connection to another reactor, take it as a token and adopt it there:
    /// once (null after that), on that reactor's thread. A token nobody adopts closes its connection.
    using Token = std::function<std::unique_ptr<Connection>(Reactor&)>;
    [[nodiscard]] virtual Result<std::unique_ptr<Listener>> listen(Reactor&, const Address&,
                                                                   std::function<void(Token)> accepted) = 0;
};

}  // namespace fabric
}  // namespace mqblk
