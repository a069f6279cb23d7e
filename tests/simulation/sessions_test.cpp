// SPDX-License-Identifier: Apache-2.0
//
// Sessions by the dozen, in families of faults. What holds in all of them: every operation ends once and within its
// bound, no acknowledged write is lost or torn, nothing leaks, the target serves a fresh host afterwards.
#include "simulation/seeds.h"
#include "simulation/session.h"

#include <gtest/gtest.h>

namespace mqblk::simulation {
namespace {

using namespace std::chrono_literals;

// What I/O may end with when connections are lost again and again, or a command is not answered.
const std::set<Status> when_lost{Status::transport, Status::timed_out, Status::aborted};

SessionPlan plan_with(FaultOptions faults) {
    SessionPlan plan;
    plan.faults = faults;
    plan.workload.allowed = when_lost;
    return plan;
}

TEST(Session, WithoutFaultsEverythingSucceeds) {
    for_each_seed(40, [](std::uint64_t seed) { run_session(seed, {}); });
}

TEST(Session, SurvivesConnectionsThatEndAtAnyByte) {
    for_each_seed(40, [](std::uint64_t seed) { run_session(seed, plan_with({.cut = true, .close = true})); });
}

TEST(Session, SurvivesStallsAndSilence) {
    for_each_seed(40, [](std::uint64_t seed) { run_session(seed, plan_with({.stall = true, .drop = true})); });
}

// A command that the network holds back for longer than the host waits is sent again on a new connection, and must not
// be carried out after that from the old one. That these can fail: without the call of fence() in
// ControllerCore::bring_up they do, within the first 200 seeds.
SessionPlan plan_with_long_stalls() {
    SessionPlan plan = plan_with({.cut = true, .stall = true, .longest_stall = 8s});
    plan.workload.operations = 600;
    plan.workload.read_weight = 10;
    plan.workload.most_bytes = 32u << 10;
    plan.adjust = [](WorldOptions& world, driver::nvme::HostOptions& host) {
        world.disk.bytes = 128u << 10;
        host.ctrl_loss_tmo = 600s;
    };
    return plan;
}

TEST(Session, SurvivesStallsLongerThanItsTimeOuts) {
    for_each_seed(60, [](std::uint64_t seed) { run_session(seed, plan_with_long_stalls()); });
}

// By the end of each old connection, or by time: the network must not hold anything back for longer than the keep-alive
// time-out, for a controller whose host is silent lives that long.
TEST(Session, SurvivesLongStallsWithATargetThatCannotEndControllers) {
    for_each_seed(40, [](std::uint64_t seed) {
        SessionPlan plan = plan_with_long_stalls();
        const auto adjust = plan.adjust;
        plan.adjust = [adjust](WorldOptions& world, driver::nvme::HostOptions& host) {
            adjust(world, host);
            world.target.cross_controller_reset = false;
            host.keep_alive = 10s;
        };
        run_session(seed, plan);
    });
}

TEST(Session, SurvivesRefusalsOutagesAndRestarts) {
    for_each_seed(40, [](std::uint64_t seed) {
        run_session(seed, plan_with({.cut = true, .refuse = true, .down = true, .restart = true}));
    });
}

TEST(Session, KeepsWhatWasFlushedOverAPowerCut) {
    for_each_seed(40, [](std::uint64_t seed) { run_session(seed, plan_with({.cut = true, .power_cut = true})); });
}

TEST(Session, SurvivesABadNetworkAndASlowDisk) {
    for_each_seed(40, [](std::uint64_t seed) {
        run_session(seed, plan_with({.stall = true, .conditions = true, .disk_hang = true}));
    });
}

TEST(Session, SurvivesEverythingAtOnce) {
    for_each_seed(60, [](std::uint64_t seed) {
        FaultOptions faults;
        faults.cut = faults.close = faults.stall = faults.drop = faults.refuse = faults.down = faults.restart =
            faults.power_cut = faults.conditions = faults.disk_hang = true;
        SessionPlan plan = plan_with(faults);
        plan.hosts = 2;
        plan.workload.operations = 80;
        run_session(seed, plan);
    });
}

TEST(Session, ReportsADisksErrorsAndGoesOn) {
    for_each_seed(40, [](std::uint64_t seed) {
        SessionPlan plan;
        plan.disk_errors_per_mille = 30;
        plan.workload.allowed = {Status::medium_error, Status::io_error};
        run_session(seed, plan);
    });
}

TEST(Session, SharesADiskBetweenTwoHosts) {
    for_each_seed(40, [](std::uint64_t seed) {
        SessionPlan plan = plan_with({.cut = true, .refuse = true});
        plan.hosts = 2;
        run_session(seed, plan);
    });
}

TEST(Session, IsTheSameForTheSameSeed) {
    for_each_seed(10, [](std::uint64_t seed) {
        const SessionPlan plan = plan_with({.cut = true, .stall = true, .down = true, .conditions = true});
        EXPECT_EQ(run_session(seed, plan), run_session(seed, plan));
    });
}

}  // namespace
}  // namespace mqblk::simulation
