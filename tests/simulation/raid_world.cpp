// SPDX-License-Identifier: Apache-2.0
//
// The rule for what may be lost: never more than two members at once, counted as the array counts them. Without the
// journal a power cut while a member had just been lost may need that member again; then it comes back.
#include "simulation/raid_world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace mqblk::simulation {

using namespace std::chrono_literals;

namespace {
constexpr std::uint64_t member_bytes = 384u << 10;
}

RaidWorld::RaidWorld(std::uint64_t seed) : Scene(seed), home_(sim.make_reactor()) {
    disk_options_.bytes = member_bytes;
    disk_options_.block_bytes = random.below(2) == 0 ? 512 : 4096;
    disk_options_.queues = 4;
    disk_options_.depth = 4u << random.below(4);
    disk_options_.write_cache = random.below(4) != 0;
    disk_options_.fua = random.below(2) == 0;
    data_ = 3 + static_cast<unsigned>(random.below(4));
    chunk_ = 4096u << random.below(2);
    journal_always_ = random.below(3) == 0;
    for (unsigned i = 0; i < data_ + 2; ++i) slots_.push_back({make_disk(), nullptr, false});
    for (int i = 0; i < 2; ++i) users_.push_back(sim.make_reactor());
}

RaidWorld::~RaidWorld() {
    close();
}

std::unique_ptr<SimulatedDisk> RaidWorld::make_disk() {
    return std::make_unique<SimulatedDisk>(sim.random(), disk_options_);
}

void RaidWorld::close() {
    workloads_.clear();
    device_.reset();
}

/// The error, if it does not start.
std::optional<std::string> RaidWorld::open(bool create, bool lost_too, bool former) {
    driver::raid::Options options;
    options.name = "raid6";
    options.chunk = chunk_;
    options.create = create;
    options.journal_always = create && journal_always_;
    options.queues = 1 + static_cast<unsigned>(random.below(3));
    options.depth = 4u << random.below(4);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        Slot& slot = slots_[i];
        SimulatedDisk* const disk = former && slot.former != nullptr ? slot.former.get() : slot.disk.get();
        const bool there = !slot.lost || lost_too;
        if (there) disk->refuse(false);
        options.members.push_back({there ? disk->device() : nullptr, fmt::format("disk {}", i), false});
    }
    // What says who a member is stands on it, so the order is as it comes.
    if (!create) std::ranges::rotate(options.members, options.members.begin() + 1);
    std::optional<Result<std::shared_ptr<Device>>> result;
    driver::raid::Home home{home_.get(), [](const std::function<void()>& work) { work(); }};
    spawn(driver::raid::open(options, home),
          [&](Result<std::shared_ptr<Device>> opened) { result = std::move(opened); });
    if (!run_until([&] { return result.has_value(); }, 1h)) return "it takes more than an hour";
    if (!*result) return (*result).error().message();
    device_ = std::move(**result);
    return std::nullopt;
}

bool RaidWorld::create() {
    const auto error = open(true, false, false);
    if (error) {
        ADD_FAILURE() << *error;
        return false;
    }
    model_ = std::make_unique<Model>(device_->sectors() * sector_bytes / disk_options_.block_bytes,
                                     disk_options_.block_bytes);
    return true;
}

void RaidWorld::start_workloads(bool crash_comes) {
    WorkloadOptions options;
    options.depth = 1 + static_cast<unsigned>(random.below(8));
    options.operations = 40 + static_cast<unsigned>(random.below(100));
    options.most_bytes = std::uint64_t{chunk_} * data_ * 3;
    options.longest_pause = 100us * (1u << 2 * random.below(4));
    options.bound = 10min;
    if (crash_comes) {
        options.allowed = {Status::io_error, Status::medium_error, Status::transport, Status::aborted, Status::removed};
    }
    for (unsigned i = 0; i < users_.size(); ++i) {
        workloads_.push_back(
            std::make_unique<Workload>(*this, fmt::format("user {}", i), device_, *users_[i], *model_, options));
    }
    for (const auto& workload : workloads_) workload->start();
}

/// Members that the array does not count on, or must not count on any more.
unsigned RaidWorld::unavailable() const {
    const auto report = driver::raid::report(*device_);
    unsigned count = 0;
    for (unsigned i = 0; i < slots_.size(); ++i)
        count += report->members[i].state != "in sync" || slots_[i].lost || flaky_.contains(i);
    return count;
}

void RaidWorld::lose_one() {
    if (unavailable() >= 2) return;
    const auto i = static_cast<unsigned>(random.below(slots_.size()));
    if (slots_[i].lost) return;
    tell(fmt::format("disk {} is lost", i));
    slots_[i].lost = true;
    slots_[i].disk->refuse(true);
}

void RaidWorld::replace_one() {
    const auto report = driver::raid::report(*device_);
    for (unsigned i = 0; i < slots_.size(); ++i) {
        Slot& slot = slots_[i];
        const bool missing = report->members[i].state == "missing";
        if (!missing || slot.former != nullptr) continue;
        tell(fmt::format("disk {} is replaced", i));
        if (slot.former) graveyard_.push_back(std::move(slot.former));
        slot.former = std::exchange(slot.disk, make_disk());
        slot.former->refuse(true);
        slot.lost = false;
        flaky_.erase(i);
        slot.former->set_errors(0);
        const auto done =
            driver::raid::replace(*device_, i, {slot.disk->device(), fmt::format("new {}", i), false}, false);
        // It may have failed to fit in: then it waits.
        if (!done) {
            tell(done.error().message());
            graveyard_.push_back(std::exchange(slot.disk, std::exchange(slot.former, nullptr)));
            slot.lost = true;
            slot.disk->refuse(true);
        } else {
            ++rebuilds_;
        }
        return;
    }
}

void RaidWorld::mishap() {
    switch (random.below(4)) {
        case 0:
        case 1:
            return lose_one();
        case 2:
            return replace_one();
        default: {
            if (unavailable() >= 2) return;
            const auto i = static_cast<unsigned>(random.below(slots_.size()));
            if (slots_[i].lost) return;
            tell(fmt::format("disk {} has errors", i));
            flaky_.insert(i);
            slots_[i].disk->set_errors(20);
        }
    }
}

void RaidWorld::cut_power() {
    tell("the power fails");
    const auto report = driver::raid::report(*device_);
    journaled_ = report->journal;
    for (Slot& slot : slots_) {
        if (!slot.lost) slot.disk->power_cut();
        slot.disk->refuse(true);
    }
    model_->power_cut();
    crashed_ = true;
    ++crashes_;
}

bool RaidWorld::live() {
    const bool crash = random.below(3) != 0;
    start_workloads(crash);
    const auto finished = [this] {
        return std::ranges::all_of(workloads_, [](const auto& each) { return each->finished(); });
    };
    for (std::uint64_t mishaps = random.below(4); mishaps > 0; --mishaps) {
        static_cast<void>(run_until(finished, 100us * (1 + random.below(200))));
        mishap();
    }
    if (crash) {
        static_cast<void>(run_until(finished, 10us * (1 + random.below(2000))));
        cut_power();
    } else if (!run_until(finished, 1h)) {
        ADD_FAILURE() << "operations do not end: " << workloads_[0]->pending() << workloads_[1]->pending() << story();
        return false;
    }
    workloads_.clear();
    if (!crash && !verify(*this, *device_, *users_[0], *model_)) {
        ADD_FAILURE() << "before it was closed: " << story();
        return false;
    }
    device_.reset();
    return !testing::Test::HasFailure();
}

bool RaidWorld::restart() {
    for (const unsigned i : std::exchange(flaky_, {})) slots_[i].disk->set_errors(0);
    const bool replaced = std::ranges::any_of(slots_, [](const Slot& slot) { return slot.former != nullptr; });
    // More may be lost with the power than before it, where a journal was kept.
    const bool come_back = random.below(2) == 0 && !crashed_;
    auto error = open(false, come_back, false);
    // One that was lost before it was told that it belongs to the array is refused.
    if (error && come_back && error->find("holds no array") != std::string::npos) {
        tell(*error);
        error = open(false, false, false);
    }
    if (error) {
        tell(*error);
        if (!crashed_ || (journaled_ && !replaced)) {
            ADD_FAILURE() << "it does not start: " << *error << "\n" << story();
            return false;
        }
        error = open(false, true, false);
        bool former = false;
        if (error) {
            tell(*error);
            error = open(false, true, true);
            former = true;
        }
        if (error) {
            ADD_FAILURE() << "it does not start with all that it had: " << *error << "\n" << story();
            return false;
        }
        for (Slot& slot : slots_) {
            slot.lost = false;
            if (former && slot.former != nullptr) std::swap(slot.former, slot.disk);
        }
    }
    const auto report = driver::raid::report(*device_);
    for (unsigned i = 0; i < slots_.size(); ++i) {
        Slot& slot = slots_[i];
        slot.lost = report->members[i].state == "missing";
        if (slot.former != nullptr) graveyard_.push_back(std::move(slot.former));
    }
    crashed_ = false;
    tell(fmt::format("started: {}, {} lost", report->state,
                     std::ranges::count_if(slots_, [](const Slot& slot) { return slot.lost; })));
    if (!verify(*this, *device_, *users_[0], *model_)) {
        ADD_FAILURE() << "after it was started: " << story();
        return false;
    }
    return !testing::Test::HasFailure();
}

bool RaidWorld::scrub() {
    for (unsigned i = 0; i < slots_.size(); ++i) {
        if (!slots_[i].lost) continue;
        replace_one();
        static_cast<void>(run_until([this] { return driver::raid::report(*device_)->state == "optimal"; }, 1min));
    }
    if (!run_until([this] { return driver::raid::report(*device_)->state == "optimal"; }, 10min)) {
        ADD_FAILURE() << "it is never rebuilt: " << driver::raid::report(*device_)->state << story();
        return false;
    }
    // One disk for each of them: then no stripe has two wrong chunks.
    const std::uint64_t data_begin = member_bytes / 2;
    const auto wrong = random.below(slots_.size());
    for (int i = 0; i < 20; ++i)
        slots_[wrong].disk->damage((data_begin + random.below(member_bytes / 4)) / 8 * 8, 1 + random.below(600));
    tell(fmt::format("disk {} is damaged in silence", wrong));
    if (const auto begun = driver::raid::scrub(*device_); !begun) {
        ADD_FAILURE() << begun.error().message();
        return false;
    }
    if (!run_until([this] { return !driver::raid::report(*device_)->scrub.running; }, 10min)) {
        ADD_FAILURE() << "the scrub does not end" << story();
        return false;
    }
    const auto report = driver::raid::report(*device_);
    EXPECT_GT(report->scrub.repaired, 0u) << story();
    EXPECT_EQ(report->scrub.failed, 0u) << story();
    EXPECT_EQ(report->scrub.done, report->scrub.all) << story();
    if (!verify(*this, *device_, *users_[0], *model_)) {
        ADD_FAILURE() << "after the scrub: " << story();
        return false;
    }
    device_.reset();
    return !testing::Test::HasFailure();
}

}  // namespace mqblk::simulation
