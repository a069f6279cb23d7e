// SPDX-License-Identifier: Apache-2.0
//
// The SRP initiator against the SRP target, by the hundred seeds, in families of faults. What holds in all of them:
// every request ends once and within its bound, data is what it should be (a failed write leaves either), nobody
// touches memory that is not his any more, and when the faults are over everything is served again.
#include "simulation/seeds.h"
#include "simulation/srp_world.h"
#include "simulation/workload.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace mqblk::simulation {
namespace {

using namespace std::chrono_literals;

/// A few tries, each with a time-out and its abort, and the time that no connection is waited for.
constexpr Duration longest_srp_operation = 3min;

/// What the sessions of a family came to. A few seeds need not meet everything.
struct SrpTotals {
    unsigned sessions = 0;
    std::uint64_t aborts = 0, requeued = 0, fallbacks = 0, external = 0, pieces = 0;
    [[nodiscard]] bool tell_enough() const { return sessions >= 40; }
};

struct SrpPlan {
    bool link = false;               ///< lost, for a while
    bool hangs = false;              ///< the disk: answers are late
    unsigned refused_per_mille = 0;  ///< registrations
    bool leaves = false;             ///< channels are closed while operations are under way
    unsigned operations = 200;
    std::set<Status> allowed{};
    struct SrpTotals* totals = nullptr;
};

class SrpSession {
  public:
    SrpSession(std::uint64_t seed, SrpPlan plan) : plan_(std::move(plan)) {
        SeededRandom drawn(seed * 2 + 1);
        SrpOptions options = draw_srp_options(drawn);
        // Where nothing is lost nothing is to be late either, on the slowest of ways.
        if (plan_.allowed.empty()) options.driver.timeout = 30s;
        workload_.operations = plan_.operations;
        workload_.allowed = plan_.allowed;
        workload_.depth = 1 + static_cast<unsigned>(drawn.below(12));
        workload_.longest_pause = 100us * (1u << 2 * drawn.below(5));
        workload_.bound = longest_srp_operation;
        workload_.scattered = true;
        workload_.most_pieces = 1u << 2 * drawn.below(4);
        // Where lists stay within a command, operations can only be cut between whole blocks.
        // (As they are when a target whose disk hangs is taken for one that fetches no tables.)
        workload_.piece_unit = options.driver.allow_ext_sg && !plan_.hangs ? 4 : options.disk.block_bytes;
        world_ = std::make_unique<SrpWorld>(seed, options);
        model_ = std::make_unique<Model>(options.disk.bytes / options.disk.block_bytes, options.disk.block_bytes);
    }

    std::uint64_t run() {
        if (!world_->open()) {
            ADD_FAILURE() << "before any fault: " << world_->error;
            return 0;
        }
        for (unsigned channel = 0; channel < 2; ++channel) {
            workloads_.push_back(std::make_unique<Workload>(*world_, fmt::format("channel {}", channel),
                                                            world_->device(), world_->reactor(channel), *model_,
                                                            workload_));
        }
        world_->refused_per_mille = plan_.refused_per_mille;
        for (const auto& each : workloads_) each->start();
        if (plan_.link) strike(Part::link);
        if (plan_.hangs) strike(Part::disk);
        static_cast<void>(world_->run_until([&] { return finished(); },
                                            plan_.leaves ? 1ms * (1 + world_->random.below(3000)) : Duration(5min)));
        heal();
        if (!plan_.leaves) {
            const bool done = world_->run_until([&] { return finished(); }, longest_srp_operation);
            for (const auto& each : workloads_) EXPECT_TRUE(done) << each->pending() << world_->story();
        }
        workloads_.clear();
        expect_service();
        note_counters();
        return world_->trace();
    }

  private:
    [[nodiscard]] bool finished() const {
        return std::ranges::all_of(workloads_, [](const auto& each) { return each->finished(); });
    }
    [[nodiscard]] Duration up_to(Duration most) {
        return Duration(static_cast<Duration::rep>(1 + world_->random.below(static_cast<std::uint64_t>(most.count()))));
    }

    /// What can be broken, each in its own time.
    enum class Part : std::uint8_t { link, disk };
    void later(Duration delay, void (SrpSession::*event)(Part), Part part) {
        world_->sim.at(world_->sim.now() + delay, [this, event, part, alive = std::weak_ptr(alive_)] {
            if (!alive.expired() && !healed_) (this->*event)(part);
        });
    }
    void strike(Part part) {
        set(part, true);
        // Seldom for longer than requests wait for a connection, or for an answer.
        later(up_to(world_->random.below(4) == 0 ? 20s : 1s), &SrpSession::end_strike, part);
    }
    void end_strike(Part part) {
        set(part, false);
        later(up_to(world_->random.below(4) == 0 ? 5s : 50ms), &SrpSession::strike, part);
    }
    void set(Part part, bool broken) {
        world_->tell(fmt::format("the {} {}", part == Part::link ? "link" : "disk", broken ? "is lost" : "is back"));
        if (part == Part::disk) return world_->disk().hang(broken);
        if (broken) world_->courier().cut();
        world_->courier().set_down(broken);
    }
    void heal() {
        if (std::exchange(healed_, true)) return;
        world_->refused_per_mille = 0;
        set(Part::link, false);
        set(Part::disk, false);
        for (const auto& each : workloads_) each->stop();
    }
    /// A new connection may be some time away; then every block is what the model allows.
    void expect_service() {
        world_->sim.run_for(10s);
        EXPECT_TRUE(verify(*world_, *world_->device(), world_->reactor(0), *model_)) << world_->story();
    }
    void note_counters() {
        const auto counters = world_->initiator().counters();
        if (plan_.totals != nullptr) {
            ++plan_.totals->sessions;
            plan_.totals->aborts += counters.aborts;
            plan_.totals->requeued += counters.requeued;
            plan_.totals->fallbacks += counters.fallbacks;
            plan_.totals->external += counters.external;
            plan_.totals->pieces += counters.pieces;
        }
        world_->note(
            fmt::format("{} commands, {} external, {} pieces, {} aborts, {} reconnects, {} requeued, {} fallbacks",
                        counters.commands, counters.external, counters.pieces, counters.aborts, counters.reconnects,
                        counters.requeued, counters.fallbacks));
    }

    SrpPlan plan_;
    WorkloadOptions workload_;
    std::unique_ptr<SrpWorld> world_;
    std::unique_ptr<Model> model_;
    std::vector<std::unique_ptr<Workload>> workloads_;
    bool healed_ = false;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

std::uint64_t run_srp(std::uint64_t seed, const SrpPlan& plan) {
    return SrpSession(seed, plan).run();
}

// What a request may end with that was lost with several connections, had none for too long, or took too long.
const std::set<Status> when_connections_are_lost{Status::timed_out, Status::transport};

TEST(SrpSession, WithoutFaultsEverythingSucceeds) {
    SrpTotals totals;
    for_each_seed(40, [&](std::uint64_t seed) { run_srp(seed, {.totals = &totals}); });
    if (!totals.tell_enough()) return;
    EXPECT_GT(totals.external, 0u);
    EXPECT_GT(totals.pieces, 0u);
}

TEST(SrpSession, RegistrationsThatFailFailNoRequest) {
    SrpTotals totals;
    for_each_seed(40, [&](std::uint64_t seed) { run_srp(seed, {.refused_per_mille = 50, .totals = &totals}); });
    if (!totals.tell_enough()) return;
    EXPECT_GT(totals.fallbacks, 0u);
}

TEST(SrpSession, SurvivesLinksThatAreLost) {
    SrpTotals totals;
    for_each_seed(40, [&](std::uint64_t seed) {
        run_srp(seed, {.link = true, .allowed = when_connections_are_lost, .totals = &totals});
    });
    if (!totals.tell_enough()) return;
    EXPECT_GT(totals.requeued, 0u);
}

TEST(SrpSession, SurvivesAnswersThatAreLate) {
    SrpTotals totals;
    for_each_seed(40, [&](std::uint64_t seed) {
        run_srp(seed, {.hangs = true, .allowed = when_connections_are_lost, .totals = &totals});
    });
    if (!totals.tell_enough()) return;
    EXPECT_GT(totals.aborts, 0u);
}

TEST(SrpSession, SurvivesEverythingAtOnce) {
    for_each_seed(60, [](std::uint64_t seed) {
        run_srp(seed, {.link = true, .hangs = true, .refused_per_mille = 20, .allowed = when_connections_are_lost});
    });
}

TEST(SrpSession, LeavesInTheMiddle) {
    for_each_seed(40, [](std::uint64_t seed) {
        SrpPlan plan{.link = seed % 2 == 0,
                     .hangs = seed % 3 == 0,
                     .leaves = true,
                     .operations = 1000,
                     .allowed = when_connections_are_lost};
        plan.allowed.insert(Status::aborted);
        run_srp(seed, plan);
    });
}

TEST(SrpSession, IsTheSameForTheSameSeed) {
    for_each_seed(10, [](std::uint64_t seed) {
        const SrpPlan plan{.link = true, .hangs = true, .refused_per_mille = 20, .allowed = when_connections_are_lost};
        EXPECT_EQ(run_srp(seed, plan), run_srp(seed, plan));
    });
}

}  // namespace
}  // namespace mqblk::simulation
