// SPDX-License-Identifier: Apache-2.0
//
// Connecting and listening in the simulated network, and which connection is struck by which fault. What happens on a
// connection once it exists is in fabric/simulated_link.
#include "fabric/simulated.h"

#include "fabric/errors.h"
#include "fabric/simulated_link.h"

#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <set>
#include <utility>

namespace mqblk::fabric {

namespace {

using Accepted = std::function<void(Network::Token)>;
using Link = std::shared_ptr<SimulatedLink>;

/// One side of a link that nobody has taken yet. If nobody ever does, that side closes.
class Unclaimed {
  public:
    Unclaimed(Link link, unsigned side, Address local, Address peer)
        : link_(std::move(link)), side_(side), local_(std::move(local)), peer_(std::move(peer)) {}
    Unclaimed(const Unclaimed&) = delete;
    Unclaimed& operator=(const Unclaimed&) = delete;
    ~Unclaimed() {
        if (link_) link_->detach(side_);
    }
    std::unique_ptr<Connection> claim(Reactor& reactor) {
        if (!link_) return nullptr;
        return std::make_unique<SimulatedEnd>(std::exchange(link_, nullptr), side_, reactor, local_, peer_);
    }

  private:
    Link link_;
    const unsigned side_;
    const Address local_, peer_;
};

/// An attempt to connect; the task that waits for it may be gone before it has ended.
struct Attempt {
    Promise<int> ended;  ///< an errno value
    bool waiting = true;
    std::unique_ptr<Unclaimed> side;

    void end(int error_number) {
        if (std::exchange(waiting, false)) ended.set(error_number);
    }
};

}  // namespace

struct SimulatedNetwork::Impl {
    struct Listening {
        Reactor* reactor;
        std::shared_ptr<Accepted> accepted;
    };

    SimulatedWorld& world;
    std::shared_ptr<LinkSettings> settings;
    RandomFaults random_faults;
    std::vector<Fault> planned;        ///< for connections to come
    std::vector<Link> links;           ///< by number
    std::vector<std::string> reached;  ///< the address each was made to
    std::map<std::string, Listening> listeners;
    std::set<std::string> down;
    unsigned refusals = 0;
    std::uint16_t next_port = 49152;
    std::shared_ptr<Impl*> self = std::make_shared<Impl*>(this);  ///< becomes null with the network

    Impl(SimulatedWorld& w, const NetworkConditions& conditions)
        : world(w), settings(std::make_shared<LinkSettings>(LinkSettings{w, conditions, 0, {}})) {}
    ~Impl() { *self = nullptr; }

    Duration trip() {
        const auto jitter = static_cast<std::uint64_t>(settings->conditions.jitter.count());
        return settings->conditions.latency + Duration(static_cast<Duration::rep>(world.random().below(jitter + 1)));
    }

    void arrive(const std::shared_ptr<Attempt>&, Reactor& connecting, const Address& to);
    Link make_link(const Address& to);
    void draw_fault(std::uint64_t number);
};

/// The request to connect has reached the other host.
void SimulatedNetwork::Impl::arrive(const std::shared_ptr<Attempt>& attempt, Reactor& connecting, const Address& to) {
    const std::string name = to.to_string();
    if (!attempt->waiting || down.contains(name)) return;
    const auto found = listeners.find(name);
    int error = ECONNREFUSED;
    if (refusals > 0) {
        --refusals;
    } else if (found != listeners.end()) {
        error = 0;
        const Link link = make_link(to);
        const Address from{"127.0.0.1", next_port++};
        attempt->side = std::make_unique<Unclaimed>(link, SimulatedLink::connector, from, to);
        const auto accepting = std::make_shared<Unclaimed>(link, SimulatedLink::listener, to, from);
        const std::weak_ptr<Accepted> weak = found->second.accepted;
        found->second.reactor->post([weak, accepting] {
            if (const auto accepted = weak.lock()) {
                (*accepted)([accepting](Reactor& reactor) { return accepting->claim(reactor); });
            }
        });
    }
    world.at(world.now() + trip(), [attempt, error, &connecting] {
        if (attempt->waiting) connecting.post([attempt, error] { attempt->end(error); });
    });
}

Link SimulatedNetwork::Impl::make_link(const Address& to) {
    const std::uint64_t number = links.size();
    links.push_back(std::make_shared<SimulatedLink>(settings, number));
    reached.push_back(to.to_string());
    draw_fault(number);
    std::erase_if(planned, [&](const Fault& fault) {
        if (fault.connection != number) return false;
        links.back()->plan(fault);
        return true;
    });
    return links.back();
}

void SimulatedNetwork::Impl::draw_fault(std::uint64_t number) {
    constexpr std::uint64_t million = 1'000'000;
    Random& random = world.random();
    if (random.below(million) >= static_cast<std::uint64_t>(random_faults.probability * million)) return;
    std::vector<Fault::Kind> kinds;
    if (random_faults.cut) kinds.push_back(Fault::Kind::cut);
    if (random_faults.close) kinds.push_back(Fault::Kind::close);
    if (random_faults.stall) kinds.push_back(Fault::Kind::stall);
    if (random_faults.drop) kinds.push_back(Fault::Kind::drop);
    if (kinds.empty()) return;
    Fault fault{.connection = number};
    fault.kind = kinds[random.below(kinds.size())];
    fault.way = random.below(2) == 0 ? Way::to_listener : Way::to_connector;
    fault.after_bytes = random.below(random_faults.within_bytes + 1);
    const auto longest = static_cast<std::uint64_t>(random_faults.longest_stall.count());
    fault.duration = Duration(static_cast<Duration::rep>(random.below(longest + 1)));
    links[number]->plan(fault);
}

namespace {
class SimulatedListener final : public Listener {
  public:
    SimulatedListener(std::shared_ptr<SimulatedNetwork::Impl*> network, Address address)
        : network_(std::move(network)), address_(std::move(address)) {}
    ~SimulatedListener() override {
        if (*network_ != nullptr) (*network_)->listeners.erase(address_.to_string());
    }
    Address address() const override { return address_; }

  private:
    std::shared_ptr<SimulatedNetwork::Impl*> network_;
    const Address address_;
};
}  // namespace

SimulatedNetwork::SimulatedNetwork(SimulatedWorld& world, NetworkConditions conditions)
    : impl_(std::make_unique<Impl>(world, conditions)) {}
SimulatedNetwork::~SimulatedNetwork() = default;

Task<Result<std::unique_ptr<Connection>>> SimulatedNetwork::connect(Reactor& reactor, Address address,
                                                                    Duration timeout) {
    const auto attempt = std::make_shared<Attempt>();
    struct Waiting {
        Attempt& attempt;
        ~Waiting() { attempt.waiting = false; }
    } const waiting{*attempt};
    impl_->world.at(impl_->world.now() + impl_->trip(), [self = impl_->self, attempt, address, &reactor] {
        if (*self != nullptr) (*self)->arrive(attempt, reactor, address);
    });
    Timer timer([attempt] { attempt->end(ETIMEDOUT); });
    const Time now = reactor.now();
    timer.arm(reactor, timeout < never - now ? now + timeout : never);
    const int error = co_await attempt->ended;
    if (error != 0) co_return std::unexpected(connect_error(error, address));
    co_return attempt->side->claim(reactor);
}

Result<std::unique_ptr<Listener>> SimulatedNetwork::listen(Reactor& reactor, const Address& address,
                                                           std::function<void(Token)> accepted) {
    Address taken = address;
    while (taken.port == 0 || (address.port == 0 && impl_->listeners.contains(taken.to_string()))) {
        taken.port = impl_->next_port++;
    }
    const auto [at, fresh] = impl_->listeners.try_emplace(taken.to_string());
    if (!fresh) return std::unexpected(listen_error(EADDRINUSE, taken));
    at->second = {&reactor, std::make_shared<Accepted>(std::move(accepted))};
    return std::make_unique<SimulatedListener>(impl_->self, taken);
}

void SimulatedNetwork::set_conditions(const NetworkConditions& conditions) {
    impl_->settings->conditions = conditions;
}
void SimulatedNetwork::set_random_faults(const RandomFaults& faults) {
    impl_->random_faults = faults;
}

void SimulatedNetwork::plan(const Fault& fault) {
    if (fault.connection < impl_->links.size()) {
        impl_->links[fault.connection]->plan(fault);
    } else {
        impl_->planned.push_back(fault);
    }
}

void SimulatedNetwork::refuse_next(unsigned count) {
    impl_->refusals += count;
}

void SimulatedNetwork::host_down(const Address& address) {
    const std::string name = address.to_string();
    if (!impl_->down.insert(name).second) return;
    impl_->settings->history += fmt::format("{} down\n", name);
    for (std::size_t number = 0; number < impl_->links.size(); ++number) {
        if (impl_->reached[number] == name) impl_->links[number]->drop_both_ways();
    }
}

void SimulatedNetwork::host_up(const Address& address) {
    const std::string name = address.to_string();
    if (impl_->down.erase(name) == 0) return;
    impl_->settings->history += fmt::format("{} up\n", name);
    for (std::size_t number = 0; number < impl_->links.size(); ++number) {
        if (impl_->reached[number] == name) impl_->links[number]->reset();
    }
}

std::uint64_t SimulatedNetwork::connections_made() const noexcept {
    return impl_->links.size();
}
unsigned SimulatedNetwork::open_ends() const noexcept {
    return impl_->settings->open_ends;
}

std::uint64_t SimulatedNetwork::bytes_sent(std::uint64_t connection, Way way) const noexcept {
    return connection < impl_->links.size() ? impl_->links[connection]->bytes_sent(way) : 0;
}

std::string SimulatedNetwork::history() const {
    return impl_->settings->history;
}

}  // namespace mqblk::fabric
