// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID driver against the controller's model, by the hundred seeds, in families of faults. What holds in all of
// them: every request ends once and within its bound, also across controller resets; data is what it should be (a
// failed write leaves either); nobody touches memory that is not his any more; the driver never has more commands under
// way than the firmware takes, nor one twice; it gets a controller back that comes back, and another driver finds all
// data.
#include "simulation/megaraid_faults.h"
#include "simulation/seeds.h"
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

struct MegaraidPlan {
    MegaraidFaultOptions faults;
    WorkloadOptions workload;
    unsigned depth = 0;   ///< of a channel; zero: the seed's
    Duration bound{};     ///< of an operation; zero: the driver's
    unsigned rounds = 1;  ///< of work, each on the disks as they are then
    unsigned disk_errors_per_mille = 0;
    bool recovers = true;  ///< this driver serves its disks again when the faults are over
    bool leaves = false;   ///< channels are closed while operations are under way
};

class MegaraidSession {
  public:
    MegaraidSession(std::uint64_t seed, MegaraidPlan plan) : plan_(std::move(plan)) {
        SeededRandom random(seed * 2 + 1);
        MegaraidOptions options = draw_megaraid_options(random);
        options.disk.errors_per_mille = plan_.disk_errors_per_mille;
        plan_.workload.operations = 100;
        plan_.workload.depth = 1 + static_cast<unsigned>(random.below(16));
        if (plan_.depth != 0) plan_.workload.depth = plan_.depth;
        plan_.workload.longest_pause = 100us * (1u << 2 * random.below(4));
        if (plan_.depth != 0) {  // all of them at once: small, or they would wait for each other
            plan_.workload.longest_pause = 20us;
            plan_.workload.most_bytes = 8u << 10;
        }
        plan_.workload.bound = plan_.bound != Duration{} ? plan_.bound : longest_megaraid_operation(options);
        world_ = std::make_unique<MegaraidWorld>(seed, options);
    }

    std::uint64_t run() {
        if (!world_->open()) {
            ADD_FAILURE() << "before any fault: " << world_->error;
            return 0;
        }
        for (unsigned round = 0; round < plan_.rounds && !dead_; ++round) work();
        for (const MegaraidUnit& unit : world_->units()) unit.disk->set_errors(0);
        if (plan_.recovers && !dead_) {
            for (const MegaraidUnit& unit : world_->units()) expect_served(unit);
            expect_idle();
        }
        expect_honest();
        world_->close();
        expect_fresh_driver_served();
        return world_->trace();
    }

  private:
    [[nodiscard]] bool all_finished() const {
        return std::ranges::all_of(workloads_, [](const auto& workload) { return workload->finished(); });
    }

    /// Two channels for each disk and volume that is there, in reactors in turn, so that a queue has requests of
    /// several disks and a disk requests in several queues.
    void start_workloads() {
        std::size_t channel = 0;
        for (const MegaraidUnit& unit : world_->units()) {
            const auto device = world_->device(unit);
            if (device == nullptr) continue;
            for (unsigned i = 0; i < 2; ++i, ++channel)
                workloads_.push_back(std::make_unique<Workload>(*world_, fmt::format("{} channel {}", unit.name(), i),
                                                                device, world_->io(channel), *unit.model,
                                                                plan_.workload));
        }
        for (const auto& workload : workloads_) workload->start();
    }

    void work() {
        start_workloads();
        faults_ = std::make_unique<MegaraidFaults>(*world_, plan_.faults);
        faults_->start();
        const Duration bound = plan_.leaves ? 1ms * (1 + world_->random.below(1500)) : 5min;
        static_cast<void>(world_->run_until([&] { return all_finished(); }, bound));
        faults_->stop();
        dead_ = faults_->dead();
        for (const auto& workload : workloads_) workload->stop();
        if (!plan_.leaves) {
            EXPECT_TRUE(world_->run_until([&] { return faults_->healed(); }, 2min)) << world_->story();
            const bool finished = world_->run_until([&] { return all_finished(); }, plan_.workload.bound);
            for (const auto& workload : workloads_) EXPECT_TRUE(finished) << workload->pending() << world_->story();
        }
        workloads_.clear();
        EXPECT_TRUE(world_->run_until([&] { return faults_->healed(); }, 2min)) << world_->story();
    }

    /// The controller is whole again, and in the end so is the driver.
    void expect_served(const MegaraidUnit& unit) {
        std::byte block[512];
        const Segment segment{block, sizeof block};
        std::optional<Status> status;
        const Time limit = world_->sim.now() + 1h;
        while (status != Status::ok && world_->sim.now() < limit) {
            if (const auto device = world_->device(unit)) {
                Bio bio;
                bio.sectors = 1;
                bio.data = {&segment, 1};
                status = submit_and_wait(*world_, *device, world_->io(0), bio, plan_.workload.bound);
            }
            if (status != Status::ok) world_->sim.run_for(1s);
        }
        EXPECT_EQ(status, Status::ok) << unit.name() << "\n" << world_->story();
    }

    /// Nobody wants anything: the firmware has what waits for events and new maps, and of the driver's own commands
    /// those whose answers were lost, until a reset.
    void expect_idle() {
        constexpr unsigned pended = 3, all_of_its_own = 12;
        const MegaraidFaultOptions& faults = plan_.faults;
        const unsigned most = faults.completions || faults.aborts ? all_of_its_own : pended;
        const bool idle = world_->run_until([&] { return world_->card().in_flight() <= most; }, 20min);
        EXPECT_TRUE(idle) << world_->card().in_flight() << " commands stay with the firmware\n" << world_->story();
    }

    void expect_honest() { EXPECT_EQ(world_->card().counters().breaches, 0u) << world_->story(); }

    void expect_fresh_driver_served() {
        if (!world_->open()) {
            ADD_FAILURE() << "afterwards: " << world_->error << "\n" << world_->story();
            return;
        }
        for (const MegaraidUnit& unit : world_->units()) {
            const auto device = world_->device(unit);
            if (device == nullptr) {
                ADD_FAILURE() << "afterwards: no " << unit.name() << "\n" << world_->story();
                continue;
            }
            EXPECT_TRUE(verify(*world_, *device, world_->io(0), *unit.model)) << unit.name();
        }
        expect_honest();
    }

    MegaraidPlan plan_;
    std::unique_ptr<MegaraidWorld> world_;
    std::vector<std::unique_ptr<Workload>> workloads_;
    std::unique_ptr<MegaraidFaults> faults_;
    bool dead_ = false;
};

std::uint64_t run_megaraid(std::uint64_t seed, const MegaraidPlan& plan) {
    return MegaraidSession(seed, plan).run();
}

MegaraidPlan megaraid_plan(MegaraidFaultOptions faults, std::set<Status> allowed) {
    MegaraidPlan plan;
    plan.faults = faults;
    plan.workload.allowed = std::move(allowed);
    return plan;
}

// What a command of which the controller or disk says so may end with.
const std::set<Status> when_told_so{Status::medium_error, Status::io_error,      Status::read_only,
                                    Status::aborted,      Status::not_supported, Status::invalid,
                                    Status::protection,   Status::removed,       Status::timed_out};
// One whose time has passed, or that was lost in several resets.
const std::set<Status> when_lost{Status::timed_out};

TEST(MegaraidSession, WithoutFaultsEverythingSucceeds) {
    for_each_seed(30, [](std::uint64_t seed) { run_megaraid(seed, {}); });
}

TEST(MegaraidSession, ReportsWhatTheControllerReports) {
    for_each_seed(30, [](std::uint64_t seed) { run_megaraid(seed, megaraid_plan({.errors = true}, when_told_so)); });
}

TEST(MegaraidSession, SurvivesCompletionsThatAreLostLateOrTwice) {
    for_each_seed(40, [](std::uint64_t seed) { run_megaraid(seed, megaraid_plan({.completions = true}, when_lost)); });
}

TEST(MegaraidSession, WaitsForASlowDisk) {
    for_each_seed(30, [](std::uint64_t seed) { run_megaraid(seed, megaraid_plan({.slow = true}, when_lost)); });
}

TEST(MegaraidSession, ClimbsWhenAbortsAreAnsweredWrongly) {
    for_each_seed(40, [](std::uint64_t seed) {
        run_megaraid(seed, megaraid_plan({.completions = seed % 2 == 0, .aborts = true}, when_lost));
    });
}

TEST(MegaraidSession, SurvivesAFirmwareThatFaultsAndThenTakesLess) {
    for_each_seed(40, [](std::uint64_t seed) {
        run_megaraid(seed, megaraid_plan({.completions = seed % 2 == 0, .crashes = true}, when_lost));
    });
}

// Nothing is lost but in resets, and rarely in them: each request is sent again and succeeds, soon after the firmware
// is back.
TEST(MegaraidSession, SendsAgainWhatAResetTookWithIt) {
    for_each_seed(40, [](std::uint64_t seed) {
        MegaraidPlan plan = megaraid_plan({.crashes = true, .longest_peace = 30ms}, {});
        plan.bound = 2min;
        plan.depth = 32;  // more than the firmware takes afterwards
        run_megaraid(seed, plan);
    });
}

// Resets have a bound, and after it all that is asked of the controller ends at once.
TEST(MegaraidSession, GivesUpAFirmwareThatFaultsTimeAndAgain) {
    for_each_seed(40, [](std::uint64_t seed) {
        MegaraidPlan plan =
            megaraid_plan({.completions = seed % 2 == 0, .crashes = true, .relentless = true}, when_lost);
        plan.workload.allowed.insert(Status::io_error);
        plan.recovers = false;
        run_megaraid(seed, plan);
    });
}

TEST(MegaraidSession, SurvivesManagementThatTakesMinutesOrIsRefused) {
    for_each_seed(40, [](std::uint64_t seed) {
        MegaraidPlan plan =
            megaraid_plan({.crashes = seed % 2 == 0, .management = true, .changes = seed % 3 == 0}, when_lost);
        // A firmware that refuses what a reset needs, time and again, is given up.
        plan.recovers = false;
        plan.workload.allowed.insert({Status::io_error, Status::removed});
        run_megaraid(seed, plan);
    });
}

TEST(MegaraidSession, FollowsDisksThatComeAndGoUnderLoad) {
    for_each_seed(40, [](std::uint64_t seed) {
        MegaraidPlan plan = megaraid_plan({.completions = seed % 3 == 0, .changes = true}, when_lost);
        plan.workload.allowed.insert({Status::removed, Status::aborted});
        plan.rounds = 2;
        run_megaraid(seed, plan);
    });
}

TEST(MegaraidSession, ResetsUnderADiskThatHangs) {
    for_each_seed(40, [](std::uint64_t seed) {
        run_megaraid(seed,
                     megaraid_plan({.completions = true, .crashes = seed % 2 == 0, .disk_hang = true}, when_lost));
    });
}

TEST(MegaraidSession, EndsEverythingWhenTheFirmwareDies) {
    for_each_seed(40, [](std::uint64_t seed) {
        MegaraidPlan plan = megaraid_plan({.completions = true, .crashes = seed % 2 == 0, .dies = true}, when_lost);
        plan.workload.allowed.insert(Status::io_error);
        run_megaraid(seed, plan);
    });
}

// Requests under way at the end of a channel are cancelled, and end though the controller may never answer them.
TEST(MegaraidSession, LeavesInTheMiddle) {
    for_each_seed(50, [](std::uint64_t seed) {
        MegaraidPlan plan = megaraid_plan({.completions = seed % 2 == 0,
                                           .aborts = seed % 5 == 0,
                                           .crashes = seed % 3 == 0,
                                           .disk_hang = seed % 4 == 0},
                                          when_lost);
        plan.workload.allowed.insert(Status::aborted);
        plan.leaves = true;
        plan.rounds = 3;
        run_megaraid(seed, plan);
    });
}

// A controller that does not come up as it should: it is operational in the end, or one sentence says why not, within
// the bounds of the start; and the next one that is whole serves.
TEST(MegaraidSession, StartsOrSaysWhyNot) {
    for_each_seed(150, [](std::uint64_t seed) {
        SeededRandom random(seed * 2 + 1);
        const MegaraidOptions options = draw_megaraid_options(random);
        MegaraidWorld world(seed, options);
        const Time begun = world.sim.now();
        const bool opened = world.open(draw_megaraid_start_faults(random));
        const Duration took = world.sim.now() - begun;
        world.tell(opened ? "operational" : world.error);
        EXPECT_LE(took, 1h) << world.error;
        EXPECT_EQ(opened, world.error.empty());
        if (opened) world.card().heal();
        world.close();
        EXPECT_LE(world.sim.now() - begun - took, 1h) << "to stop it";
        world.sim.run_for(1s);
        EXPECT_TRUE(world.open()) << world.error;
    });
}

// Whoever is told of a change may let go of everything; then the control path itself had the device last.
TEST(MegaraidSession, EndsThoughItsOwnControlPathLetsGoLast) {
    for_each_seed(20, [](std::uint64_t seed) {
        SeededRandom random(seed * 2 + 1);
        MegaraidWorld world(seed, draw_megaraid_options(random));
        ASSERT_TRUE(world.open()) << world.error;
        const MegaraidUnit& unit = world.units().front();
        auto device = world.device(unit);
        const std::weak_ptr<Device> left = device;
        bool told = false;
        device->on_change([&] {
            told = true;
            device.reset();
            world.close();
        });
        unit.disk->resize(world.options().disk.bytes / 2);
        EXPECT_TRUE(world.run_until([&] { return left.expired(); }, 1h));
        EXPECT_TRUE(told);
        EXPECT_TRUE(world.open()) << world.error;
    });
}

TEST(MegaraidSession, ReportsItsDisksErrors) {
    for_each_seed(30, [](std::uint64_t seed) {
        MegaraidPlan plan = megaraid_plan({.completions = true}, when_told_so);
        plan.disk_errors_per_mille = 30;
        run_megaraid(seed, plan);
    });
}

TEST(MegaraidSession, SurvivesEverythingAtOnce) {
    for_each_seed(60, [](std::uint64_t seed) {
        MegaraidPlan plan = megaraid_plan({.errors = true,
                                           .completions = true,
                                           .slow = true,
                                           .aborts = true,
                                           .crashes = true,
                                           .management = seed % 3 == 0,
                                           .changes = true,
                                           .disk_hang = true,
                                           .dies = seed % 5 == 0},
                                          when_told_so);
        plan.disk_errors_per_mille = 5;
        plan.rounds = 2;
        plan.recovers = seed % 3 != 0;
        run_megaraid(seed, plan);
    });
}

TEST(MegaraidSession, IsTheSameForTheSameSeed) {
    for_each_seed(8, [](std::uint64_t seed) {
        MegaraidPlan plan = megaraid_plan(
            {.errors = true, .completions = true, .aborts = true, .crashes = true, .changes = true, .disk_hang = true},
            when_told_so);
        EXPECT_EQ(run_megaraid(seed, plan), run_megaraid(seed, plan));
    });
}

}  // namespace
}  // namespace mqblk::simulation
