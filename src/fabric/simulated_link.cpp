// SPDX-License-Identifier: Apache-2.0
//
// How bytes travel over one simulated connection. Invariants: on each way they arrive in the order of sending, each at
// most once; after a fault that ends a way, exactly the bytes before it arrive; who cannot know of a fault is not told.
#include "fabric/simulated_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

namespace mqblk::fabric {

namespace {
std::size_t total_bytes(Segments segments) noexcept {
    return std::accumulate(segments.begin(), segments.end(), std::size_t{0},
                           [](std::size_t sum, const Segment& segment) { return sum + segment.bytes; });
}

std::string_view name_of(Fault::Kind kind) noexcept {
    switch (kind) {
        case Fault::Kind::cut:
            return "cut";
        case Fault::Kind::close:
            return "closed";
        case Fault::Kind::stall:
            return "stalled";
        case Fault::Kind::drop:
            return "drops what follows";
    }
    return "?";
}
}  // namespace

SimulatedEnd::SimulatedEnd(std::shared_ptr<SimulatedLink> link, unsigned side, Reactor& reactor, Address local,
                           Address peer)
    : link_(std::move(link)),
      side_(side),
      reactor_(reactor),
      local_(std::move(local)),
      peer_(std::move(peer)),
      self_(std::make_shared<SimulatedEnd*>(this)) {
    ++link_->settings().open_ends;
    link_->attach(side_, *this);
}

SimulatedEnd::~SimulatedEnd() {
    *self_ = nullptr;
    --link_->settings().open_ends;
    link_->detach(side_);
}

IoResult SimulatedEnd::receive(Segments segments) noexcept {
    return link_->receive(side_, segments);
}
IoResult SimulatedEnd::send(Segments segments, bool) noexcept {
    return link_->send(side_, segments);
}
void SimulatedEnd::shutdown() noexcept {
    link_->finish(side_);
}

void SimulatedEnd::arm(bool for_write) {
    (for_write ? armed_write_ : armed_read_) = true;
    changed();
}

void SimulatedEnd::changed() {
    if (telling_) return;
    if (!(armed_read_ && link_->readable(side_)) && !(armed_write_ && link_->writable(side_))) return;
    telling_ = true;
    reactor_.post([self = self_] {
        if (*self != nullptr) (*self)->tell();
    });
}

void SimulatedEnd::tell() {
    telling_ = false;
    if (link_->readable(side_)) armed_read_ = false;
    if (link_->writable(side_)) armed_write_ = false;
    const auto ready = ready_;  // a copy: the callback may destroy this end
    if (ready) ready();
}

void SimulatedPipe::consume(std::size_t count) noexcept {
    head += count;
    arrived -= count;
    if (head == bytes.size()) {
        bytes.clear();
        head = 0;
    } else if (head > 65536 && head > bytes.size() / 2) {
        bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(head));
        head = 0;
    }
}

Duration SimulatedLink::trip() noexcept {
    const auto& conditions = settings_->conditions;
    const auto jitter = static_cast<std::uint64_t>(conditions.jitter.count());
    return conditions.latency + Duration(static_cast<Duration::rep>(settings_->world.random().below(jitter + 1)));
}

std::size_t SimulatedLink::piece(std::size_t most) noexcept {
    if (!settings_->conditions.random_pieces || most <= 1) return most;
    Random& random = settings_->world.random();
    switch (random.below(8)) {
        case 0:
            return 1 + random.below(std::min<std::size_t>(most, 8));
        case 1:
        case 2:
            return 1 + random.below(most);
        default:
            return most;
    }
}

std::size_t SimulatedLink::room(unsigned side) const noexcept {
    const SimulatedPipe& pipe = pipes_[side];
    const std::size_t used = pipe.unread() + pipe.lost;
    return settings_->conditions.window_bytes - std::min(used, settings_->conditions.window_bytes);
}

bool SimulatedLink::readable(unsigned side) const noexcept {
    const SimulatedPipe& pipe = pipes_[1 - side];
    return pipe.arrived > 0 || pipe.end_arrived || failed_[side];
}

bool SimulatedLink::writable(unsigned side) const noexcept {
    return failed_[side] || pipes_[side].ended || room(side) > 0;
}

IoResult SimulatedLink::receive(unsigned side, Segments segments) {
    SimulatedPipe& pipe = pipes_[1 - side];
    const std::size_t wanted = std::min(total_bytes(segments), pipe.arrived);
    if (pipe.arrived == 0) {
        if (failed_[side]) return {0, IoResult::failed, ECONNRESET};
        return {0, pipe.end_arrived ? IoResult::closed : IoResult::would_block, 0};
    }
    if (wanted == 0) return {};
    const std::size_t count = piece(wanted);
    const bool was_full = room(1 - side) == 0;
    std::size_t done = 0;
    for (const Segment& segment : segments) {
        const std::size_t bytes = std::min(segment.bytes, count - done);
        if (bytes > 0) std::memcpy(segment.data, pipe.bytes.data() + pipe.head + done, bytes);
        done += bytes;
    }
    pipe.consume(count);
    if (was_full) settings_->world.at(now() + trip(), [self = shared_from_this(), side] { self->notify(1 - side); });
    return {count, IoResult::progress, 0};
}

IoResult SimulatedLink::send(unsigned side, Segments segments) {
    SimulatedPipe& pipe = pipes_[side];
    if (failed_[side]) return {0, IoResult::failed, ECONNRESET};
    if (pipe.ended) return {0, IoResult::failed, EPIPE};
    const std::size_t possible = std::min(total_bytes(segments), room(side));
    if (possible == 0) return {};
    const std::size_t count = piece(possible);
    std::size_t left = count;
    for (const Segment& segment : segments) {
        const std::size_t bytes = std::min(segment.bytes, left);
        pipe.bytes.insert(pipe.bytes.end(), segment.data, segment.data + bytes);
        left -= bytes;
    }
    transmit(side, count);
    return {count, IoResult::progress, 0};
}

/// Sends what was just put at the end of the pipe, cut where a fault is to strike.
void SimulatedLink::transmit(unsigned side, std::size_t bytes) {
    SimulatedPipe& pipe = pipes_[side];
    while (bytes > 0 && !pipe.dropping) {
        std::size_t part = bytes;
        for (const Fault& fault : pipe.faults) {
            part = static_cast<std::size_t>(std::min<std::uint64_t>(part, fault.after_bytes - pipe.sent));
        }
        pipe.sent += part;
        bytes -= part;
        deliver_later(side, part);
        strike_due(side);
    }
    pipe.bytes.resize(pipe.bytes.size() - bytes);
    pipe.sent += bytes;
    pipe.lost += bytes;
}

void SimulatedLink::deliver_later(unsigned side, std::size_t bytes) {
    SimulatedPipe& pipe = pipes_[side];
    if (const std::uint64_t rate = settings_->conditions.bytes_per_second; rate > 0) {
        const auto ns = static_cast<Duration::rep>(bytes * 1'000'000'000 / rate);
        pipe.line_free = std::max(pipe.line_free, now()) + Duration(ns);
    }
    pipe.last_arrival = std::max(std::max(pipe.line_free, now()) + trip(), pipe.last_arrival);
    settings_->world.at(pipe.last_arrival, [self = shared_from_this(), side, bytes] { self->deliver(side, bytes); });
}

void SimulatedLink::deliver(unsigned side, std::size_t bytes) {
    if (severed_) return;
    SimulatedPipe& pipe = pipes_[side];
    pipe.arrived += bytes;
    const unsigned receiver = 1 - side;
    if (gone_[receiver] || failed_[receiver]) {  // answered by a reset
        pipe.consume(pipe.arrived);
        if (!pipes_[receiver].dropping) fail_later(side, now() + trip());
        return;
    }
    notify(receiver);
}

Time SimulatedLink::after_last(const SimulatedPipe& pipe) noexcept {
    return std::max(pipe.last_arrival, now() + trip());
}

void SimulatedLink::end_later(unsigned side) {
    settings_->world.at(after_last(pipes_[side]), [self = shared_from_this(), side] {
        if (self->severed_) return;
        self->pipes_[side].end_arrived = true;
        self->notify(1 - side);
    });
}

void SimulatedLink::fail_later(unsigned side, Time when) {
    settings_->world.at(when, [self = shared_from_this(), side] {
        if (std::exchange(self->failed_[side], true)) return;
        self->notify(side);
    });
}

void SimulatedLink::notify(unsigned side) {
    if (ends_[side] != nullptr) ends_[side]->changed();
}

void SimulatedLink::finish(unsigned side) {
    SimulatedPipe& pipe = pipes_[side];
    if (std::exchange(pipe.ended, true) || pipe.dropping || failed_[side]) return;
    end_later(side);
}

void SimulatedLink::detach(unsigned side) {
    ends_[side] = nullptr;
    gone_[side] = true;
    finish(side);
    SimulatedPipe& incoming = pipes_[1 - side];
    if (incoming.arrived > 0 && !pipes_[side].dropping) fail_later(1 - side, after_last(pipes_[side]));
    incoming.consume(incoming.arrived);
}

void SimulatedLink::plan(const Fault& fault) {
    pipes_[static_cast<unsigned>(fault.way)].faults.push_back(fault);
    strike_due(static_cast<unsigned>(fault.way));
}

void SimulatedLink::strike_due(unsigned side) {
    SimulatedPipe& pipe = pipes_[side];
    std::vector<Fault> due;
    std::erase_if(pipe.faults, [&](const Fault& fault) {
        if (fault.after_bytes > pipe.sent) return false;
        due.push_back(fault);
        return true;
    });
    for (const Fault& fault : due) strike(side, fault);
}

void SimulatedLink::strike(unsigned side, const Fault& fault) {
    SimulatedPipe& pipe = pipes_[side];
    settings_->history +=
        fmt::format("{} us: connection {} {} after {} bytes to the {}\n", now().time_since_epoch().count() / 1000,
                    number_, name_of(fault.kind), pipe.sent, side == connector ? "listener" : "connector");
    const Time at = std::max(pipe.last_arrival, now());
    switch (fault.kind) {
        case Fault::Kind::stall:
            pipe.last_arrival = at + fault.duration;
            return;
        case Fault::Kind::drop:
            pipe.dropping = true;
            return;
        case Fault::Kind::close:
            if (!pipe.ended) end_later(side);
            break;
        case Fault::Kind::cut:
            settings_->world.at(at, [self = shared_from_this()] { self->sever(); });
            fail_later(1 - side, at);
            break;
    }
    pipe.dropping = true;
    fail_later(side, at + trip());
}

void SimulatedLink::sever() noexcept {
    severed_ = true;
    drop_both_ways();
}

void SimulatedLink::drop_both_ways() noexcept {
    for (SimulatedPipe& pipe : pipes_) pipe.dropping = true;
}

void SimulatedLink::reset() {
    sever();
    fail_later(connector, now() + trip());
    fail_later(listener, now() + trip());
}

}  // namespace mqblk::fabric
