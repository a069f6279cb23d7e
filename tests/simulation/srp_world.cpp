// SPDX-License-Identifier: Apache-2.0
#include "simulation/srp_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

namespace mqblk::simulation {

namespace {

using namespace std::chrono_literals;

template <class T, std::size_t count>
T one_of_srp(Random& random, const T (&values)[count]) {
    return values[random.below(count)];
}

constexpr Duration login_limit = 10min;

}  // namespace

void SrpCourier::carry(std::uint64_t connection, unsigned from_side, std::function<void()> arrive) {
    seen_ = std::max(seen_, connection + 1);
    if (down_) dead_.insert(connection);
    if (is_dead(connection)) return;
    Time& last = last_[{connection, from_side}];
    const Duration delay(
        static_cast<Duration::rep>(random_.below(static_cast<std::uint64_t>(longest_delay_.count()) + 1)));
    last = std::max(last, sim_.now() + delay);
    sim_.at(last, [this, connection, arrive = std::move(arrive)] {
        if (!is_dead(connection)) arrive();
    });
}

void SrpCourier::cut() {
    dead_below_ = seen_;
    dead_.clear();
    last_.clear();
}

SrpOptions draw_srp_options(Random& random) {
    SrpOptions options;
    options.disk.bytes = 1u << 20;
    options.disk.block_bytes = 512;
    options.disk.write_cache = random.below(4) != 0;
    options.disk.fua = random.below(2) == 0;
    options.disk.queues = 4;
    options.disk.depth = 4u << random.below(5);
    auto& driver = options.driver;
    driver.ch_count = 3;  // the last one would be a shared queue
    driver.queue_size = one_of_srp<unsigned>(random, {1, 3, 16, 62});
    driver.cmd_sg_entries = one_of_srp<unsigned>(random, {1, 2, 12, 255});
    driver.allow_ext_sg = random.below(2) == 0;
    driver.use_imm_data = random.below(2) == 0;
    driver.prefer_fr = random.below(2) == 0;
    driver.timeout = one_of_srp<Duration>(random, {1s, 8s});
    driver.task_bound = one_of_srp<Duration>(random, {500ms, 5s});
    driver.reconnect_delay = one_of_srp<Duration>(random, {100ms, 2s});
    driver.fast_io_fail_tmo = one_of_srp<Duration>(random, {5s, 15s});
    driver.login_bound = 5s;
    options.target.login.queue_depth = one_of_srp<std::uint32_t>(random, {2, 4, 128});
    options.target.max_transfer_bytes = 1u << 20;
    options.target.buffer_bytes = 2u << 20;
    options.limits.fast_registration = random.below(3) != 0;
    options.limits.pools = random.below(3) != 0;
    options.limits.first_byte_offset = random.below(2) == 0;
    options.limits.cheap_ranges = random.below(2) == 0;
    options.limits.max_pages = one_of_srp<std::uint32_t>(random, {0, 128, 512});
    options.longest_delay = one_of_srp<Duration>(random, {0ms, 20us, 1ms, 30ms});
    return options;
}

SrpWorld::SrpWorld(std::uint64_t seed, SrpOptions options)
    : Scene(seed),
      options_(std::move(options)),
      disk_(random, options_.disk),
      far_(sim.make_reactor()),
      near_{sim.make_reactor(), sim.make_reactor(), sim.make_reactor()},
      courier_(sim, random, options_.longest_delay),
      network_(
          {.limits = options_.limits,
           .refuse_registration = [this] { return refused_per_mille != 0 && random.below(1000) < refused_per_mille; }},
          &courier_) {
    auto target = device::srp::Target::create(options_.target, {{.lun = 0, .device = disk_.device()}});
    if (!target) throw std::runtime_error(target.error().message());
    target_ = std::move(*target);
    if (auto ok = target_->listen(network_, *far_, {.host = "target"}); !ok)
        throw std::runtime_error(ok.error().message());
}

SrpWorld::~SrpWorld() {
    close();
    target_->stop_listening(*far_);
    target_->leave(*far_);
    sim.run_for(1s);
    EXPECT_EQ(disk_.outstanding(), 0u) << story();
}

bool SrpWorld::open() {
    std::optional<Result<std::shared_ptr<driver::srp::Initiator>>> result;
    spawn(driver::srp::Initiator::connect(*near_[2], network_, {.host = "target"}, options_.driver, nullptr),
          [&](auto value) { result = std::move(value); });
    if (!run_until([&] { return result.has_value(); }, login_limit)) throw std::runtime_error("the login hangs");
    if (!result->has_value()) {
        error = result->error().message();
        return false;
    }
    initiator_ = std::move(**result);
    auto device = initiator_->device(0);
    if (!device) {
        error = device.error().message();
        return false;
    }
    device_ = std::move(*device);
    return true;
}

void SrpWorld::close() {
    device_.reset();
    initiator_.reset();
    sim.run_for(1s);
}

}  // namespace mqblk::simulation
