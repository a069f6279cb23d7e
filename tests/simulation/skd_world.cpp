// SPDX-License-Identifier: Apache-2.0
#include "simulation/skd_world.h"

#include "pci/in_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace mqblk::simulation {

namespace {

using namespace std::chrono_literals;

template <class T, std::size_t count>
T one_of(Random& random, const T (&values)[count]) {
    return values[random.below(count)];
}

}  // namespace

SkdOptions draw_skd_options(Random& random) {
    SkdOptions options;
    options.disk.bytes = 1u << 20;
    options.disk.block_bytes = 512;
    options.disk.write_cache = random.below(4) != 0;
    options.disk.fua = random.below(2) == 0;
    options.disk.queues = 1;
    options.disk.depth = 4u << random.below(5);
    options.card.max_commands = one_of<std::uint16_t>(random, {1, 5, 64, 200, 256});
    options.card.profile = random.below(3) == 0 ? device::skd::Profile::s1120 : device::skd::Profile::none;
    options.card.boot_time = one_of<Duration>(random, {0ms, 1ms, 2s});
    options.card.reset_time = one_of<Duration>(random, {0ms, 1ms, 300ms});
    options.driver.max_queue_depth = one_of<unsigned>(random, {1, 3, 32, 200});
    options.driver.max_req_per_msg = one_of<unsigned>(random, {1, 2, 14});
    options.driver.sgs_per_request = one_of<unsigned>(random, {1, 3, 256});
    options.driver.timeout = one_of<Duration>(random, {1s, 8s});
    options.driver.isr_type = one_of<driver::skd::IsrType>(
        random, {driver::skd::IsrType::legacy, driver::skd::IsrType::msi, driver::skd::IsrType::msix});
    options.reaches_everything = random.below(3) != 0;
    return options;
}

SkdWorld::SkdWorld(std::uint64_t seed, SkdOptions options)
    : Scene(seed), options_(std::move(options)), disk_(random, options_.disk), home_(sim.make_reactor()) {}

SkdWorld::~SkdWorld() {
    close();
    EXPECT_EQ(disk_.outstanding(), 0u) << story();
}

bool SkdWorld::open(std::vector<device::skd::Fault> faults) {
    auto card_options = options_.card;
    card_options.faults = std::move(faults);
    auto card = device::skd::Card::create(disk_.device(), std::move(card_options));
    if (!card) throw std::runtime_error(card.error().message());
    card_ = card->get();
    auto function = pci::make_in_process(std::move(*card), *home_, {.reaches_everything = options_.reaches_everything});
    if (!function) throw std::runtime_error(function.error().message());
    auto device = driver::skd::open(std::move(*function), home_, options_.driver);
    if (!device) {
        error = device.error().message();
        card_ = nullptr;
        return false;
    }
    device_ = std::move(*device);
    return true;
}

void SkdWorld::close() {
    card_ = nullptr;
    device_.reset();
}

}  // namespace mqblk::simulation
