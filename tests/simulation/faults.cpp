// SPDX-License-Identifier: Apache-2.0
//
// Each fault undoes itself after a time, so that stopping means only to begin no other. One outage of the target at
// once.
#include "simulation/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::simulation {

namespace {
long long ms(Duration duration) {
    return duration / std::chrono::milliseconds(1);
}
}  // namespace

Faults::Faults(World& world, Model& model, FaultOptions options) : world_(world), model_(model), options_(options) {
    if (options.cut) kinds_.emplace_back([this] { strike_connection(Kind::cut); });
    if (options.close) kinds_.emplace_back([this] { strike_connection(Kind::close); });
    if (options.stall) kinds_.emplace_back([this] { strike_connection(Kind::stall); });
    if (options.drop) kinds_.emplace_back([this] { strike_connection(Kind::drop); });
    if (options.refuse) kinds_.emplace_back([this] { refuse(); });
    if (options.down) kinds_.emplace_back([this] { take_down(); });
    if (options.restart) kinds_.emplace_back([this] { restart(false); });
    if (options.power_cut) kinds_.emplace_back([this] { restart(true); });
    if (options.conditions) kinds_.emplace_back([this] { change_conditions(); });
    if (options.disk_hang) kinds_.emplace_back([this] { hang_disk(); });
}

Faults::~Faults() {
    *alive_ = false;
}

void Faults::stop() {
    stopped_ = true;
    world_.network.set_random_faults({});
}

Duration Faults::up_to(Duration most) {
    return Duration(static_cast<Duration::rep>(world_.random.below(static_cast<std::uint64_t>(most.count()) + 1)));
}

void Faults::later(Duration delay, std::function<void()> what) {
    world_.sim.at(world_.sim.now() + delay, [alive = alive_, what = std::move(what)] {
        if (*alive) what();
    });
}

void Faults::schedule() {
    if (kinds_.empty()) return;
    later(up_to(options_.longest_interval), [this] {
        if (stopped_) return;
        kinds_[world_.random.below(kinds_.size())]();
        schedule();
    });
}

void Faults::strike_connection(Kind kind) {
    const std::uint64_t made = world_.network.connections_made();
    if (made == 0) return;
    fabric::Fault fault;
    // One of the last few: those before have ended, most likely. Or the next to come, from its first bytes on.
    const bool coming = world_.random.below(4) == 0;
    if (coming && std::exchange(struck_to_come_, made) == made) return;  // once is enough
    fault.connection = coming ? made : made - 1 - world_.random.below(std::min<std::uint64_t>(made, 4));
    fault.way = world_.random.below(2) == 0 ? fabric::Way::to_listener : fabric::Way::to_connector;
    const std::uint64_t within = world_.random.below(2) == 0 ? 512 : 128u << 10;
    fault.after_bytes = world_.network.bytes_sent(fault.connection, fault.way) + world_.random.below(within);
    fault.kind = kind;
    if (kind == Kind::stall) fault.duration = up_to(options_.longest_stall);
    world_.network.plan(fault);
}

/// Not again before a connection shows that the last refusals were used up.
void Faults::refuse() {
    if (world_.network.connections_made() <= made_before_refusal_) return;
    made_before_refusal_ = world_.network.connections_made();
    const auto count = static_cast<unsigned>(1 + world_.random.below(3));
    world_.tell(fmt::format("the next {} connections are refused", count));
    world_.network.refuse_next(count);
}

bool Faults::may_begin_outage() const {
    return outages_ == 0 && world_.listening() && world_.sim.now() >= next_outage_;
}

void Faults::end_outage() {
    --outages_;
    next_outage_ = world_.sim.now() + up_to(options_.longest_outage);
}

void Faults::take_down() {
    if (!may_begin_outage()) return;
    ++outages_;
    const Duration outage = up_to(options_.longest_outage);
    world_.tell(fmt::format("the target's host is down for {} ms", ms(outage)));
    world_.network.host_down(world_.address);
    later(outage, [this] {
        world_.network.host_up(world_.address);
        end_outage();
    });
}

void Faults::restart(bool power_cut) {
    if (!may_begin_outage()) return;
    ++outages_;
    const Duration outage = up_to(options_.longest_outage);
    world_.tell(
        fmt::format("the target {} and is back after {} ms", power_cut ? "loses power" : "is shut down", ms(outage)));
    if (power_cut) {
        world_.network.host_down(world_.address);
        world_.disk().power_cut();
        model_.power_cut();
    }
    world_.stop_listening([this, outage, alive = alive_] {
        if (!*alive) return;
        later(outage, [this] {
            world_.start_listening();
            world_.network.host_up(world_.address);
            end_outage();
        });
    });
}

void Faults::change_conditions() {
    fabric::NetworkConditions conditions;
    conditions.latency = up_to(std::chrono::microseconds(500));
    conditions.jitter = up_to(std::chrono::milliseconds(2));
    conditions.bytes_per_second = world_.random.below(3) == 0 ? 0 : 4'000'000 + world_.random.below(100'000'000);
    conditions.window_bytes = std::size_t{1024} << world_.random.below(10);
    conditions.random_pieces = world_.random.below(3) != 0;
    world_.tell(fmt::format("the network: latency {} us and up to {} us more, {} bytes/s, window {}",
                            conditions.latency.count() / 1000, conditions.jitter.count() / 1000,
                            conditions.bytes_per_second, conditions.window_bytes));
    world_.network.set_conditions(conditions);
}

void Faults::hang_disk() {
    if (!may_begin_outage()) return;
    ++outages_;
    const Duration outage = up_to(options_.longest_hang);
    world_.tell(fmt::format("the disk hangs for {} ms", ms(outage)));
    world_.disk().hang(true);
    later(outage, [this] {
        world_.disk().hang(false);
        end_outage();
    });
}

}  // namespace mqblk::simulation
