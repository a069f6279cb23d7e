// SPDX-License-Identifier: Apache-2.0
#include "simulation/megaraid_world.h"

#include "pci/in_process.h"
#include "reactor/reactor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace mqblk::simulation {

using driver::megaraid::Kind;

namespace {

using namespace std::chrono_literals;

constexpr unsigned most_simulated_queues = 4;

template <class T, std::size_t count>
T option_from(Random& random, const T (&values)[count]) {
    return values[random.below(count)];
}

template <class T>
T need_made(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message());
    return std::move(*result);
}

}  // namespace

MegaraidOptions draw_megaraid_options(Random& random) {
    MegaraidOptions options;
    options.disk.bytes = 1u << 20;
    options.disk.block_bytes = 512;
    options.disk.write_cache = random.below(4) != 0;
    options.disk.fua = random.below(2) == 0;
    options.disk.queues = 1;
    options.disk.depth = 4u << random.below(5);
    options.jbods = 1 + static_cast<unsigned>(random.below(2));
    for (auto volumes = random.below(3); volumes > 0; --volumes)
        options.volumes.emplace_back(option_from(random, {"0x2", "0x3", "1", "5x3", "6x5"}));
    options.card.device_id =
        random.below(2) == 0 ? wire::megaraid::pci_device::invader : wire::megaraid::pci_device::thunderbolt;
    options.card.max_commands = option_from<unsigned>(random, {32, 33, 64, 1008});
    options.card.reply_queues = option_from<unsigned>(random, {2, 3, 16});
    options.card.chain_frame_bytes = option_from<unsigned>(random, {1024, 4096});
    options.card.extended_maps = random.below(2) == 0;
    options.card.fast_path = random.below(4) != 0;
    options.card.task_management = random.below(4) != 0;
    options.card.reset_time = option_from<Duration>(random, {0ms, 1ms, 7s});
    options.driver.queues = 1 + static_cast<unsigned>(random.below(most_simulated_queues));
    options.driver.timeout = option_from<Duration>(random, {1s, 5s, 30s});
    options.driver.reset_settle = option_from<Duration>(random, {0ms, 3s});
    options.reaches_everything = random.below(3) != 0;
    return options;
}

/// A request is lost in a bounded number of resets. Before each it may be the last of all to be late, and each before
/// it climbs the ladder alone; a reset may take all its tries, and its scan ask everyone everything in vain.
Duration longest_megaraid_operation(const MegaraidOptions& options) {
    const auto& driver = options.driver;
    constexpr int times_sent = 4;
    const Duration ladder = 2 * (driver.task_bound + driver.ended_bound);
    const Duration reset = driver.reset_tries * (driver.state_bound + driver.init_bound + 4 * driver.dcmd_bound);
    const Duration scan = 2 * driver.dcmd_bound + 10 * (driver.scsi_bound + driver.task_bound);
    return times_sent * (2 * driver.timeout + 10 * ladder + reset + scan);
}

MegaraidWorld::MegaraidWorld(std::uint64_t seed, MegaraidOptions options)
    : Scene(seed), options_(std::move(options)), control_(sim.make_reactor()) {
    for (unsigned i = 1; i < most_simulated_queues; ++i) io_.push_back(sim.make_reactor());
    for (unsigned i = 0; i < options_.jbods; ++i) add_unit(Kind::disk, i);
    for (unsigned i = 0; i < options_.volumes.size(); ++i) add_unit(Kind::volume, i);
}

MegaraidWorld::~MegaraidWorld() {
    close();
    for (const MegaraidUnit& unit : units_) EXPECT_EQ(unit.disk->outstanding(), 0u) << unit.name() << "\n" << story();
}

void MegaraidWorld::add_unit(Kind kind, unsigned id) {
    units_.push_back(
        {.kind = kind,
         .id = id,
         .disk = std::make_unique<SimulatedDisk>(random, options_.disk),
         .model = std::make_unique<Model>(options_.disk.bytes / options_.disk.block_bytes, options_.disk.block_bytes)});
}

bool MegaraidWorld::open(std::vector<device::megaraid::Fault> faults) {
    auto card_options = options_.card;
    card_options.faults = std::move(faults);
    std::vector<std::shared_ptr<Device>> disks;
    std::vector<device::megaraid::VolumeSpec> volumes;
    for (MegaraidUnit& unit : units_) {
        if (unit.kind == Kind::disk) {
            unit.id = static_cast<unsigned>(disks.size());  // of one that was added later, another one
            disks.push_back(unit.disk->device());
        } else {
            volumes.push_back(need_made(device::megaraid::parse_volume_shape(options_.volumes[unit.id])));
            volumes.back().device = unit.disk->device();
        }
    }
    auto card = need_made(device::megaraid::Controller::create(std::move(disks), volumes, std::move(card_options)));
    card_ = card.get();
    auto function = need_made(
        pci::make_in_process(std::move(card), *control_, {.reaches_everything = options_.reaches_everything}));
    auto adapter = driver::megaraid::Adapter::open(std::move(function), driver::megaraid::turned_control(*control_),
                                                   options_.driver);
    error = adapter ? "" : adapter.error().message();
    if (!adapter) {
        card_ = nullptr;
        return false;
    }
    adapter_ = std::move(*adapter);
    return true;
}

void MegaraidWorld::close() {
    card_ = nullptr;
    adapter_.reset();
}

std::shared_ptr<Device> MegaraidWorld::device(const MegaraidUnit& unit) {
    auto device = adapter_->device(unit.kind, unit.id);
    return device ? std::move(*device) : nullptr;
}

Reactor& MegaraidWorld::io(std::size_t index) {
    const std::size_t place = index % adapter_->queues();
    return place + 1 < adapter_->queues() ? *io_[place] : *control_;
}

void MegaraidWorld::add_disk() {
    // Disks and the members of volumes are counted in the order in which they came.
    const unsigned id = card_->topology().device_ids();
    add_unit(Kind::disk, id);
    if (auto added = card_->add_disk(units_.back().disk->device()); !added)
        ADD_FAILURE() << added.error().message() << "\n" << story();
    wake_card();
}

}  // namespace mqblk::simulation
