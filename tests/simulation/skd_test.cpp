// SPDX-License-Identifier: Apache-2.0
//
// The S1120's driver against its model, by the hundred seeds, in families of faults. What holds in all of them: every
// request ends once and within its bound, data is what it should be (a failed write leaves either), nobody touches
// memory that is not his any more, the driver gets a card back that comes back, and another driver finds all data.
#include "simulation/seeds.h"
#include "simulation/skd_faults.h"
#include "simulation/workload.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

namespace mqblk::simulation {
namespace {

using namespace std::chrono_literals;

/// Whatever happens, an operation has ended by then: the driver waits at most 20 minutes for a busy card and 4 for one
/// that restarts, a bounded number of times.
constexpr Duration longest_skd_operation = 3h;

struct SkdPlan {
    SkdFaultOptions faults;
    WorkloadOptions workload;
    unsigned disk_errors_per_mille = 0;
    bool recovers = true;  ///< this driver serves its card again when the faults are over
    bool leaves = false;   ///< channels are closed while operations are under way
};

class SkdSession {
  public:
    SkdSession(std::uint64_t seed, SkdPlan plan) : plan_(std::move(plan)) {
        SeededRandom random(seed * 2 + 1);
        SkdOptions options = draw_skd_options(random);
        options.disk.errors_per_mille = plan_.disk_errors_per_mille;
        // Discards and zeroes are no commands of this card.
        plan_.workload.zero_weight = plan_.workload.discard_weight = 0;
        plan_.workload.depth = 1 + static_cast<unsigned>(random.below(12));
        plan_.workload.longest_pause = 100us * (1u << 2 * random.below(4));
        // Where a request takes few descriptors, operations can only be cut between whole blocks.
        if (options.driver.sgs_per_request < 16) plan_.workload.piece_unit = options.disk.block_bytes;
        plan_.workload.bound = longest_skd_operation;
        world_ = std::make_unique<SkdWorld>(seed, options);
        model_ = std::make_unique<Model>(options.disk.bytes / options.disk.block_bytes, options.disk.block_bytes);
    }

    std::uint64_t run() {
        if (!world_->open()) {
            ADD_FAILURE() << "before any fault: " << world_->error;
            return 0;
        }
        work();
        world_->disk().set_errors(0);
        if (plan_.leaves) {
            workloads_.clear();
            static_cast<void>(world_->run_until([&] { return faults_->healed(); }, 60s));
        }
        if (plan_.recovers) expect_recovery();
        workloads_.clear();
        world_->close();
        expect_fresh_driver_served();
        return world_->trace();
    }

  private:
    [[nodiscard]] bool all_finished() const {
        return std::ranges::all_of(workloads_, [](const auto& workload) { return workload->finished(); });
    }

    void work() {
        for (unsigned channel = 0; channel < 2; ++channel) {
            workloads_.push_back(std::make_unique<Workload>(*world_, fmt::format("channel {}", channel),
                                                            world_->device(), world_->reactor(), *model_,
                                                            plan_.workload));
        }
        faults_ = std::make_unique<SkdFaults>(*world_, plan_.faults);
        SkdFaults& faults = *faults_;
        for (const auto& workload : workloads_) workload->start();
        faults.start();
        const Duration bound = plan_.leaves ? 1ms * (1 + world_->random.below(1500)) : 5min;
        static_cast<void>(world_->run_until([&] { return all_finished(); }, bound));
        faults.stop();
        for (const auto& workload : workloads_) workload->stop();
        if (plan_.leaves) return;
        EXPECT_TRUE(world_->run_until([&] { return faults.healed(); }, 60s)) << world_->story();
        const bool finished = world_->run_until([&] { return all_finished(); }, longest_skd_operation);
        for (const auto& workload : workloads_) EXPECT_TRUE(finished) << workload->pending() << world_->story();
        if (faults.lost_card()) plan_.recovers = false;
    }

    /// The card is whole again, and in the end so is the driver.
    void expect_recovery() {
        std::byte block[512];
        const Segment segment{block, sizeof block};
        std::optional<Status> status;
        const Time limit = world_->sim.now() + 1h;
        while (status != Status::ok && world_->sim.now() < limit) {
            Bio bio;
            bio.sectors = 1;
            bio.data = {&segment, 1};
            status = submit_and_wait(*world_, *world_->device(), world_->reactor(), bio, longest_skd_operation);
            world_->sim.run_for(1s);
        }
        EXPECT_EQ(status, Status::ok) << world_->story();
    }

    void expect_fresh_driver_served() {
        if (!world_->open()) {
            ADD_FAILURE() << "afterwards: " << world_->error << "\n" << world_->story();
            return;
        }
        EXPECT_TRUE(verify(*world_, *world_->device(), world_->reactor(), *model_)) << world_->story();
    }

    SkdPlan plan_;
    std::unique_ptr<SkdWorld> world_;
    std::unique_ptr<Model> model_;
    std::vector<std::unique_ptr<Workload>> workloads_;
    std::unique_ptr<SkdFaults> faults_;
};

std::uint64_t run_skd(std::uint64_t seed, const SkdPlan& plan) {
    return SkdSession(seed, plan).run();
}

SkdPlan plan_with(SkdFaultOptions faults, std::set<Status> allowed) {
    SkdPlan plan;
    plan.faults = faults;
    plan.workload.allowed = std::move(allowed);
    return plan;
}

// What a command of which the card says so may end with.
const std::set<Status> when_it_says_so{Status::medium_error, Status::io_error, Status::read_only,
                                       Status::aborted,      Status::invalid,  Status::timed_out};
// One that was lost in several resets, or came while the card takes none.
const std::set<Status> when_reset{Status::timed_out, Status::io_error};

TEST(SkdSession, WithoutFaultsEverythingSucceeds) {
    for_each_seed(40, [](std::uint64_t seed) { run_skd(seed, {}); });
}

TEST(SkdSession, ReportsWhatTheCardReports) {
    for_each_seed(40, [](std::uint64_t seed) { run_skd(seed, plan_with({.errors = true}, when_it_says_so)); });
}

TEST(SkdSession, SurvivesCompletionsThatAreLostLateTwiceOrWrong) {
    for_each_seed(40, [](std::uint64_t seed) { run_skd(seed, plan_with({.completions = true}, when_reset)); });
}

TEST(SkdSession, WaitsForABusyCard) {
    for_each_seed(40, [](std::uint64_t seed) { run_skd(seed, plan_with({.busy = true}, when_reset)); });
}

TEST(SkdSession, SurvivesAFirmwareThatCrashes) {
    for_each_seed(40, [](std::uint64_t seed) { run_skd(seed, plan_with({.crashes = true}, when_reset)); });
}

TEST(SkdSession, SurvivesAMailboxThatDoesNotAnswer) {
    for_each_seed(40, [](std::uint64_t seed) {
        SkdPlan plan = plan_with({.completions = true, .answers = true}, when_reset);
        plan.recovers = false;  // as Linux's: a restart that takes more than four minutes was the last
        run_skd(seed, plan);
    });
}

TEST(SkdSession, ResetsUnderADiskThatHangs) {
    for_each_seed(
        40, [](std::uint64_t seed) { run_skd(seed, plan_with({.completions = true, .disk_hang = true}, when_reset)); });
}

TEST(SkdSession, EndsWhatACardTakesWithIt) {
    for_each_seed(40, [](std::uint64_t seed) {
        SkdPlan plan = plan_with({.completions = true, .gone = true}, when_reset);
        plan.workload.allowed.insert(Status::removed);
        run_skd(seed, plan);
    });
}

// Its own requests under way at the end of a channel are cancelled; the card is reset if it does not give them back.
TEST(SkdSession, LeavesInTheMiddle) {
    for_each_seed(60, [](std::uint64_t seed) {
        SkdPlan plan =
            plan_with({.completions = seed % 2 == 0, .busy = seed % 3 == 0, .disk_hang = seed % 4 == 0}, when_reset);
        plan.workload.allowed.insert(Status::aborted);
        plan.workload.operations = 1000;
        plan.leaves = true;
        run_skd(seed, plan);
    });
}

// A card that does not come up as it should: it is online in the end, or one sentence says why not, within 90 s and the
// time of a stop; and the next one that is whole serves.
TEST(SkdSession, StartsOrSaysWhyNot) {
    for_each_seed(200, [](std::uint64_t seed) {
        SeededRandom random(seed * 2 + 1);
        const SkdOptions options = draw_skd_options(random);
        SkdWorld world(seed, options);
        const Time begun = world.sim.now();
        const bool opened = world.open(draw_start_faults(random));
        const Duration took = world.sim.now() - begun;
        world.tell(opened ? "online" : world.error);
        EXPECT_LE(took, 120s) << world.error;
        EXPECT_EQ(opened, world.error.empty());
        world.close();
        EXPECT_LE(world.sim.now() - begun - took, 30s) << "to stop it";
        world.sim.run_for(1s);
        EXPECT_TRUE(world.open()) << world.error;
    });
}

TEST(SkdSession, ReportsItsDisksErrors) {
    for_each_seed(40, [](std::uint64_t seed) {
        SkdPlan plan = plan_with({.completions = true}, when_it_says_so);
        plan.disk_errors_per_mille = 30;
        run_skd(seed, plan);
    });
}

TEST(SkdSession, SurvivesEverythingAtOnce) {
    for_each_seed(60, [](std::uint64_t seed) {
        SkdPlan plan = plan_with({.errors = true,
                                  .completions = true,
                                  .busy = true,
                                  .crashes = true,
                                  .answers = true,
                                  .gone = seed % 4 == 0,
                                  .disk_hang = true},
                                 when_it_says_so);
        plan.workload.allowed.insert(Status::removed);
        plan.disk_errors_per_mille = 5;
        plan.recovers = false;
        run_skd(seed, plan);
    });
}

TEST(SkdSession, IsTheSameForTheSameSeed) {
    for_each_seed(10, [](std::uint64_t seed) {
        const SkdPlan plan =
            plan_with({.errors = true, .completions = true, .busy = true, .disk_hang = true}, when_it_says_so);
        EXPECT_EQ(run_skd(seed, plan), run_skd(seed, plan));
    });
}

}  // namespace
}  // namespace mqblk::simulation
