// SPDX-License-Identifier: Apache-2.0
//
// The scheduler of the simulated world. Invariant: virtual time moves only while no reactor that may run is awake, or
// by single ticks where one of them would otherwise hold it up for ever.
#include "reactor/simulated.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mqblk {

namespace {
// Time must go on where a poller refuses to sleep and yet does nothing: by steps that double while nothing happens.
constexpr Duration first_tick = std::chrono::microseconds(1);
constexpr Duration longest_tick = std::chrono::milliseconds(1);
// And where reactors keep each other busy for ever at one moment.
constexpr std::uint64_t most_turns_at_one_time = 100'000;
}  // namespace

class SimulatedReactor final : public Reactor {
  public:
    SimulatedReactor(SimulatedWorld& world, std::uint64_t seed)
        : Reactor(world.clock(), own_), world_(world), own_(seed) {
        world_.reactors_.push_back(this);
    }
    ~SimulatedReactor() override { std::erase(world_.reactors_, this); }

    void post(std::function<void()> task) override {
        posted_.push_back(std::move(task));
        state_ = State::awake;
    }
    void wake() noexcept override {
        woken_ = true;
        state_ = State::awake;
    }
    unsigned run_once(Sleep, Time deadline) override;
    void set_spin(Duration spin) noexcept override { never_sleeps_ = spin == Duration::max(); }
    std::unique_ptr<Watch> watch(int, std::function<void()>) override { return nullptr; }
    std::shared_ptr<Reactor> shareable() override { return {std::shared_ptr<void>(), this}; }

    /// May the world run it? Not in the middle of a pass, unless that pass waits in run_once.
    [[nodiscard]] bool free() const noexcept { return !in_pass_ || waiting_; }
    [[nodiscard]] bool awake() const noexcept { return state_ == State::awake; }
    [[nodiscard]] bool asleep() const noexcept { return state_ == State::asleep; }
    [[nodiscard]] bool refusing() const noexcept { return state_ == State::refusing; }

    void rouse() noexcept { state_ = State::awake; }

    /// One pass; then, if nothing was done, to sleep.
    unsigned turn() {
        const unsigned events = pass();
        if (events == 0 && !std::exchange(woken_, false)) go_to_sleep();
        return events;
    }

  private:
    enum class State : std::uint8_t { awake, asleep, refusing };

    unsigned pass();
    void go_to_sleep() noexcept;
    bool wait(std::uint64_t this_pass, Time deadline);

    SimulatedWorld& world_;
    SeededRandom own_;
    State state_ = State::awake;
    bool woken_ = false;
    bool never_sleeps_ = false;
    bool in_pass_ = false;
    bool waiting_ = false;
    std::uint64_t passes_ = 0;
    std::vector<std::function<void()>> posted_;
};

unsigned SimulatedReactor::pass() {
    ++passes_;
    const bool was_in_pass = std::exchange(in_pass_, true);
    const bool was_waiting = std::exchange(waiting_, false);
    unsigned events = run_timers();
    std::vector<std::function<void()>> tasks;
    tasks.swap(posted_);
    for (auto& task : tasks) task();
    events += static_cast<unsigned>(tasks.size());
    events += run_pollers();
    in_pass_ = was_in_pass;
    waiting_ = was_waiting;
    return events;
}

void SimulatedReactor::go_to_sleep() noexcept {
    state_ = State::asleep;
    const bool agreed = !never_sleeps_ && pollers_prepare_sleep();
    if (!posted_.empty()) state_ = State::awake;
    if (!agreed && state_ == State::asleep) state_ = State::refusing;
}

unsigned SimulatedReactor::run_once(Sleep sleep, Time deadline) {
    for (;;) {
        const std::uint64_t this_pass = passes_ + 1;
        const unsigned events = pass();
        // A callback, or somebody whose wait began later than ours, may have run us again: let the caller look.
        const bool done = events > 0 || std::exchange(woken_, false) || passes_ != this_pass;
        if (done || sleep == Sleep::no || now() >= deadline || !wait(this_pass, deadline)) {
            rouse();
            return events;
        }
    }
}

/// Lets the world go on until there is something to do. False: another wait took it.
bool SimulatedReactor::wait(std::uint64_t this_pass, Time deadline) {
    go_to_sleep();
    const bool was_waiting = std::exchange(waiting_, true);
    while (!awake() && passes_ == this_pass && now() < deadline) {
        if (world_.step(deadline) || deadline != never) continue;
        throw std::runtime_error(
            fmt::format("seed {}: a reactor sleeps and nothing is left that could wake it", world_.seed()));
    }
    waiting_ = was_waiting;
    return passes_ == this_pass;
}

SimulatedWorld::SimulatedWorld(std::uint64_t seed) : seed_(seed), random_(seed) {}
SimulatedWorld::~SimulatedWorld() = default;

std::unique_ptr<Reactor> SimulatedWorld::make_reactor() {
    return std::make_unique<SimulatedReactor>(*this, random_.next());
}

SimulatedWorld::EventId SimulatedWorld::at(Time time, std::function<void()> event) {
    const EventId id{std::max(time, now()), next_event_++};
    events_.emplace(id, std::move(event));
    return id;
}

void SimulatedWorld::cancel(const EventId& id) noexcept {
    events_.erase(id);
}

bool SimulatedWorld::step(Time limit) {
    runnable_.clear();
    for (SimulatedReactor* reactor : reactors_) {
        if (reactor->free() && reactor->awake()) runnable_.push_back(reactor);
    }
    if (runnable_.empty()) {
        turns_at_this_time_ = 0;
        return advance(limit);
    }
    ++turns_at_this_time_;
    if (turns_at_this_time_ > most_turns_at_one_time && turns_at_this_time_ % 2 == 0) return advance(limit);
    if (runnable_[random_.below(runnable_.size())]->turn() > 0) tick_ = Duration::zero();
    return true;
}

bool SimulatedWorld::advance(Time limit) {
    Time next = events_.empty() ? never : events_.begin()->first.first;
    bool refusing = false;
    for (const SimulatedReactor* reactor : reactors_) {
        if (!reactor->free()) continue;
        next = std::min(next, reactor->next_deadline());
        refusing = refusing || !reactor->asleep();
    }
    if (refusing) {
        tick_ = std::clamp(2 * tick_, first_tick, longest_tick);
        next = std::min(next, now() + tick_);
    }

    if (next == never && limit == never) return false;
    const bool reached = next > limit;
    clock_.time = std::max(clock_.time, std::min(next, limit));
    if (reached || next == never) return false;
    run_events();
    for (SimulatedReactor* reactor : reactors_) {
        if (reactor->free() && (reactor->refusing() || reactor->next_deadline() <= now())) reactor->rouse();
    }
    return true;
}

void SimulatedWorld::run_events() {
    while (!events_.empty() && events_.begin()->first.first <= now()) {
        const auto event = std::move(events_.extract(events_.begin()).mapped());
        event();
    }
}

bool SimulatedWorld::run_until(const std::function<bool()>& done, Duration bound) {
    const Time limit = bound < never - now() ? now() + bound : never;
    while (!done()) {
        if (!step(limit)) return done();
    }
    return true;
}

void SimulatedWorld::run_for(Duration duration) {
    const Time limit = now() + duration;
    run_until([] { return false; }, duration);
    clock_.time = std::max(clock_.time, limit);
}

}  // namespace mqblk
