// SPDX-License-Identifier: Apache-2.0
//
// The network of a SimulatedWorld. Streams behave as TCP does: bytes arrive in order, once, in pieces of any size,
// late, and not at all after a fault. Faults strike a chosen connection after an exact number of bytes, or any
// connection as the seed has it; hosts go down and come back. A Connection is to be destroyed before its reactor, all
// of them before the network, and the network before the world.
#pragma once

#include "fabric/connection.h"
#include "reactor/simulated.h"

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk::fabric {

/// The way of bytes through a connection, seen from who connected.
enum class Way : std::uint8_t { to_listener, to_connector };

struct NetworkConditions {
    Duration latency = std::chrono::microseconds(10);  ///< least time from send to arrival
    Duration jitter = std::chrono::microseconds(40);   ///< up to this much more, for each piece sent
    std::uint64_t bytes_per_second = 0;                ///< of each connection and way; 0: no limit
    std::size_t window_bytes = 256 * 1024;             ///< sent and not yet received by the other end
    bool random_pieces = true;                         ///< sends and receives do a part of what they could
};

struct Fault {
    enum class Kind : std::uint8_t {
        cut,    ///< both ends learn that the connection is gone, as by a reset
        close,  ///< as if the sender had closed there: the receiver reads the end of the stream, the sender fails
        stall,  ///< what follows is held back for `duration`
        drop,   ///< what follows vanishes, the end of the stream included, and nobody is told: half-open
    };
    std::uint64_t connection = 0;  ///< by order of connecting, from 0
    Way way = Way::to_listener;
    std::uint64_t after_bytes = 0;  ///< these arrive, the next does not; 0: struck as soon as it is connected
    Kind kind = Kind::cut;
    Duration duration{};  ///< of a stall
};

/// Faults as the seed has them. Each new connection is struck with the given probability by one that is drawn evenly
/// from what is allowed, within its first `within_bytes`.
struct RandomFaults {
    double probability = 0;
    std::uint64_t within_bytes = 1 << 20;
    bool cut = true, close = true, stall = true, drop = true;
    Duration longest_stall = std::chrono::seconds(2);
};

class SimulatedNetwork final : public Network {
  public:
    explicit SimulatedNetwork(SimulatedWorld&, NetworkConditions = {});
    ~SimulatedNetwork() override;

    Task<Result<std::unique_ptr<Connection>>> connect(Reactor&, Address, Duration timeout) override;
    Result<std::unique_ptr<Listener>> listen(Reactor&, const Address&, std::function<void(Token)> accepted) override;

    void set_conditions(const NetworkConditions&);  ///< also for what is connected already
    void set_random_faults(const RandomFaults&);    ///< for connections to come
    /// Will strike, or has struck by the time it returns if so many bytes were sent already.
    void plan(const Fault&);

    /// The next `count` attempts to connect are refused.
    void refuse_next(unsigned count);
    /// The host behind this address is gone without a word: what is sent to it vanishes, connecting to it takes until
    /// the time-out. Its Listener object stays; when it is up again it accepts, and the old connections are reset.
    void host_down(const Address&);
    void host_up(const Address&);

    [[nodiscard]] std::uint64_t connections_made() const noexcept;
    [[nodiscard]] unsigned open_ends() const noexcept;  ///< Connection objects in existence
    [[nodiscard]] std::uint64_t bytes_sent(std::uint64_t connection, Way) const noexcept;
    /// In words: what was struck so far, for the report of a failing seed.
    [[nodiscard]] std::string history() const;

    struct Impl;

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace mqblk::fabric
