// SPDX-License-Identifier: Apache-2.0
//
// One simulated connection: two pipes, one for each way, and up to two ends. It outlives its ends for as long as bytes
// or news are on their way.
#pragma once

#include "fabric/simulated.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::fabric {

class SimulatedLink;

/// What all links of a network share.
struct LinkSettings {
    SimulatedWorld& world;
    NetworkConditions conditions;
    unsigned open_ends = 0;
    std::string history;
};

/// Bytes on one way: from `head`, `arrived` can be read, the rest is on its way.
struct SimulatedPipe {
    std::vector<std::byte> bytes;
    std::size_t head = 0;
    std::size_t arrived = 0;
    std::size_t lost = 0;      ///< vanished, but the sender does not know: they fill its window
    std::uint64_t sent = 0;    ///< in all, lost ones included
    Time last_arrival{};       ///< nothing may arrive earlier: order is kept
    Time line_free{};          ///< when the line has taken what it was given
    bool dropping = false;     ///< what is sent vanishes
    bool ended = false;        ///< the sender will send no more
    bool end_arrived = false;  ///< and the receiver can see it
    std::vector<Fault> faults;

    [[nodiscard]] std::size_t unread() const noexcept { return bytes.size() - head; }
    void consume(std::size_t count) noexcept;
};

class SimulatedEnd final : public Connection {
  public:
    SimulatedEnd(std::shared_ptr<SimulatedLink>, unsigned side, Reactor&, Address local, Address peer);
    ~SimulatedEnd() override;

    IoResult receive(Segments) noexcept override;
    IoResult send(Segments, bool more) noexcept override;
    void arm(bool for_write) override;
    void on_ready(std::function<void()> ready) override { ready_ = std::move(ready); }
    void shutdown() noexcept override;
    std::string peer() const override { return peer_.to_string(); }
    std::string local() const override { return local_.to_string(); }

    /// The link's state has changed: whoever waits for that is called.
    void changed();

  private:
    void tell();

    std::shared_ptr<SimulatedLink> link_;
    const unsigned side_;
    Reactor& reactor_;
    const Address local_, peer_;
    std::function<void()> ready_;
    bool armed_read_ = false, armed_write_ = false, telling_ = false;
    std::shared_ptr<SimulatedEnd*> self_;  ///< becomes null with this object
};

class SimulatedLink : public std::enable_shared_from_this<SimulatedLink> {
  public:
    /// Side 0 connected, side 1 accepted. Side s sends on pipe s, which is also the number of its Way.
    static constexpr unsigned connector = 0, listener = 1;

    SimulatedLink(std::shared_ptr<LinkSettings> settings, std::uint64_t number)
        : settings_(std::move(settings)), number_(number) {}

    void attach(unsigned side, SimulatedEnd& end) noexcept { ends_[side] = &end; }
    /// The side's end is destroyed, or never came to be.
    void detach(unsigned side);

    [[nodiscard]] bool readable(unsigned side) const noexcept;
    [[nodiscard]] bool writable(unsigned side) const noexcept;
    IoResult receive(unsigned side, Segments);
    IoResult send(unsigned side, Segments);
    void finish(unsigned side);  ///< no more will be sent from this side

    void plan(const Fault&);
    void drop_both_ways() noexcept;
    void reset();  ///< both sides learn, each after a while, that the connection is gone

    [[nodiscard]] std::uint64_t bytes_sent(Way way) const noexcept { return pipes_[static_cast<unsigned>(way)].sent; }
    [[nodiscard]] LinkSettings& settings() noexcept { return *settings_; }

  private:
    [[nodiscard]] std::size_t room(unsigned side) const noexcept;
    void transmit(unsigned side, std::size_t bytes);
    void deliver_later(unsigned side, std::size_t bytes);
    void deliver(unsigned side, std::size_t bytes);
    void strike_due(unsigned side);
    void strike(unsigned side, const Fault&);
    void sever() noexcept;
    void fail_later(unsigned side, Time when);
    void end_later(unsigned side);
    void notify(unsigned side);
    [[nodiscard]] Time now() const noexcept { return settings_->world.now(); }
    [[nodiscard]] Time after_last(const SimulatedPipe&) noexcept;
    [[nodiscard]] Duration trip() noexcept;
    [[nodiscard]] std::size_t piece(std::size_t most) noexcept;

    std::shared_ptr<LinkSettings> settings_;
    const std::uint64_t number_;
    std::array<SimulatedPipe, 2> pipes_;
    std::array<SimulatedEnd*, 2> ends_{};
    std::array<bool, 2> gone_{};    ///< nobody is or ever will be at this side
    std::array<bool, 2> failed_{};  ///< this side knows that the connection is gone
    bool severed_ = false;          ///< nothing on its way arrives any more
};

}  // namespace mqblk::fabric
